from __future__ import annotations

import os
from typing import Any

import hypothesis
import pytest

# starting Spark takes seconds; what tests it asks for it
os.environ.setdefault("SKYBAND_ENGINE", "local")

hypothesis.settings.register_profile(
    "skyband", deadline=None, derandomize=bool(os.environ.get("CI"))
)
hypothesis.settings.load_profile("skyband")


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Mark what uses the Spark session, so that ``make check`` can do without it."""
    for item in items:
        if "spark" in item.fixturenames:
            item.add_marker(pytest.mark.spark)
