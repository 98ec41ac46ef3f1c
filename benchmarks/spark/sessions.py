"""A session of Spark for one benchmark, and a folder of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


@contextmanager
def session_and_folder(
    settings: Mapping[str, str] | None = None, **options: Any
) -> Iterator[tuple[Any, Path]]:
    """Start Spark with an empty folder; stop it, and remove the folder, at the end.

    Who is interrupted while Java has not answered yet cannot ask it anything more: it is ended.
    """
    from skyband.spark import java_process, session
    from skyband.spark.sessions import FAILURES

    with tempfile.TemporaryDirectory(prefix="skyband-bench-") as name:
        all_settings = {"spark.sql.warehouse.dir": name, **(settings or {})}
        spark = session(app="skyband bench", settings=all_settings, **options)
        try:
            yield spark, Path(name)
        except KeyboardInterrupt:
            java_process.end()
            raise
        finally:
            with suppress(*FAILURES, *java_process.GONE):
                spark.stop()
