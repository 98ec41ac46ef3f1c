"""Databases for tests of sinks: real servers, from packages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The url of a PostgreSQL server that the tests of a module share."""
    with servers.postgres_folder() as folder, servers.postgres(folder) as url:
        yield url


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[servers.RedisServer]:
    """An empty Redis server, for one test."""
    server = servers.RedisServer(tmp_path)
    server.start()
    yield server
    server.stop()
