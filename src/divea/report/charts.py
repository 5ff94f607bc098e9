"""Charts as SVG text: lines and bars. They follow the colours of the page and print sharply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from markupsafe import Markup, escape

WIDTH, HEIGHT = 720, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 18, 34
_MOST_NUMBERS = 24
"""The most bars of a chart that has a number above each bar."""


@dataclass(frozen=True)
class Line:
    """One line of a chart; None where there is nothing to show."""

    name: str
    colour: int
    """The number of its colour on the page."""
    values: Sequence[float | None]
    dashed: bool = False


@dataclass(frozen=True)
class Bar:
    """One bar of a chart."""

    name: str
    value: float
    note: str
    """The tooltip of the bar."""


def line_chart(lines: Sequence[Line], x_name: str, marker: float) -> Markup:
    """A chart of lines from 0 to 1 on both axes, with a marker that the page can move.

    Parameters
    ----------
    lines
        The lines, all with the same number of values, evenly spaced from 0 to 1.
    marker
        The place of the vertical line, from 0 to 1.
    """
    parts = [_axis(), *_names_of_x(x_name)]
    for line in lines:
        kind = f"series series-{line.colour}" + (" dashed" if line.dashed else "")
        parts.append(
            Markup('<path class="{}" d="{}"><title>{}</title></path>').format(kind, _path(line), line.name)
        )
    x = _x(marker)
    parts.append(
        Markup('<path class="marker" id="marker" data-x="{0:.1f}" d="M{0:.1f} {1}V{2}"/>').format(
            x, _TOP, HEIGHT - _BOTTOM
        )
    )
    return _chart(parts, ", ".join(line.name for line in lines))


def _path(line: Line) -> str:
    """The path of a line, in pieces where values are missing."""
    last = max(len(line.values) - 1, 1)
    path, is_drawing = [], False
    for place, value in enumerate(line.values):
        if value is not None:
            path.append(f"{'L' if is_drawing else 'M'}{_x(place / last):.1f} {_y(value):.1f}")
        is_drawing = value is not None
    return "".join(path)


def bar_chart(bars: Sequence[Bar], highest: float | None = None) -> Markup:
    """A chart of vertical bars with their names below.

    Parameters
    ----------
    highest
        The value at the top, with an axis in per cent; by default the highest bar, without an axis.
    """
    top = highest or max([bar.value for bar in bars], default=1.0) or 1.0
    step = (WIDTH - _LEFT - _RIGHT) / max(len(bars), 1)
    parts = [_axis()] if highest else []
    # Names must not run into each other.
    longest = max((len(bar.name) for bar in bars), default=1)
    every = max(ceil(9 * longest / step), 1)
    for place, bar in enumerate(bars):
        x, y = _LEFT + place * step, _y(bar.value / top)
        parts.append(
            Markup(
                '<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
                "<title>{}: {}</title></rect>"
            ).format(x + step * 0.1, y, step * 0.8, max(HEIGHT - _BOTTOM - y, 0.5), bar.name, bar.note)
        )
        if not highest and len(bars) <= _MOST_NUMBERS:
            number = f"{bar.value:,.0f}" if bar.value == int(bar.value) else f"{bar.value:,.1f}"
            parts.append(_text(number if bar.value else "", x + step / 2, y - 4, "middle"))
        if place % every == 0:
            parts.append(_text(bar.name, x + step / 2, HEIGHT - _BOTTOM + 16, "middle"))
    return _chart(parts, "; ".join(f"{bar.name}: {bar.note}" for bar in bars[:40]))


def _axis() -> Markup:
    """Horizontal lines at each fifth, with per cents."""
    shares = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    rules = "".join(f"M{_LEFT} {_y(share):.1f}H{WIDTH - _RIGHT}" for share in shares)
    names = Markup("").join(_text(f"{share:.0%}", _LEFT - 6, _y(share) + 4, "end") for share in shares)
    return Markup('<path class="rule" d="{}"/>').format(rules) + names


def _names_of_x(name: str) -> list[Markup]:
    bottom = HEIGHT - _BOTTOM + 16
    numbers = [_text(f"{share:.1f}", _x(share), bottom, "middle") for share in (0, 0.2, 0.4, 0.6, 0.8, 1)]
    return [*numbers, _text(name, (_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 2, "middle")]


def _x(share: float) -> float:
    return _LEFT + share * (WIDTH - _LEFT - _RIGHT)


def _y(share: float) -> float:
    return HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM)


def _text(text: str, x: float, y: float, anchor: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(x, y, anchor, text)


def _chart(parts: Sequence[Markup], label: str) -> Markup:
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, HEIGHT, escape(label), Markup("").join(parts)
    )
