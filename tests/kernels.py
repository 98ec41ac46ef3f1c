"""Call single kernels from tests: inner kernels cannot be called from Python otherwise."""

from __future__ import annotations

import functools
import os

import numba


@functools.cache
def callable_kernel(kernel):
    """A kernel that Python can call, compiled or interpreted as the suite runs."""
    if os.environ.get("NUMBA_DISABLE_JIT"):
        return kernel

    @numba.njit
    def call(*arguments):
        return kernel(*arguments)

    return call
