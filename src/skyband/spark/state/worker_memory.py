"""What a Python worker of Spark need not look through after each task.

Spark lets a worker that it will use again collect garbage after each task. To walk over all that
NumPy, pandas, PyArrow and PySpark made when they were imported takes 40 to 70 ms, most of what a
small micro-batch costs in Python; and none of that is ever garbage.
"""

from __future__ import annotations

import gc
import sys
from functools import cache

_DAEMON = "pyspark.daemon"  # the program that workers are forked from


def leave_out_imports() -> None:
    """Let a worker of Spark look for garbage only among what comes from now on.

    Once for each set of imported modules: what a task leaves behind is collected before. Nothing
    happens in a process that is not Spark's.
    """
    if getattr(sys.modules["__main__"].__spec__, "name", None) == _DAEMON:
        _leave_out(len(sys.modules))


@cache
def _leave_out(modules: int) -> None:
    """Exempt all that is alive; ``modules`` is how many are imported, so that once is enough."""
    gc.collect()
    gc.freeze()
