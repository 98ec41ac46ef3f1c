"""The data of a page, described for programs (OpenAPI 3.1)."""

from __future__ import annotations

from typing import Any

import skyband

_QUERY = {
    "name": "query",
    "in": "query",
    "description": "The name of a query of a workload; empty for a job of one query.",
    "schema": {"type": "string", "default": ""},
}
_KEY = {
    "name": "key",
    "in": "query",
    "description": 'The values of the partition columns, a list in JSON such as ["Energy"]; '
    "the first key if it is left out.",
    "schema": {"type": "string"},
}
_WINDOW = {
    "name": "window",
    "in": "query",
    "description": "The id of a window, as /api/windows gives it; the newest if it is left out.",
    "schema": {"type": "string"},
}
_SEARCH = {
    "name": "search",
    "in": "query",
    "description": "A text that keys contain, whatever its case.",
    "schema": {"type": "string", "default": ""},
}
_LIMIT = {
    "name": "limit",
    "in": "query",
    "description": "How many keys at most.",
    "schema": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
}

_ROWS = {
    "name": "limit",
    "in": "query",
    "description": "How many rows at most, of the ranking and of those that left.",
    "schema": {"type": "integer", "minimum": 1, "maximum": 100_000, "default": 500},
}
_AROUND = {
    "name": "window",
    "in": "query",
    "description": "The id of the window whose leaders are wanted; the newest if it is left out.",
    "schema": {"type": "string"},
}

_TEXT, _NUMBER, _COUNT, _FLAG = (
    {"type": "string"},
    {"type": "number"},
    {"type": "integer"},
    {"type": "boolean"},
)


def _listed(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _named(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


_BOUND = {"type": ["string", "integer", "null"], "description": "A time, or a row number."}
_CELLS = _listed({"type": ["string", "null"]})
_SCHEMAS = {
    "Window": _object(
        id=_TEXT,
        start=_BOUND,
        end=_BOUND,
        final=_FLAG,
        revision=_COUNT,
        complete={
            **_FLAG,
            "description": "Whether all rows are known: a job that goes on with emit: changes "
            "ranks rows that have not changed since.",
        },
        best={**_or_null(_NUMBER), "description": "The best score."},
    ),
    "Row": _object(
        id=_TEXT,
        rank=_COUNT,
        score={**_TEXT, "description": "As it is to be shown."},
        number=_or_null(_NUMBER),
        change={"enum": ["entered", "moved", "same", None]},
        previous_rank=_or_null(_COUNT),
        cells=_CELLS,
    ),
    "Left": _object(id=_TEXT, previous_rank=_COUNT, score=_TEXT, cells=_CELLS),
    "Leaders": _object(
        query=_TEXT,
        key=_CELLS,
        rankings={**_COUNT, "description": "How many rankings the query has; 0 before its first."},
        window=_or_null(_named("Window")),
        newest=_FLAG,
        total={**_COUNT, "description": "How many rows the ranking has."},
        rows=_listed(_named("Row")),
        left_total=_COUNT,
        left=_listed(_named("Left")),
    ),
    "Windows": _object(
        windows=_listed(_named("Window")),
        leaders=_listed(
            _object(
                id=_TEXT,
                label=_TEXT,
                ranks=_listed(_or_null(_COUNT)),
                scores=_listed(_or_null(_NUMBER)),
            )
        ),
    ),
    "Keys": _object(total=_COUNT, matching=_COUNT, keys=_listed(_CELLS)),
    "Info": _object(
        title=_TEXT,
        version=_TEXT,
        described={**_FLAG, "description": "Whether the job knows already what it shows."},
        family=_TEXT,
        emit=_TEXT,
        queries=_listed(
            _object(name=_TEXT, words=_TEXT, keys=_listed(_TEXT), columns=_listed(_TEXT))
        ),
        keys=_listed(_TEXT),
        columns=_listed(_TEXT),
        explain=_listed(_listed(_TEXT)),
        history=_object(windows=_COUNT, words=_TEXT),
    ),
    "Health": _object(
        state={"enum": ["starting", "waiting", "running", "ended", "failed"]},
        message=_TEXT,
        rows=_COUNT,
        rows_per_second=_NUMBER,
        watermark={
            **_or_null(_TEXT),
            "description": "A time; a number, or row N, where windows have no clock.",
        },
        lag_seconds={
            **_or_null(_NUMBER),
            "description": "Behind the clock; null where windows have none.",
        },
        batch=_or_null(_object(number=_COUNT, seconds=_NUMBER)),
        batches=_COUNT,
        missed_batches=_COUNT,
        late=_COUNT,
        set_aside=_object(no_time=_COUNT, future=_COUNT),
        not_ranked=_object(null=_COUNT, nan=_COUNT),
        bad_records=_COUNT,
        extra={"type": "object", "additionalProperties": _COUNT},
        candidates=_or_null(_COUNT),
        state_rows=_COUNT,
        state_bytes=_COUNT,
        windows=_COUNT,
        ranked=_COUNT,
        sinks=_listed(_object(name=_TEXT, waiting=_COUNT, delivered=_or_null(_COUNT), error=_TEXT)),
        readers=_COUNT,
        notes=_listed(_TEXT),
    ),
    "Alive": _object(rows_per_second=_NUMBER, lag_seconds=_or_null(_NUMBER), readers=_COUNT),
    "End": _object(message=_TEXT),
    "Error": _object(error=_TEXT),
    "Event": {
        "type": "object",
        "description": "An event of the stream; its data is JSON.",
        "oneOf": [
            _object(event={"const": name}, data=_named(schema))
            for name, schema in (
                ("health", "Health"),
                ("leaders", "Leaders"),
                ("alive", "Alive"),
                ("end", "End"),
            )
        ],
    },
}


_WORDS = {"text/plain": {"schema": _TEXT}}


def _get(
    summary: str,
    answer: dict[str, Any],
    *parameters: dict[str, Any],
    is_open: bool = False,
    unavailable: str | None = None,
) -> dict[str, Any]:
    """A path; one that ``is_open`` needs no token."""
    responses = {"200": {"description": summary, "content": answer}}
    if parameters:
        wrong = {"application/json": {"schema": _named("Error")}}
        responses["400"] = {"description": "A parameter makes no sense.", "content": wrong}
    if unavailable is not None:
        responses["503"] = {"description": unavailable, "content": _WORDS}
    method = {"summary": summary, "parameters": list(parameters), "responses": responses}
    if is_open:
        return {"get": {**method, "security": []}}
    responses["401"] = {"description": "A token is missing or wrong.", "content": _WORDS}
    responses["403"] = {
        "description": "Asked by a name that is not of this machine, where no token is needed.",
        "content": _WORDS,
    }
    return {"get": method}


def _json_of(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": _named(name)}}


_EVENTS = {"text/event-stream": {"schema": _TEXT, "itemSchema": _named("Event")}}

DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {
        "title": "A job of Skyband",
        "version": skyband.__version__,
        "description": "Rankings of a running stream, and how it is doing.",
    },
    "paths": {
        "/api/info": _get("What is shown: queries, keys, columns.", _json_of("Info")),
        "/api/leaders": _get("A ranking.", _json_of("Leaders"), _QUERY, _KEY, _WINDOW, _ROWS),
        "/api/windows": _get(
            "The windows that are remembered.", _json_of("Windows"), _QUERY, _KEY, _AROUND
        ),
        "/api/keys": _get("Keys that have a ranking.", _json_of("Keys"), _QUERY, _SEARCH, _LIMIT),
        "/api/health": _get("How the stream is doing.", _json_of("Health")),
        "/api/events": _get(
            "Server-sent events: health and leaders, the newest state only; alive while nothing "
            "changes; end.",
            _EVENTS,
            _QUERY,
            _KEY,
        ),
        "/healthz": _get(
            "200 unless the stream has failed.",
            _WORDS,
            is_open=True,
            unavailable="The stream has failed.",
        ),
        "/readyz": _get(
            "200 once a batch has ended, or while sinks get what is ranked; 503 before.",
            _WORDS,
            is_open=True,
            unavailable="No batch has ended yet, or none will any more.",
        ),
        "/metrics": _get("Numbers for Prometheus.", _WORDS),
    },
    "security": [{"token": []}, {"cookie": []}, {}],
    "components": {
        "schemas": _SCHEMAS,
        "securitySchemes": {
            "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "Needed unless the page is served to its own machine alone.",
            },
            "cookie": {
                "type": "apiKey",
                "in": "cookie",
                "name": "skyband-PORT",
                "description": "What a browser gets that opens /?token=...; PORT is ours.",
            },
        },
    },
}
