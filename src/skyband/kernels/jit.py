"""The only place that sets compile flags, and that says so when kernels compile."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

_PATIENCE = 1.0  # seconds after which a first call is surely compiling and not loading


_BLOCK: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


def _compiled(function: Function, **options: Any) -> Function:
    decorate: Any = numba.njit
    compiled: Function = decorate(**options)(function)
    return compiled


def lean(function: Function) -> Function:
    """Compile a building block that allocates nothing, for kernels to call, not for Python.

    No fast-math: scores are compared exactly, and infinities are ordinary numbers. No reference
    counting: a state of fifty arrays would otherwise cost a hundred atomic operations per call.
    """
    return _compiled(function, **_BLOCK, _nrt=False)


def entry(function: Function) -> Function:
    """Compile a kernel that Python calls and that allocates nothing."""
    return _compiled(function, **_BLOCK | {"no_cpython_wrapper": False, "_nrt": False})


def _forget_stale_kernels() -> None:
    """Delete compiled kernels that are older than any kernel source.

    Numba keeps compiled code as long as the file of the function itself is unchanged, but a kernel
    contains the kernels that it calls, from other files.
    """
    package = Path(__file__).parent.parent
    sources = [
        source
        for folder in ("kernels", "topk", "workload", "dominating", "incomplete", "totals")
        for source in package.glob(f"{folder}/**/*.py")
    ]
    newest = max(source.stat().st_mtime for source in sources)
    for folder in {source.parent / "__pycache__" for source in sources}:
        for index in folder.glob("*.nbi"):
            with suppress(OSError):
                if index.stat().st_mtime < newest:
                    index.unlink()


_forget_stale_kernels()


@contextmanager
def first_use(what: str) -> Iterator[None]:
    """Tell people on stderr that kernels are being compiled, if that takes more than a moment."""
    started = time.perf_counter()
    told = threading.Event()

    def tell() -> None:
        told.set()
        print(
            f"skyband: compiling the {what} kernels, once; later runs load them from disk ...",
            file=sys.stderr,
            flush=True,
        )

    timer = threading.Timer(_PATIENCE, tell)
    timer.daemon = True
    if not os.environ.get("NUMBA_DISABLE_JIT"):
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if told.is_set():
            took = time.perf_counter() - started
            print(f"skyband: compiled in {took:.0f} s", file=sys.stderr, flush=True)
