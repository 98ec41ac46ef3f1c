"""Docstrings as Markdown, for the documentation site alone.

Ours are plain text with examples under ``>>>`` and roles such as ``:meth:`push```, which editors
and ``help()`` show well; Markdown would take the examples for quotations.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":[a-z]+:`~?([^`]+)`")
_LABEL = re.compile(
    r"^(Invariants|Complexity|Reference|Deviations|Options?|Parameters|Raises): ", re.MULTILINE
)


class Docstrings(griffe.Extension):
    """Turns the docstring of each object into Markdown when it is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(text: str) -> str:
    """Roles as code, labels in bold, examples as fenced blocks.

    >>> print(markdown("See :meth:`push`."))
    See `push`.
    """
    text = _LABEL.sub(r"**\1:** ", _ROLE.sub(r"`\1`", text))
    lines: list[str] = []
    fenced = False
    for line in text.splitlines():
        starts = line.startswith(">>> ")
        if starts and not fenced:
            lines += ["", "```pycon"]
            fenced = True
        elif fenced and not line.strip():
            lines.append("```")
            fenced = False
        if line.strip() != "::":
            lines.append(line)
    if fenced:
        lines.append("```")
    return "\n".join(lines)
