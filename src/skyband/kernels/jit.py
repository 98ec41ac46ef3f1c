"""The only place that sets compile flags, keeps compiled kernels, and says so when they compile."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core.caching import CacheImpl, UserProvidedCacheLocator

Function = TypeVar("Function", bound=Callable[..., Any])

_CONFIG: Any = numba.config
_PATIENCE = 1.0  # seconds after which a first call is surely compiling and not loading
_PACKAGE = Path(__file__).parent.parent
_FOLDERS = ("kernels", "topk", "workload", "dominating", "incomplete", "totals")
_BESIDE = ("engine/steps.py", "engine/rows.py")  # of the engine, what kernels are handed

_BLOCK: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


def lean(function: Function) -> Function:
    """Compile a building block that allocates nothing, for kernels to call, not for Python.

    No fast-math: scores are compared exactly, and infinities are ordinary numbers. No reference
    counting: a state of fifty arrays would otherwise cost a hundred atomic operations per call.
    """
    return _compiled(function, **_BLOCK, _nrt=False)


def entry(function: Function) -> Function:
    """Compile a kernel that Python calls and that allocates nothing."""
    return _compiled(function, **_BLOCK | {"no_cpython_wrapper": False, "_nrt": False})


def _compiled(function: Function, **options: Any) -> Function:
    decorate: Any = numba.njit
    with _cached_in(cache_folder()):
        compiled: Function = decorate(**options)(function)
    return compiled


class KernelLocator(UserProvidedCacheLocator):
    """Finds compiled kernels by the module that they are in, wherever the package lies.

    Numba would name a folder by its path, so that each copy of the same sources compiles anew.
    """

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """The folder of a module within that of its sources."""
        file = Path(py_file)
        if file.is_relative_to(_PACKAGE):
            return str(file.parent.relative_to(_PACKAGE))
        return str(super().get_suitable_cache_subpath(py_file))  # type: ignore[no-untyped-call]


_LOCATORS = ",".join(
    f"{locator.__module__}.{locator.__name__}"
    for locator in (KernelLocator, *CacheImpl._locator_classes)
)


@contextmanager
def _cached_in(folder: Path) -> Iterator[None]:
    """Let Numba keep what is decorated now in a folder; it asks for the place only then."""
    before = _CONFIG.CACHE_DIR, getattr(_CONFIG, "CACHE_LOCATOR_CLASSES", "")
    _CONFIG.CACHE_DIR = str(folder)
    _CONFIG.CACHE_LOCATOR_CLASSES = before[1] or _LOCATORS
    try:
        yield
    finally:
        _CONFIG.CACHE_DIR, _CONFIG.CACHE_LOCATOR_CLASSES = before


@functools.cache
def cache_folder() -> Path:
    """Where compiled kernels are kept: a folder named by the sources that they were made of.

    Numba looks at the file of a function alone, but a kernel contains the kernels that it calls,
    from other files. So each state of the sources has a folder of its own, and nothing stale is
    ever loaded.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    sources = [source for folder in _FOLDERS for source in (_PACKAGE / folder).rglob("*.py")]
    for source in sorted([*sources, *(_PACKAGE / name for name in _BESIDE)]):
        digest.update(source.read_bytes())
    return _caches() / digest.hexdigest()[:16]


def _caches() -> Path:
    """The folder of all caches: in the package, or in the user's own if that cannot be written."""
    if _CONFIG.CACHE_DIR:
        return Path(_CONFIG.CACHE_DIR) / "skyband"
    inside = _PACKAGE / "__pycache__"
    if os.access(inside if inside.exists() else _PACKAGE, os.W_OK):
        return inside / "compiled"
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "skyband" / "compiled"


def forget_compiled(all_of_them: bool) -> int:
    """Delete compiled kernels, all or those of other sources; returns how many bytes they took."""
    freed = 0
    for folder in _caches().glob("*"):
        if all_of_them or folder != cache_folder():
            freed += sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            shutil.rmtree(folder)
    return freed


@contextmanager
def first_use(what: str) -> Iterator[None]:
    """Tell people on stderr that kernels are being compiled, if that takes more than a moment."""
    started = time.perf_counter()
    announced = threading.Event()

    def announce() -> None:
        announced.set()
        print(
            f"skyband: compiling the {what} kernels, once; later runs load them from disk ...",
            file=sys.stderr,
            flush=True,
        )

    timer = threading.Timer(_PATIENCE, announce)
    timer.daemon = True
    if not os.environ.get("NUMBA_DISABLE_JIT"):
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if announced.is_set():
            took = time.perf_counter() - started
            print(f"skyband: compiled in {took:.0f} s", file=sys.stderr, flush=True)
