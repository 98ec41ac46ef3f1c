"""What in a score would stop a stream, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from skyband.spark.expressions import KEYWORDS, Token

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
