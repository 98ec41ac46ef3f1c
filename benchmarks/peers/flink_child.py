"""Flink in a process of its own, run by the interpreter of its environment.

``python flink_child.py JAR...`` executes the statements of each request, a line of JSON on standard
input, in a cluster within this process, and answers with a line of JSON. It imports PyFlink alone:
nothing else of ours is installed where Flink is.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main(jars: list[str]) -> None:
    """Answer requests until there are no more; the first reply says that it is ready."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # Java prints to standard output
    tables = _tables(jars)
    replies.write('{"ready": true}\n')
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply: dict[str, object] = {"seconds": _seconds(tables, request)}
        except Exception as error:  # whatever Java says goes to who asked
            reply = {"error": _reason(str(error))}
        replies.write(json.dumps(reply) + "\n")


def _tables(jars: list[str]) -> Any:
    from pyflink.table import EnvironmentSettings, TableEnvironment

    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    tables.get_config().set("pipeline.jars", ";".join(f"file://{jar}" for jar in jars))
    return tables


def _seconds(tables: Any, request: dict[str, Any]) -> float:
    """Execute statements; the last one is the query. Flink says how long its job ran.

    That leaves out the start of a cluster, which Flink makes for each job.
    """
    for name, value in request["settings"].items():
        tables.get_config().set(name, value)
    *tables_of_question, query = request["statements"]
    for statement in tables_of_question:
        tables.execute_sql(statement)
    client = tables.execute_sql(query).get_job_client()
    return float(client.get_job_execution_result().result().get_net_runtime()) / 1000


def _reason(text: str) -> str:
    """The innermost cause that Java names."""
    causes = [line for line in text.splitlines() if line.startswith("Caused by: ")]
    return (causes or text.strip().splitlines() or ["no reason given"])[-1][:300]


if __name__ == "__main__":
    main(sys.argv[1:])
