"""``python -m benchmarks scan --quick``: the benchmarks without the command line of Skyband."""

from __future__ import annotations

import argparse
import sys

from benchmarks import NAMES, run
from skyband.cli import signals
from skyband.errors import SkybandError


def main() -> int:
    """Parse the arguments, run, and turn an error into one line; a signal ends what was started."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="+", help=f"one of: {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="smaller streams, fewer settings")
    parser.add_argument("--json", action="store_true", help="one array of flat records")
    given = parser.parse_args()
    try:
        with signals.raised():
            return run(given.name, quick=given.quick, as_json=given.json)
    except signals.Terminated:
        return signals.code()
    except SkybandError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
