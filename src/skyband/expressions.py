"""What stands for a column in a query: its name, or the text of a SQL expression.

The name of a column always means that column. Any other text is an expression if it holds more than
letters, digits, underscores and blanks; else it is a name that was misspelt, and is refused as one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_ALIAS = re.compile(
    r"""(?P<sql>.*\S)\s+AS\s+(?P<name>\w+|"[^"]+"|`[^`]+`)""", re.IGNORECASE | re.DOTALL
)
_WORDS = re.compile(r"[\w\s]*")


class NamedExpression(NamedTuple):
    """SQL text, and what its column is called."""

    sql: str
    name: str

    @property
    def is_word(self) -> bool:
        """Whether the text can only be the name of a column."""
        return _WORDS.fullmatch(self.sql) is not None


def named(text: str) -> NamedExpression:
    """An expression, called by its text or by the name that it has after AS.

    >>> named("upper(sector) AS Sector")
    NamedExpression(sql='upper(sector)', name='Sector')
    >>> named("cast(day AS int)").name
    'cast(day AS int)'
    """
    text = text.strip()
    match = _ALIAS.fullmatch(text)
    return (
        NamedExpression(match["sql"], match["name"].strip('"`'))
        if match
        else (NamedExpression(text, text))
    )
