"""HTML for notebooks: tables of text, which is always escaped.

There are no colours, so that tables look right on light and on dark pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from divea.errors import printable

_LEFT, _RIGHT = ' style="text-align: left"', ' style="text-align: right"'


def text(value: object) -> str:
    """A value as text in HTML. Text that is written from right to left does not disturb the text around it.

    >>> text("<b>\\u202eא")
    '<bdi>&lt;b&gt;\\\\u202eא</bdi>'
    """
    return f"<bdi>{escape(printable(value))}</bdi>"


def paragraph(words: object) -> str:
    """A paragraph of text."""
    return f"<p>{text(words)}</p>"


def table(header: Sequence[object], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """A table of text and numbers.

    Parameters
    ----------
    header
        The names of the columns; none for a table without a header.
    rows
        Integers, and floating-point numbers with three digits, are aligned to the right. None is empty.
    caption
        A line above the table.

    Examples
    --------
    >>> "<bdi>&lt;i&gt;</bdi>" in table(["name"], [["<i>"]])
    True
    """
    head = "".join(f"<th{_LEFT}>{text(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    above = f"<caption{_LEFT}>{text(caption)}</caption>" if caption else ""
    return f"<table>{above}{f'<thead><tr>{head}</tr></thead>' if header else ''}<tbody>{body}</tbody></table>"


def folded(summary: str, content: str) -> str:
    """HTML that is shown after a click on the summary."""
    return f"<details><summary>{text(summary)}</summary>{content}</details>"


def _cell(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td{_LEFT}>{'' if value is None else text(value)}</td>"
    shown = f"{value:,}" if isinstance(value, int) else f"{value:.3f}"
    return f"<td{_RIGHT}>{text(shown)}</td>"
