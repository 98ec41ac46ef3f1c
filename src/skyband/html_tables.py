"""Tables as plain HTML, for notebooks: every text escaped, no scripts, nothing loaded.

Colours are those of the notebook, so that light and dark ones can be read alike: lines are of a
grey that both show, and what matters less is fainter. Styles stand in the elements themselves,
since notebooks that are not trusted drop style sheets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

from skyband.readable import shown

MOST_ROWS = 40
"""Rows of a table at most; whoever has more says how many were left out."""

_MOST_COLUMNS = 16
_LINE = "1px solid rgba(128, 128, 128, 0.45)"
_CELL = "padding: 0.15em 0.8em; vertical-align: top; white-space: nowrap;"
_TEXT = f"{_CELL} text-align: left;"
_SENTENCE = _TEXT.replace("nowrap", "normal")
_NUMBER = f"{_CELL} text-align: right; font-variant-numeric: tabular-nums;"
_FAINT = "opacity: 0.7; font-size: 90%; margin: 0.2em 0;"
_TITLE = "font-weight: 600; margin: 0.2em 0;"


class Column(NamedTuple):
    """A column: its name, a text per row, and whether these are numbers, which stand right."""

    name: str
    texts: Sequence[str]
    numbers: bool = False


def column(name: str, values: Iterable[Any]) -> Column:
    """A column of any values, written as people read them."""
    cells = list(values)
    numbers = all(
        value is None or (hasattr(value, "__float__") and not isinstance(value, (str, bool)))
        for value in cells
    )
    return Column(name, [shown(value) for value in cells], numbers)


def table(
    title: str,
    columns: Sequence[Column],
    notes: Iterable[str] = (),
    groups: Collection[int] = (),
) -> str:
    """A table below its title and above its notes; a line stands above the rows in ``groups``."""
    remarks = list(notes)
    if len(columns) > _MOST_COLUMNS:
        remarks.append(f"{len(columns) - _MOST_COLUMNS:,} more columns are not shown")
        columns = columns[:_MOST_COLUMNS]
    rows = list(zip(*(each.texts for each in columns), strict=True))
    parts = [f'<div style="{_TITLE}">{escape(title)}</div>'] if title else []
    if rows:
        head = "".join(
            f'<th style="{_NUMBER if each.numbers else _TEXT} border-bottom: {_LINE};">'
            f"{escape(each.name)}</th>"
            for each in columns
        )
        body = "".join(_row(row, columns, at in groups and at > 0) for at, row in enumerate(rows))
        parts.append(
            f'<table style="border-collapse: collapse; border: 0;"><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table>"
        )
    parts += [f'<div style="{_FAINT}">{escape(remark)}</div>' for remark in remarks]
    return f'<div style="overflow-x: auto;">{"".join(parts)}</div>'


def _row(texts: Sequence[str], columns: Sequence[Column], separated: bool) -> str:
    line = f" border-top: {_LINE};" if separated else ""
    cells = "".join(
        f'<td style="{_NUMBER if each.numbers else _TEXT}{line}">{escape(text)}</td>'
        for text, each in zip(texts, columns, strict=True)
    )
    return f"<tr>{cells}</tr>"


def sentences(title: str, lines: Iterable[tuple[str, str]], notes: Iterable[str] = ()) -> str:
    """Names and sentences side by side; a line without a name goes on from the one before."""
    cells = "".join(
        f'<tr><th style="{_TEXT}">{escape(name)}</th>'
        f'<td style="{_SENTENCE}">{escape(sentence)}</td></tr>'
        for name, sentence in lines
    )
    parts = [f'<div style="{_TITLE}">{escape(title)}</div>'] if title else []
    parts.append(f'<table style="border-collapse: collapse; border: 0;"><tbody>{cells}</tbody>')
    parts.append("</table>")
    parts += [f'<div style="{_FAINT}">{escape(remark)}</div>' for remark in notes]
    return f'<div style="overflow-x: auto;">{"".join(parts)}</div>'


def left_out(number: int, one: str, many: str | None = None) -> list[str]:
    """A note of how many were not shown, if any were not."""
    if not number:
        return []
    words = f"1 {one} is" if number == 1 else f"{number:,} {many or one + 's'} are"
    return [f"{words} not shown"]
