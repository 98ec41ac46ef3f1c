"""Tests; whoever imports them finds compiled kernels where all copies of the sources keep them."""

from __future__ import annotations

import os
from pathlib import Path

_CACHES = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
# compiling takes minutes: kernels of the same sources, in another clone or environment, will do
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(_CACHES) / "skyband" / "tests"))
# processes of tests import the same modules again and again: let the first keep their bytecode
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
