"""Checking what a query is to evaluate, before any row is read: scores, times, partition keys."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from shlex import quote
from typing import Any

from skyband.cli.input.source import Column, FileSource, duckdb_message, identifier, literal
from skyband.engine.whole_numbers import LARGEST
from skyband.errors import DataError, QueryError
from skyband.expressions import named

_NUMBERS = re.compile(
    r"(U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|BIGNUM|FLOAT|DOUBLE|DECIMAL\(.*\))"
)
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_LONG_DIGITS = 18  # of a decimal that a BIGINT holds
_SURE_DIGITS = 15  # of decimals that are all different as DOUBLE
_WHOLE = re.compile(r"U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)")
_MOMENTS = re.compile(r"TIMESTAMP.*|DATE")
_MISSING = re.compile(r'Referenced (?:column|table) "(.*?)" not found')
_PLAIN = re.compile(r"\w+")  # a name that needs no quotes
_WORDS = re.compile(r"[\w\s]+")
_EXAMPLES = {
    "--by": "'price * volume'",
    "--time": "ts",
    "--on": "price:min",
    "--value": "speed",
    "--where": "'volume > 0'",
    "--partition-by": "sector",
    "--key": "client",
    "--id": "plate",
    "--stream": "camera",
}
_NOT_SCALAR = {
    "SUBQUERY": "a subquery",
    "WINDOW": "a window function",
    "STAR": "a star",
    "PARAMETER": "a parameter",
}


@dataclass(frozen=True)
class Time:
    """A time expression, as microseconds or as ticks; unknown for a file without rows."""

    sql: str
    integers: bool | None


@dataclass(frozen=True)
class Number:
    """SQL of a DOUBLE per row or, with a ``scale``, of a BIGINT in units of ``10**-scale``."""

    sql: str
    scale: int | None = None


def number(
    source: FileSource, text: str, option: str = "--by", way: str = "", before: str = ""
) -> Number:
    """The SQL of ``--by``, or of another option, which must be one number per row.

    Whole numbers and decimals stay exact. ``before`` and ``way`` are what surrounds the expression
    on the command line.
    """
    sql, type = _number(source, text, option, way, before)
    decimal = _DECIMAL.fullmatch(type)
    subject = f"{option} {text!r}"
    cast = f"{option} {quote(f'{before}CAST({_in_quotes(source, text)} AS DOUBLE){way}')}"
    if _WHOLE.fullmatch(type):
        whole = f"CAST(({sql}\n) AS BIGINT)"
        if "HUGE" in type or type == "UBIGINT":  # HUGEINT: as DuckDB reads large numbers of JSON
            whole = _within(sql, whole, LARGEST, subject, cast, signed=type == "HUGEINT")
        return Number(whole, 0)
    if decimal and int(decimal[2]) <= _LONG_DIGITS:
        width, scale = int(decimal[1]), int(decimal[2])
        narrow = sql if width <= _LONG_DIGITS else f"CAST(({sql}\n) AS DECIMAL(18, {scale}))"
        whole = f"CAST(({narrow}\n) * CAST({10**scale} AS DECIMAL(19, 0)) AS BIGINT)"
        if width > _LONG_DIGITS:  # as products are, whatever they hold
            whole = _within(sql, whole, 10 ** (_LONG_DIGITS - scale) - 1, subject, cast)
        return Number(whole, scale)
    if decimal or type == "BIGNUM":
        raise _too_wide(text, option, way, before, type, "DOUBLE", "18 digits, or 64 bits")
    return Number(f"CAST(({sql}\n) AS DOUBLE)")


def score(
    source: FileSource, text: str, option: str = "--by", way: str = "", before: str = ""
) -> str:
    """The same as a DOUBLE; refuses whole numbers and decimals that would be rounded."""
    sql, type = _number(source, text, option, way, before)
    double = f"CAST(({sql}\n) AS DOUBLE)"
    decimal = _DECIMAL.fullmatch(type)
    if decimal and int(decimal[1]) > _SURE_DIGITS:
        raise _too_wide(text, option, way, before, type, "DOUBLE", f"{_SURE_DIGITS} digits")
    if type not in ("BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT", "BIGNUM"):
        return double
    cast = f"{option} {quote(f'{before}CAST({_in_quotes(source, text)} AS DOUBLE){way}')}"
    return _within(sql, double, 1 << 53, f"{option} {text!r}", cast)


def _within(sql: str, number: str, most: int, subject: str, cast: str, signed: bool = True) -> str:
    """SQL of a number, which stops the query if it is larger than it can be told exactly."""
    refusal = (
        f"{subject} holds a number beyond {most:,} in size; expected smaller ones; "
        f"fix: {cast} rounds them"
    )
    inside = f"({sql}\n) <= {most}" + (f" AND ({sql}\n) >= {-most}" if signed else "")
    return (
        f"CASE WHEN ({sql}\n) IS NULL THEN NULL WHEN {inside} THEN {number} "
        f"ELSE error({literal(refusal)}) END"
    )


def _too_wide(
    text: str, option: str, way: str, before: str, type: str, narrow: str, most: str
) -> DataError:
    casts = (f"{before}CAST({text} AS {kind}){way}" for kind in dict.fromkeys((narrow, "DOUBLE")))
    return DataError(
        f"{option} {text!r} is of type {type}",
        f"numbers of at most {most}, which are ranked exactly",
        "write " + " or ".join(f"{option} {quote(cast)}" for cast in casts),
    )


def _number(source: FileSource, text: str, option: str, way: str, before: str) -> tuple[str, str]:
    """The SQL of a number per row, and its type; of a file without rows it may be a NULL."""
    sql = _scalar(source, text, option)
    if sql is None:
        return "NULL", "DOUBLE"
    type = _type(source, sql)
    if _NUMBERS.fullmatch(type):
        return sql, type
    if type != "BOOLEAN" and source.empty:
        return sql, "DOUBLE"
    shown, text = text, _in_quotes(source, text)
    fix = f"rank by a number, such as {option} {_EXAMPLES[option]}"
    number = f"TRY_CAST({text} AS DOUBLE)"
    numbers = {"VARCHAR": number, "JSON": number, "BOOLEAN": f"CAST({text} AS INTEGER)"}
    turned = f"epoch({text})" if _MOMENTS.fullmatch(type) else numbers.get(type)
    if turned is not None:
        fix = f"turn it into a number: {option} {quote(before + turned + way)}"
    raise DataError(f"{option} {shown!r} is of type {_described(type)}", "a number", fix)


def presence(source: FileSource, text: str, option: str = "--by") -> str:
    """SQL that is a number for each row in which an expression has a value, and NULL elsewhere."""
    sql = _scalar(source, text, option)
    if sql is None:
        return "NULL"
    if _NUMBERS.fullmatch(_type(source, sql)):
        return f"CAST(({sql}\n) AS DOUBLE)"  # so that NaN is no value
    return f"CASE WHEN {sql} IS NULL THEN NULL ELSE 1 END"


def condition(source: FileSource, text: str) -> str | None:
    """The SQL of ``--where``, which must be true or false for each row; None without rows."""
    sql = _scalar(source, text, "--where")
    type = "NULL" if sql is None else _type(source, sql)
    if type == "BOOLEAN":
        return sql
    if source.empty:
        return None
    compared = f"{text} > 0" if _NUMBERS.fullmatch(type) else f"{text} IS NOT NULL"
    raise DataError(
        f"--where {text!r} is of type {type}",
        "a condition, true or false for each row",
        f"compare it, as in --where {quote(compared)}",
    )


def time(source: FileSource, text: str) -> Time:
    """The SQL of ``--time``, which must be a timestamp, a date or a whole number per row."""
    sql = _scalar(source, text, "--time")
    if sql is None:
        return Time("CAST(NULL AS BIGINT)", None)
    type = _type(source, sql)
    if type == "TIMESTAMP_NS":  # rounded down, also before 1970, where epoch_us rounds up
        whole = f"epoch_ns({sql}\n)"
        return Time(f"({whole} - (({whole} % 1000) + 1000) % 1000) // 1000", False)
    if _MOMENTS.fullmatch(type):
        return Time(f"epoch_us({sql}\n)", False)
    if _WHOLE.fullmatch(type):
        return Time(f"CAST(({sql}\n) AS BIGINT)", True)
    if source.empty:
        return Time("CAST(NULL AS BIGINT)", None)
    shown, text = text, _in_quotes(source, text)
    cast = "TRY_CAST" if type == "JSON" else "CAST"
    fix = f"turn it into a timestamp: --time {quote(f'{cast}({text} AS TIMESTAMP)')}"
    if type == "VARCHAR":
        parsed = f"strptime({text}, '%d.%m.%Y %H:%M')"
        readable = not set(text) & set('"$`\\!')  # these mean something in double quotes
        fix += f' or --time "{parsed}"' if readable else f" or --time {quote(parsed)}"
    elif _NUMBERS.fullmatch(type):
        seconds = quote(f"to_timestamp({text})")
        fix = f"turn it into a timestamp: --time {seconds} if it counts seconds"
    expected = "a timestamp or a whole number"
    raise DataError(f"--time {shown!r} is of type {_described(type)}", expected, fix)


def infinite_times(source: FileSource, text: str, where: str) -> int:
    """How many rows ``--time`` puts at infinity, where no window is; their time counts as NULL."""
    sql = _scalar(source, text, "--time")
    if sql is None or not _MOMENTS.fullmatch(_type(source, sql)):
        return 0
    counted = f"SELECT count(*) FROM {source.scan} WHERE ({where}) AND isinf({sql}\n)"
    return int(source.single(counted)[0])


def keys(source: FileSource, names: list[str], option: str = "--partition-by") -> list[Column]:
    """The columns of ``--partition-by``, or of another option, and those of expressions."""
    columns = (source.column(name) or _derived(source, name, option) for name in names)
    return list(dict.fromkeys(columns))


def _derived(source: FileSource, text: str, option: str) -> Column:
    """The column of an expression, called by its text or by the name after AS."""
    expression = named(text)
    if expression.is_word and source.column(expression.sql) is None:
        raise source.no_column(expression.sql, option)
    if source.column(expression.name) is not None:
        raise QueryError(
            f"{option} {text!r} has the name of a column",
            "a name of its own",
            f"write {option} {quote(f'{expression.sql} AS {expression.name}_key')}",
        )
    sql = _scalar(source, expression.sql, option)
    if sql is None:
        return Column(expression.name, "VARCHAR", "CAST(NULL AS VARCHAR)")
    return Column(expression.name, _type(source, sql), sql)


def _scalar(source: FileSource, text: str, option: str) -> str | None:
    """The SQL of one scalar expression; None if a file without rows has no types for it."""
    import duckdb

    column = source.column(text.strip())
    if column is not None:
        return column.quoted
    _check_shape(source, text, option)
    try:
        # a WHERE clause takes whatever is a value per row, and no aggregates
        source.bind(f"SELECT 1 FROM {source.scan} WHERE ((\n{text}\n)) IS NOT NULL")
    except duckdb.Error as error:
        message = duckdb_message(error)
        missing = _MISSING.search(message)
        if missing:
            raise _no_column(source, missing.group(1), option) from None
        if "aggregates" in message:
            raise _not_scalar(text, option, "an aggregate") from None
        if source.empty:
            return None
        raise QueryError(
            f"{option} {text!r} cannot be evaluated: {message}",
            f"a SQL expression over {source.described()}",
            _casts(source, text) if re.search("VARCHAR|JSON", message) else "",
        ) from None
    return f"({text}\n)"


def _casts(source: FileSource, text: str) -> str:
    """The fix for an expression that computes with columns which are no numbers."""
    words = set(re.findall(r"\w+", text.lower()))
    texts = [
        f"TRY_CAST({column.name if _PLAIN.fullmatch(column.name) else column.quoted} AS DOUBLE)"
        for column in source.columns
        if column.type in ("VARCHAR", "JSON") and words >= set(column.name.lower().split())
    ]
    return f"cast what is no number: {', '.join(texts)}" if texts else ""


def _no_column(source: FileSource, name: str, option: str) -> DataError:
    """The error for a column that is not there, and how to write the one that may be meant."""
    error, close = source.no_column(name, option), source.closest(name)
    if close is None or _PLAIN.fullmatch(close):
        return error
    hint = f"a name with blanks stands in double quotes: {quote(identifier(close))}"
    return DataError(error.found, error.expected, f"{error.fix} {hint}")


def _in_quotes(source: FileSource, text: str) -> str:
    """An expression in which names of columns that need double quotes have them."""
    for column in source.columns:
        if not _PLAIN.fullmatch(column.name):
            bare = rf'(?<!["\w]){re.escape(column.name)}(?!["\w])'
            text = re.sub(bare, column.quoted.replace("\\", r"\\"), text, flags=re.IGNORECASE)
    return text


def _check_shape(source: FileSource, text: str, option: str) -> None:
    """One expression, made of nothing but values of one row."""
    tree: dict[str, Any] = json.loads(source.parse(f"SELECT {text}\n"))
    if tree["error"]:
        fix, quoted = f"write {option} {_EXAMPLES[option]}", _in_quotes(source, text)
        if quoted != text:
            fix = f"write names with blanks in double quotes: {quote(quoted)}"
        elif _WORDS.fullmatch(text) and not _PLAIN.fullmatch(source.closest(text) or "_"):
            raise _no_column(source, text.strip(), option)
        raise QueryError(
            f"{option} {text!r} is not an expression: {tree.get('error_message', '')}",
            "a SQL expression over the file's columns",
            fix,
        )
    statements = tree["statements"]
    node = statements[0]["node"]
    items = node.get("select_list", [])
    if len(statements) != 1 or node.get("from_table", {}).get("type") != "EMPTY":
        raise _not_scalar(text, option, "a statement")
    if len(items) != 1:
        raise _not_scalar(text, option, f"{len(items)} columns")
    if items[0].get("alias"):
        if items[0]["class"] == "COLUMN_REF" and not re.search(r"\bas\b", text, re.IGNORECASE):
            raise _no_column(source, text.strip(), option)  # two words, a name with a blank
        raise _not_scalar(text, option, "a column with an alias")
    for what in _classes(items[0]):
        if what in _NOT_SCALAR:
            raise _not_scalar(text, option, _NOT_SCALAR[what])


def _classes(tree: Any) -> list[str]:
    """The classes of all nodes of an expression."""
    if isinstance(tree, list):
        return [name for part in tree for name in _classes(part)]
    if not isinstance(tree, dict):
        return []
    classes = [tree["class"]] if isinstance(tree.get("class"), str) else []
    return classes + [name for part in tree.values() for name in _classes(part)]


def _not_scalar(text: str, option: str, what: str) -> QueryError:
    return QueryError(
        f"{option} {text!r} has {what}" if what[0] == "a" else f"{option} {text!r} is {what}",
        "one expression that gives a value for each row",
        f"write {option} {_EXAMPLES[option]}",
    )


def _described(type: str) -> str:
    """A type, and what it means if people cannot know."""
    return "JSON: its values are of several types" if type == "JSON" else type


def _type(source: FileSource, sql: str) -> str:
    return str(source.bind(f"SELECT {sql}\n AS it FROM {source.scan}").types[0])
