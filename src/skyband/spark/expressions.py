"""SQL text of scores: what a job file may ask Spark to evaluate, and what would stop a stream.

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
    cardinality cast cbrt ceil ceiling char_length character_length coalesce contains cos cosh cot
    crc32 csc date_diff datediff day dayofmonth dayofweek dayofyear degrees e endswith exp expm1
    factorial floor greatest hash hour hypot if ifnull instr isnan isnotnull isnull least len length
    levenshtein ln log log10 log1p log2 lower minute mod month nanvl negative nullif nullifzero nvl
    nvl2 pi pmod positive pow power quarter radians rint round sec second sign signum sin sinh size
    sqrt startswith tan tanh trim try_add try_cast try_divide try_element_at try_mod try_multiply
    try_subtract unix_date unix_micros unix_millis unix_seconds upper weekday weekofyear
    width_bucket xxhash64 year zeroifnull
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
    "||": "no joined texts: name several columns, or join them in the source",
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


def safe_score(text: str, columns: Collection[str] | None = None, option: str = "by") -> str:
    """The score text of a job file, if it is a deterministic expression over these columns.

    Without ``columns`` any word may be one. Columns with the name of an SQL word come back in
    backquotes. Raises :class:`QueryError` that names the offending word, and the ``option``.

    >>> safe_score("price * order", ["price", "order"])
    'price * `order`'
    """
    try:
        return _safe(text, columns)
    except QueryError as error:
        named = option + error.found.removeprefix("by")
        raise QueryError(named, error.expected, error.fix) from None


def _safe(text: str, columns: Collection[str] | None) -> str:
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
    tokens: list[Token] = []
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
            tokens.append(Token(match.lastgroup, match.group(), at))  # type: ignore[arg-type]
        at = match.end()
    if not tokens:
        raise QueryError("by is empty", "an expression over columns such as price and volume")
    return tokens


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
        names = [one.kind in ("word", "name") for one in tokens[max(0, at - 1) : at + 2]]
        if token.text == "." and names != [True, False, True]:
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


_LENIENT = re.compile(
    r"(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(?P<name>`(?:[^`]|``)+`)"
    r"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\w*)|(?P<word>\w+)|(?P<sign>\S)"
)
_CHAIN = ("*", "/", "%", "div")
_SAFE = ("nullif", "nullifzero", "pi", "e")


def suggestion(by: str, numbers: Collection[str] = ()) -> str | None:
    """What could stop a stream that ranks by this text, and what to write instead.

    Under Spark's ANSI rules a division by zero, or a text that is not a number, is an error.
    ``numbers`` are the columns that hold numbers: they can be cast to a floating one.

    >>> suggestion("price / volume")
    'price / volume stops the stream when volume is 0: write try_divide(price, volume)'
    """
    tokens = [
        Token(match.lastgroup, match.group(), match.start())  # type: ignore[arg-type]
        for match in _LENIENT.finditer(by)
    ]
    for at, token in enumerate(tokens):
        called = at + 1 < len(tokens) and tokens[at + 1].text == "("
        hint = None
        if token.text in ("/", "%") or (token.name == "div" and token.kind == "word"):
            hint = _division(by, tokens, at)
        elif token.kind == "word" and called and token.name in ("mod", "pmod"):
            hint = _called_division(by, tokens, at)
        elif token.kind == "word" and called and token.name == "cast":
            hint = _conversion(by, tokens, at, {name.lower() for name in numbers})
        if hint:
            return hint
    return None


def _division(by: str, tokens: Sequence[Token], at: int) -> str | None:
    right = _operand_after(tokens, at + 1)
    if right is None or _never_zero(tokens, at + 1):
        return None
    left = _chain_before(tokens, at - 1)
    if left is None:
        return None
    over, under = _cut(by, tokens, left, at - 1), _cut(by, tokens, at + 1, right)
    whole = _cut(by, tokens, left, right)
    sign = tokens[at].text.lower()
    instead = {
        "/": f"try_divide({over}, {_bare(under)})",
        "%": f"try_mod({over}, {_bare(under)})",
    }.get(sign, f"{over} div nullif({_bare(under)}, 0)")
    return f"{whole} stops the stream when {_bare(under)} is 0: write {instead}"


def _called_division(by: str, tokens: Sequence[Token], at: int) -> str | None:
    """``mod(a, b)`` and ``pmod(a, b)``."""
    parts = _arguments(tokens, at + 1)
    if parts is None or len(parts) != 2 or _never_zero(tokens, parts[1][0]):
        return None
    over, under = (_cut(by, tokens, *part) for part in parts)
    name = tokens[at].text
    whole = _cut(by, tokens, at, parts[1][1] + 1)
    instead = (
        f"try_mod({over}, {under})"
        if tokens[at].name == "mod"
        else f"{name}({over}, nullif({under}, 0))"
    )
    return f"{whole} stops the stream when {under} is 0: write {instead}"


def _conversion(by: str, tokens: Sequence[Token], at: int, numbers: set[str]) -> str | None:
    """``cast(x AS type)``, unless x is a number and the type holds any."""
    end = _closing(tokens, at + 1)
    ways = [i for i in range(at, end or at) if tokens[i].name == "as" and tokens[i].kind == "word"]
    if end is None or not ways:
        return None
    type = _cut(by, tokens, ways[-1] + 1, end - 1)
    inside = tokens[at + 2 : ways[-1]]
    if len(inside) == 1 and type.lower() in ("double", "float", "string"):
        (what,) = inside
        if what.kind == "number" or (what.kind in ("word", "name") and what.name in numbers):
            return None
    whole = _cut(by, tokens, at, end)
    instead = f"try_cast{whole[4:]}"
    return f"{whole} stops the stream at a value that is no {type}: write {instead}"


def _never_zero(tokens: Sequence[Token], at: int) -> bool:
    """Whether a divisor is a number other than 0, or made to be NULL instead of 0."""
    while at < len(tokens) and tokens[at].text in ("-", "+"):
        at += 1
    if at >= len(tokens):
        return False
    token = tokens[at]
    if token.kind == "word" and token.name in _SAFE:
        return True
    return token.kind == "number" and bool(re.search("[1-9]", token.text.lower().split("e")[0]))


def _operand_after(tokens: Sequence[Token], at: int) -> int | None:
    """The last token of the operand that begins here."""
    while at < len(tokens) and tokens[at].text in ("-", "+", "~"):
        at += 1
    if at >= len(tokens):
        return None
    if tokens[at].text == "(":
        return _closing(tokens, at)
    while at + 2 < len(tokens) and tokens[at + 1].text == ".":
        at += 2
    if at + 1 < len(tokens) and tokens[at + 1].text in ("(", "["):
        return _closing(tokens, at + 1)
    return at


def _chain_before(tokens: Sequence[Token], at: int) -> int | None:
    """The first token of the products and quotients that end here."""
    first = _operand_before(tokens, at)
    while first is not None and first > 1 and tokens[first - 1].text.lower() in _CHAIN:
        further = _operand_before(tokens, first - 2)
        if further is None:
            break
        first = further
    return first


def _operand_before(tokens: Sequence[Token], at: int) -> int | None:
    """The first token of the operand that ends here."""
    if at < 0:
        return None
    if tokens[at].text in (")", "]"):
        depth = 0
        while at >= 0:
            depth += tokens[at].text in (")", "]")
            depth -= tokens[at].text in ("(", "[")
            if not depth:
                break
            at -= 1
        if at < 0:
            return None
        if at and tokens[at - 1].kind in ("word", "name") and tokens[at - 1].name not in KEYWORDS:
            at -= 1
    elif tokens[at].kind == "sign":
        return None
    while at > 1 and tokens[at - 1].text == ".":
        at -= 2
    return at


def _arguments(tokens: Sequence[Token], opening: int) -> list[tuple[int, int]] | None:
    """First and last token of each argument between parentheses."""
    end = _closing(tokens, opening)
    if end is None or end == opening + 1:
        return None
    parts, depth, first = [], 0, opening + 1
    for at in range(opening + 1, end + 1):
        if at == end or (tokens[at].text == "," and not depth):
            parts.append((first, at - 1))
            first = at + 1
        depth += tokens[at].text in ("(", "[")
        depth -= tokens[at].text in (")", "]")
    return parts


def _closing(tokens: Sequence[Token], at: int) -> int | None:
    depth = 0
    for place in range(at, len(tokens)):
        depth += tokens[place].text in ("(", "[")
        depth -= tokens[place].text in (")", "]")
        if not depth:
            return place
    return None


def _cut(by: str, tokens: Sequence[Token], first: int, last: int) -> str:
    return by[tokens[first].at : tokens[last].at + len(tokens[last].text)]


def _bare(text: str) -> str:
    """An operand without parentheses around all of it."""
    if text.startswith("(") and text.endswith(")"):
        depth = 0
        for at, letter in enumerate(text):
            depth += (letter == "(") - (letter == ")")
            if not depth:
                return text[1:-1].strip() if at == len(text) - 1 else text
    return text
