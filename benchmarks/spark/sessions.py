"""A session of Spark for one benchmark, and a folder of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def session_and_folder(
    settings: Mapping[str, str] | None = None, **options: Any
) -> Iterator[tuple[Any, Path]]:
    """Start Spark with an empty folder; stop it, and remove the folder, at the end."""
    from skyband.spark import session

    with tempfile.TemporaryDirectory(prefix="skyband-bench-") as name:
        all_settings = {"spark.sql.warehouse.dir": name, **(settings or {})}
        spark = session(app="skyband bench", settings=all_settings, **options)
        try:
            yield spark, Path(name)
        finally:
            spark.stop()
