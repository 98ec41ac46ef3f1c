"""Variables of the environment in job files: ``${NAME}``, for what does not belong into a file.

Their values are secrets: whatever is printed, logged or explained has ``${NAME}`` in their place.
What is written into the checkpoint has no variables: the ``query``, and the names of ``sinks``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

from skyband.errors import QueryError, SkybandError
from skyband.spark.jobs.file_errors import Path, dotted

_VARIABLE = re.compile(r"\$(\$?)\{([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_NAME = re.compile(
    r"(?i)(passw|passphrase|secret|token|credential|sasl\.jaas|(api|access|private).?key)"
    r"(?!.*(file|path|location|provider|class|type|enabled|interval)$)"  # these are no secrets
)
_PASSWORD_IN_TEXT = re.compile(r"""://[^/@\s:]*:([^@\s]+)@|password\s*=\s*["']?([^"';\s]+)""")
_SHORTEST = 3  # letters of a value that is looked for: shorter ones are everywhere

_REDACTED_SETTINGS = "(?i)secret|password|passphrase|token|credential|sasl.jaas|access[.]?key"
_REDACTED_OPTIONS = f"{_REDACTED_SETTINGS}|url"


def filled_in(content: Any, file: str, lines: Mapping[Path, int]) -> tuple[Any, dict[str, str]]:
    """What a job file says with the values of its variables, and these by their names.

    ``$${NAME}`` stands for ``${NAME}`` itself.
    """
    values: dict[str, str] = {}

    def filled(part: Any, path: Path) -> Any:
        if isinstance(part, dict):
            return {name: filled(value, (*path, str(name))) for name, value in part.items()}
        if isinstance(part, list):
            return [filled(value, (*path, at)) for at, value in enumerate(part)]
        if not isinstance(part, str) or "${" not in part:
            return part
        where = f"{file} line {lines[path]}" if path in lines else file
        if path[0] == "query" or (path[0] == "sinks" and path[-1] == "name"):
            raise QueryError(
                f"{where}: {dotted(path)} has a variable",
                "none in a query and in names of sinks: they are written into the checkpoint",
                "write its value",
            )
        return _VARIABLE.sub(lambda match: _value(match, f"{where}: {dotted(path)}", values), part)

    return filled(content, ()), values


def _value(match: re.Match[str], where: str, values: dict[str, str]) -> str:
    escaped, name = match.groups()
    if escaped:
        return match.group()[1:]
    if not _NAME.fullmatch(name):
        raise QueryError(f"{where} has ${{{name}}}", "the name of a variable", "write ${NAME}")
    value = os.environ.get(name)
    if value is None:
        raise QueryError(
            f"{where} needs the variable {name}, which is not set",
            "a variable of the environment",
            f"export {name}=...",
        )
    values[name] = value
    return value


def masked(text: str, values: Mapping[str, str]) -> str:
    """A text with the names of variables in place of their values, the longest first."""
    forms = {form: f"${{{name}}}" for name, value in values.items() for form in _forms(value)}
    for value in values.values():
        for password in _passwords(value):
            forms.setdefault(password, "***")
    for form in sorted(forms, key=len, reverse=True):
        if len(form) >= _SHORTEST:
            text = text.replace(form, forms[form])
    return text


def _forms(value: str) -> set[str]:
    """A value as it may stand in a text: as it is, in quotes of Python and JSON, in a url."""
    return {value, repr(value)[1:-1], json.dumps(value)[1:-1], quote(value, ""), quote_plus(value)}


def _passwords(value: str) -> set[str]:
    """The password in a value that is a url, by itself."""
    try:
        password = urlsplit(value).password or ""
    except ValueError:
        return set()
    return {password, unquote(password)}


def masked_error(error: SkybandError, values: Mapping[str, str]) -> SkybandError:
    """The same error, without the values of variables."""
    texts = (masked(text, values) for text in (error.found, error.expected, error.fix))
    return type(error)(*texts)


@contextmanager
def masking(values: Mapping[str, str]) -> Iterator[None]:
    """Raise errors of the block without the values of variables, and without what caused them."""
    try:
        yield
    except SkybandError as error:
        if not values:
            raise
        raise masked_error(error, values) from None


def redaction(
    settings: Mapping[str, str], options: Mapping[str, str], values: Mapping[str, str]
) -> dict[str, str]:
    """What has Spark hide those of its settings, and of options, that hold values of variables."""

    def pattern(usual: str, texts: Mapping[str, str]) -> str:
        secret = [re.escape(name) for name, text in texts.items() if masked(text, values) != text]
        return "|".join([usual, *secret])

    return {
        "spark.redaction.regex": pattern(_REDACTED_SETTINGS, settings),
        "spark.sql.redaction.options.regex": pattern(_REDACTED_OPTIONS, options),
    }


def plain_passwords(content: Any, path: Path = ()) -> Iterator[str]:
    """The places of a job file, before it is filled in, where a password stands in plain text."""
    if isinstance(content, dict):
        for name, value in content.items():
            yield from plain_passwords(value, (*path, str(name)))
    elif isinstance(content, list):
        for at, value in enumerate(content):
            yield from plain_passwords(value, (*path, at))
    elif isinstance(content, str) and path and path[0] != "query":
        by_name = _SECRET_NAME.search(str(path[-1])) and "${" not in content
        in_text = any(
            "${" not in password
            for groups in _PASSWORD_IN_TEXT.findall(content)
            for password in groups
            if password
        )
        if by_name or in_text:
            yield dotted(path)
