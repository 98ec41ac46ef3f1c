"""``python -m benchmarks.peers.child NAME``: one peer, asked line by line.

A request is a line of JSON on standard input, a reply one on standard output: the seconds that the
answer took, or why there is none. The first reply says that the peer is ready.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path

from benchmarks.peers.question import Question

ANSWERING = {
    "duckdb": ("sql", "direct"),
    "duckdb-panes": ("sql", "by_panes"),
    "polars": ("frames", "direct"),
    "polars-panes": ("frames", "by_panes"),
    "skyband-local": ("local", "answer"),
    "spark": ("spark", "native"),
    "skyband": ("spark", "from_frame"),
    "skyband-scan": ("spark", "from_files"),
}
"""The module and the function of each peer."""


def main(name: str) -> None:
    """Answer requests until there are no more."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # libraries may print to standard output
    module, function = ANSWERING[name]
    peer = import_module(f"benchmarks.peers.{module}")
    getattr(peer, "start", lambda: None)()
    replies.write('{"ready": true}\n')
    for line in sys.stdin:
        request = json.loads(line)
        question = Question(**request["question"])
        try:
            getattr(peer, "prepare", lambda _: None)(question)
            began = time.perf_counter()
            getattr(peer, function)(question, Path(request["source"]), Path(request["target"]))
            reply: dict[str, object] = {"seconds": time.perf_counter() - began}
        except Exception as error:  # whatever it is goes to who asked
            reply = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
        replies.write(json.dumps(reply) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
