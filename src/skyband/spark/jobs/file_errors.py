"""What is wrong with a job file, and where in the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from skyband.errors import QueryError

Path = tuple[str | int, ...]


def parsed(text: str, file: str) -> tuple[Any, dict[Path, int]]:
    """What YAML says, and the line of each key; raises if it is none, or a key is given twice."""
    places: dict[Path, int] = {}
    try:
        _walk(yaml.compose(text, Loader=yaml.SafeLoader), (), places, file)
        return yaml.safe_load(text), places
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark is not None else ""
        raise QueryError(
            f"{file}{where}: {getattr(error, 'problem', None) or 'this is not YAML'}",
            "YAML",
            "indent with spaces, and put texts with : or # in quotes",
        ) from None
    except RecursionError:
        raise QueryError(f"{file} nests too deep", "a job file") from None


def _walk(node: Any, path: Path, places: dict[Path, int], file: str) -> None:
    if isinstance(node, yaml.SequenceNode):
        for at, item in enumerate(node.value):
            places[(*path, at)] = item.start_mark.line + 1
            _walk(item, (*path, at), places, file)
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        here = (*path, str(key.value))
        line = key.start_mark.line + 1
        if here in places:
            raise QueryError(
                f"{file} line {line}: {dotted(here)} was given in line {places[here]} already",
                "each key once",
            )
        places[here] = line
        _walk(value, here, places, file)


def validation_error(
    error: ValidationError,
    file: str,
    places: Mapping[Path, int],
    root: type[BaseModel],
    masked: Callable[[str], str],
) -> QueryError:
    """The first thing that is wrong, for people; ``masked`` hides what they must not see."""
    errors = error.errors(include_url=False)
    paths = [_in_file(one["loc"], one["type"] == "missing", places) for one in errors]
    fields = {path[:2] for path in paths}
    at = max(range(len(errors)), key=lambda at: (paths[at][:2] == paths[0][:2], len(paths[at])))
    path, kind, value = paths[at], errors[at]["type"], errors[at]["input"]
    value = masked(value) if isinstance(value, str) else value
    if kind == "extra_forbidden":
        return unknown(file, path, places, root)
    model, known = _within(root, path)
    field = _fields(model).get(str(path[known - 1]))
    expected = (field.description if field is not None else None) or errors[at]["msg"]
    more = f" (and {len(fields) - 1} more)" if len(fields) > 1 else ""
    if kind == "missing":
        where = f"{file}{_line(path[:-1], places)}"
        return QueryError(f"{where}: {dotted(path)} is missing{more}", expected)
    return QueryError(
        f"{file}{_line(path, places)}: {dotted(path)} is {yaml_text(value)}{more}",
        expected,
        _quotes(value) if kind == "string_type" else "",
    )


def _in_file(location: Path, missing: bool, places: Mapping[Path, int]) -> Path:
    """The path of an error without the names of types that were tried."""
    path: Path = ()
    for part in location:
        if (*path, part) in places:
            path = (*path, part)
    return (*path, location[-1]) if missing else path or location


def unknown(file: str, path: Path, places: Mapping[Path, int], root: type[BaseModel]) -> QueryError:
    """A key that does not exist."""
    names = list(_fields(_within(root, path)[0]))
    close = get_close_matches(str(path[-1]).lower(), names, 1)
    return QueryError(
        f"{file}{_line(path, places)}: {dotted(path)} is not known",
        f"one of {', '.join(names)}",
        f"did you mean {close[0]}?" if close else "",
    )


def _within(root: type[BaseModel], path: Path) -> tuple[type[BaseModel], int]:
    """The model that holds the last field on a path that is one, and where that field is."""
    model, at = root, 0
    while at < len(path):
        field = _fields(model).get(str(path[at]))
        at += 1
        inner = field.annotation if field is not None else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)) or at == len(path):
            break
        model = inner
    return model, at


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    """The fields that a file may hold, under the names that they have there."""
    fields = model.model_fields
    return {field.alias or name: field for name, field in fields.items() if not field.exclude}


def dotted(path: Path) -> str:
    """A path in the file: ``query.partition_by[1]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def yaml_text(value: Any) -> str:
    """A value as it stands in YAML, short."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return f"a group of {', '.join(map(str, value)) or 'nothing'}"
    if isinstance(value, list):
        return "a list"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _quotes(value: Any) -> str:
    """What YAML may have read otherwise than it was meant."""
    if isinstance(value, bool):
        return "put it in quotes: YAML reads yes, no, on and off as true and false"
    return "" if isinstance(value, (list, dict, type(None))) else "put it in quotes"


def _line(path: Path, places: Mapping[Path, int]) -> str:
    return f" line {places[path]}" if path in places else ""
