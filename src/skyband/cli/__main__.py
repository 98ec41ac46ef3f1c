"""``python -m skyband.cli`` is ``skyband``."""

from __future__ import annotations

import sys

from skyband.cli import main

if __name__ == "__main__":
    sys.exit(main())
