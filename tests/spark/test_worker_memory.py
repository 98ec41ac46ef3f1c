"""What a worker of Spark leaves out when it looks for garbage."""

from __future__ import annotations

import gc
import sys
from functools import cache
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from skyband.spark.state import worker_memory


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many modules were imported each time that all that is alive was exempt."""
    times: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: times.append(len(sys.modules)))
    monkeypatch.setattr(worker_memory, "_leave_out", cache(worker_memory._leave_out.__wrapped__))
    return times


def test_other_processes_collect_as_ever(frozen: list[int]) -> None:
    worker_memory.leave_out_imports()
    assert frozen == []


def test_a_worker_does_it_again_only_for_new_modules(
    frozen: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = ModuleType("__main__")
    daemon.__spec__ = ModuleSpec("pyspark.daemon", None)
    monkeypatch.setitem(sys.modules, "__main__", daemon)
    worker_memory.leave_out_imports()
    worker_memory.leave_out_imports()
    assert len(frozen) == 1
    monkeypatch.setitem(sys.modules, "imported_later", ModuleType("imported_later"))
    worker_memory.leave_out_imports()
    assert frozen[1] == frozen[0] + 1
