"""Commands beside queries: ``generate``, ``demo``, ``bench`` and ``kernels``."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from shlex import quote
from typing import Any

import skyband
from skyband.cli import options
from skyband.cli.signals import Stop
from skyband.errors import QueryError


def generate(
    name: str, rows: str, seed: str, out: str, rate: str, **shape: str | float | None
) -> None:
    """Write the first rows of a data set; ``shape`` is what some of them let people choose."""
    from skyband.cli.output import progress
    from skyband.datasets import dataset, write

    given: dict[str, Any] = {
        option: options.whole(value, f"--{option}", example=3) if isinstance(value, str) else value
        for option, value in shape.items()
        if value is not None
    }
    data = dataset(name.lower().replace("-", "_"), **given)
    count = options.whole(rows, "--rows")
    start = options.whole(seed, "--seed", least=0)
    pace: Any = options.choice(rate, "--rate", ("even", "bursty"))
    with progress.rows_done(f"generating {data.name}", count) as watch:
        before = 0

        def advance(done: int) -> None:
            nonlocal before
            watch(done - before)
            before = done

        written = write(data, out, rows=count, seed=start, rate=pace, progress=advance)
    ways = " ".join(f"--on {name}:{way}" for name, way in data.dimensions)
    meaning = f"dimensions: {ways}" if ways else f"score: {data.score}"
    if data.seen is not None:
        meaning = "objects: --id {} --stream {} --value {}".format(*data.seen)
    print(f"skyband: wrote {written:,} rows to {out}; {meaning}", file=sys.stderr)


def demo(
    seconds: str | None, seed: str, out: str | None, engine: str, serve: str | None = None
) -> int:
    """Show a market for so many seconds, on Spark or on the local engine; return the exit code."""
    options.choice(engine, "--engine", ("spark", "local"))
    number = options.whole(seed, "--seed", least=0, example=0)
    if engine == "local":
        if serve is not None:
            raise QueryError(
                "--serve is given with --engine local", "a stream on Spark", "leave --engine out"
            )
        from skyband.demo.local import run_locally

        length = _seconds(seconds or "20")
        run_locally(length, number, None if out is None else _parquet_file(out))
        return 0
    length = 0.0 if seconds == "0" else _seconds(seconds or "60")
    folder = _directory(out or "skyband-demo")
    with Stop() as stop:
        from skyband.demo.streams import run_streams

        run_streams(length, number, folder, stop.requested, serve)
    return stop.code


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise QueryError(f"--seconds is {text!r}", "a number above zero", "write --seconds 20")
    return seconds


def _directory(out: str) -> Path:
    """A directory that can be made, checked before anything runs."""
    path = Path(out)
    if path.exists() and not path.is_dir():
        raise QueryError(f"--out {out!r} is a file", "a directory", "choose another name")
    _check_parent(path, out, "a directory in one that exists", "a writable place")
    return path


def _parquet_file(out: str) -> Path:
    """A file that can be written, checked before anything runs."""
    path = Path(out)
    if path.suffix.lower() != ".parquet":
        named = quote(str(path.with_suffix(".parquet"))) if path.name else ""
        fix = f"write --out {named}" if named else "add a file name"
        raise QueryError(f"--out is {out!r}", "a file that ends in .parquet", fix)
    if path.is_dir():
        raise QueryError(f"--out {out!r} is a directory", "a file", "add a file name")
    _check_parent(path, out, "a file in a directory that exists", "a writable directory")
    return path


def _check_parent(path: Path, out: str, existing: str, writable: str) -> None:
    if not path.parent.is_dir():
        raise QueryError(f"--out is {out!r}", existing, f"mkdir -p {path.parent}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise QueryError(f"--out {out!r} may not be written", writable)


def bench(
    words: list[str],
    quick: bool,
    as_json: bool,
    rows: int | None = None,
    server: str | None = None,
) -> int:
    """Run the benchmark of the repository that the words name and return its exit code."""
    root = Path(skyband.__file__).resolve().parents[2]
    if not (root / "benchmarks" / "__init__.py").is_file():
        raise QueryError(
            "the benchmarks are not here",
            "Skyband run from its repository, which they come with",
            "clone the repository and run make setup",
        )
    sys.path.insert(0, str(root))
    import benchmarks

    return int(benchmarks.run(words, quick=quick, as_json=as_json, rows=rows, server=server))


def kernels(forget: bool) -> None:
    """Print where compiled kernels are and how large they are, or delete them."""
    from skyband.kernels.jit import cache_folder, forget_compiled

    folder = cache_folder()
    if forget:
        print(f"deleted {_megabytes(forget_compiled(True))} of compiled kernels")
        return
    others = [other for other in folder.parent.glob("*") if other != folder]
    print(f"{folder}: {_megabytes(_size(folder))}")
    if others:
        size = _megabytes(sum(_size(other) for other in others))
        print(f"of other versions of the sources: {size}; skyband kernels --forget deletes all")


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
