"""Hadoop, as the Spark of tests uses it for local files: without processes, with few settings.

For each file that Hadoop makes it starts ``chmod``, since it has no native library here: some
ninety processes for a small stream. A file system for machines without such commands asks Java.

And with each task Spark sends, and reads again, all settings that Hadoop has: some hundreds of
defaults for clusters, most of which nobody here looks at and nearly all of which Hadoop's code
knows anyway. That is a tenth of what a small stream costs. Tests in processes of their own, such
as those that kill drivers, have Hadoop as users have it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from skyband.spark import connectors

LOCAL_FILES = "com.globalmentor:hadoop-bare-naked-local-fs:0.1.0"
"""A file system of Hadoop for local files that starts no process; it does not follow links."""

_DEFAULTS = {"core": {"fs.defaultFS": "file:///"}, "hdfs": {}, "mapred": {}, "yarn": {}}
"""What is left of each file of defaults."""


def settings() -> dict[str, str]:
    """Settings of a session whose Hadoop starts no process for local files."""
    (jar,) = connectors.fetched([LOCAL_FILES])
    return {
        # before Hadoop's own, which have defaults of the same names
        "spark.driver.extraClassPath": f"{_without_defaults()}:{jar}",
        "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    }


def _without_defaults() -> Path:
    """A folder with files of hardly any defaults."""
    folder = Path(sys.prefix) / "hadoop-defaults"
    folder.mkdir(exist_ok=True)
    for name, values in _DEFAULTS.items():
        file = folder / f"{name}-default.xml"
        if not file.exists():
            written = folder / f"{name}-{os.getpid()}.xml"
            written.write_text(_configuration(values))
            written.replace(file)  # at one blow: others may begin at the same time
    return folder


def _configuration(values: dict[str, str]) -> str:
    properties = (
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in values.items()
    )
    return f'<?xml version="1.0"?>\n<configuration>{"".join(properties)}</configuration>\n'
