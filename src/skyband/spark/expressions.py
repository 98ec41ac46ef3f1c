"""Score text of job files: what they may ask Spark to evaluate.

SQL text can call Java, read files and ask for the time. Text from a job file may not: it is read
word by word here, and only a deterministic expression over the columns of the data gets through.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Literal, NamedTuple

from skyband.errors import QueryError

Kind = Literal["number", "text", "word", "name", "sign"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTIONS = _words("""
    abs acos acosh array_max array_min array_size asin asinh atan atan2 atanh bit_count bround
    cardinality cast cbrt ceil ceiling char_length character_length coalesce cos cosh cot crc32 csc
    date_diff datediff day dayofmonth dayofweek dayofyear degrees e exp expm1 factorial floor
    greatest hash hour hypot if ifnull instr isnan isnotnull isnull least len length levenshtein ln
    log log10 log1p log2 lower minute mod month nanvl negative nullif nullifzero nvl nvl2 pi pmod
    positive pow power quarter radians rint round sec second sign signum sin sinh size sqrt tan
    tanh trim try_add try_cast try_divide try_element_at try_mod try_multiply try_subtract
    unix_date unix_micros unix_millis unix_seconds upper weekday weekofyear width_bucket xxhash64
    year zeroifnull
""")
"""Scalar functions that give the same value for the same row, always."""

KEYWORDS = _words("and as between case div else end false in is like not null or then true when")
TYPES = _words("""
    bigint boolean byte dec decimal double float int integer long numeric real short smallint
    string tinyint
""")
_OTHERS = _words("""
    current_catalog current_database current_date current_schema current_time current_timestamp
    current_user date except exists filter from group having identifier intersect interval join
    lateral limit localtimestamp map minus now order over reduce select session_user struct table
    time timestamp transform union user using values where window with
""")
_TAKEN = KEYWORDS | TYPES | _OTHERS
"""Words that Spark may not take for a column: columns of these names are put in backquotes."""

_SPECIAL = re.compile(
    r"[\W_]*((now|today|tomorrow|yesterday)\b|T?\d{1,2}:)", re.IGNORECASE
)  # a time of day is one of today
_LONGEST, _DEEPEST = 4_000, 50
_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n]+)
  | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:[lLdDfF]|[bB][dD])?(?![\w`'.]))
  | (?P<text>'[^'\\]*')
  | (?P<name>`(?:[^`\\]|``)+`)
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<sign><=>|<>|<=(?!>)|>=|!=|==|<(?![<=>])|>(?![>=])|=(?![=>])|-(?![->])|/(?![*/])|\|(?![|>])
      |[+*%(),.&^~\[\]]|!(?!=))
    """,
    re.VERBOSE,
)
_WHAT = {
    '"': "texts in 'single quotes' and names in `backquotes`",
    "--": "no comments: write - (-x) for a double minus",
    "/*": "no comments",
    ";": "one expression",
    "\\": "no backslashes",
    "'": "texts in 'single quotes', without quotes inside",
    "`": "names in `backquotes`",
    "||": "a number: texts cannot be joined here",
    "::": "cast(x AS double)",
    "->": "no functions of one's own",
}


class Token(NamedTuple):
    """A word, sign, number or text of an expression; ``at`` is where it begins."""

    kind: Kind
    text: str
    at: int

    @property
    def name(self) -> str:
        """A word or a name in backquotes, as Spark compares them."""
        bare = self.text[1:-1].replace("``", "`") if self.kind == "name" else self.text
        return bare.lower()


def safe_score(text: str, columns: Collection[str] | None = None) -> str:
    """The score text of a job file, if it is a deterministic expression over these columns.

    Without ``columns`` any word may be one. Columns with the name of an SQL word come back in
    backquotes. Raises :class:`QueryError` that names the offending word.

    >>> safe_score("price * order", ["price", "order"])
    'price * `order`'
    """
    tokens = _tokens(text)
    _check_shape(tokens)
    known = None if columns is None else {name.lower() for name in columns}
    written, upto = [], 0
    for at, token in enumerate(tokens):
        written += [text[upto : token.at], _checked(tokens, at, known, columns or ())]
        upto = token.at + len(token.text)
    return "".join(written).strip()


def _tokens(text: str) -> list[Token]:
    """Split an expression, or say what is not part of one."""
    if len(text) > _LONGEST:
        raise QueryError(
            f"by is {len(text):,} characters long",
            f"at most {_LONGEST:,}",
            "compute the score in the source, and name its column",
        )
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            pair = text[at : at + 2]
            word = pair if pair in _WHAT else text[at]
            raise QueryError(
                f"by holds {word!r}: {_around(text, at)}",
                _WHAT.get(word, "columns, numbers, texts, operators and plain functions"),
            )
        if match.lastgroup != "space":
            found.append(Token(match.lastgroup, match.group(), at))  # type: ignore[arg-type]
        at = match.end()
    if not found:
        raise QueryError("by is empty", "an expression over columns", "write by: price * volume")
    return found


def _check_shape(tokens: Sequence[Token]) -> None:
    """Parentheses match and are not too deep; a text does not stick to what is before it."""
    depth = 0
    for at, token in enumerate(tokens):
        depth += token.text in ("(", "[")
        depth -= token.text in (")", "]")
        if depth > _DEEPEST:
            raise QueryError("by nests too deep", f"at most {_DEEPEST} parentheses deep")
        if depth < 0:
            break
        before = tokens[at - 1] if at else None
        if token.kind == "text":
            if _SPECIAL.match(token.text[1:]):
                raise QueryError(
                    f"by holds the text {token.text}, which Spark may read as a time of its own",
                    "an expression that gives the same value for the same row, always",
                )
            sticks = before is not None and (
                before.kind in ("text", "name", "number")
                or (before.kind == "word" and before.name not in KEYWORDS)
            )
            if sticks:
                raise QueryError(
                    f"by holds {before.text} {token.text}",  # type: ignore[union-attr]
                    "an operator or a comma before a text",
                )
    if depth:
        raise QueryError(
            f"by has {'too few' if depth > 0 else 'too many'} closing parentheses",
            "one for each that opens",
        )


def _checked(
    tokens: Sequence[Token], at: int, known: set[str] | None, columns: Iterable[str]
) -> str:
    """One token as Spark gets it."""
    token = tokens[at]
    before = tokens[at - 1].text if at else ""
    after = tokens[at + 1].text if at + 1 < len(tokens) else ""
    if token.kind not in ("word", "name"):
        beside = tokens[max(0, at - 1) : at + 2]
        if token.text == "." and [t.kind in ("word", "name") for t in beside] != [
            True,
            False,
            True,
        ]:
            raise QueryError("by holds a dot that joins no two names", "column.field")
        return token.text
    if before == ".":
        if after == "(":
            raise _refused(token.text, columns)
        return _quoted(token)
    if token.kind == "word" and after == "(":
        if token.name in FUNCTIONS | KEYWORDS | TYPES:
            return token.text
        raise _refused(token.text, columns)
    if token.kind == "word" and token.name in KEYWORDS:
        return token.text
    if token.kind == "word" and token.name in TYPES and before.lower() == "as":
        return token.text
    if after == "(" or (known is not None and token.name not in known):
        raise _refused(token.text, columns)
    return _quoted(token)


def _quoted(token: Token) -> str:
    return f"`{token.text}`" if token.kind == "word" and token.name in _TAKEN else token.text


def _refused(word: str, columns: Iterable[str]) -> QueryError:
    names = list(columns)
    close = get_close_matches(word.lower(), [*(n.lower() for n in names), *FUNCTIONS], 1, 0.7)
    among = f" ({', '.join(names)})" if names else ""
    return QueryError(
        f"by uses {word!r}",
        f"columns{among}, CASE, CAST to a number, and functions that give the same value for the "
        "same row, always, such as abs, coalesce, greatest, ln, try_divide",
        f"did you mean {close[0]!r}?" if close else "compute it in the source, as a column",
    )


def _around(text: str, at: int) -> str:
    start = max(0, at - 15)
    return f"{'…' if start else ''}{text[start : at + 15]}{'…' if at + 15 < len(text) else ''}"
