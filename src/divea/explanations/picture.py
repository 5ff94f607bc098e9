"""The picture of an explanation: both neighbourhoods side by side, and where the confidence comes from.

The source stands on the left and the target on the right, with their neighbours between them. Neighbours
that match each other share a line. The picture is SVG text, in which labels are always escaped.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from divea.errors import InputError, printable
from divea.explanations.explanation import Contribution, Explanation, LoneNeighbour, Side
from divea.explanations.text import INVERSE, lone_match, relation_name

STYLE = """
.picture { font: 13px system-ui, sans-serif; --ink: #1c2430; --faint: #667085; --box: #eef2f7;
  --line: #98a2b3; --good: #1a7f5a; --bad: #b42318; --paper: #fff; background: var(--paper); }
@media (prefers-color-scheme: dark) { .picture { --ink: #e6e9ef; --faint: #98a2b3; --box: #232b37;
  --line: #667085; --good: #4cc38a; --bad: #f97066; --paper: #151b24; } }
.picture text { fill: var(--ink); unicode-bidi: isolate; }
.picture .faint { fill: var(--faint); font-size: 11px; paint-order: stroke; stroke: var(--paper);
  stroke-width: 3px; }
.picture g .faint { stroke: none; }
.picture .strong { font-weight: 600; }
.picture rect { fill: var(--box); }
.picture .edge { fill: none; stroke: var(--line); }
.picture .match { stroke: var(--good); stroke-width: 2; }
.picture .lone { stroke-dasharray: 3 3; }
.picture rect.good { fill: var(--good); }
.picture rect.bad { fill: var(--bad); }
"""
"""The style of pictures; a page that holds several of them needs it once."""

WIDTH = 1080
_SOURCE, _OURS, _THEIRS, _TARGET = 0, 320, 590, 910
"""The left edge of each column of boxes."""
_BOX, _ROW = 170, 38
_MOST_MATCHING = 8
_BAR = 330, 900
"""The left and the right limit of the bars of contributions."""


def require_svg(path: Path) -> None:
    """Raise InputError unless the name of a picture ends in .svg."""
    if path.suffix.lower() != ".svg":
        raise InputError("a picture is written as SVG; let the name end in .svg", path=path)


def standalone_picture(found: Explanation) -> str:
    """The picture as a file of its own."""
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{picture(found, STYLE)}\n'


def picture(found: Explanation, style: str = "") -> str:
    """The picture as an SVG element.

    Parameters
    ----------
    style
        The style to put into the element, if the page around it does not have it.
    """
    rows = list(_rows(found))
    top = 54
    height = top + _ROW * max(len(rows), 2)
    middle = (top + height) / 2
    parts = [_text(_short(found.verdict, 120), 0, 8, "strong", "start")]
    parts += [part for row, content in enumerate(rows) for part in _draw(content, top + _ROW * row, middle)]
    parts += _entity(found.source.name, _SOURCE, middle, "source")
    if found.target is not None:
        parts += _entity(found.target.name, _TARGET, middle, "target")
    if found.contributions:
        parts += _waterfall(found.contributions, height + 20)
        height += 44 + 22 * len(found.contributions)
    legend = (
        "in one line and green: neighbours that match each other, with their share of the structural evidence"
    )
    parts.append(
        _text(f"{legend} and their confidence; dashed: the others", 0, height + 18, "faint", "start")
    )
    height += 24
    name = escape(printable(f"{found.source.name}: {found.verdict}"))
    # A page shows the picture inline, where the namespace is not needed but does no harm.
    inside = f"<style>{style}</style>" if style else ""
    return (
        '<svg class="picture" xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="-12 -12 {WIDTH + 24} {height + 24:.0f}"><title>{name}</title>'
        f"{inside}{''.join(parts)}</svg>"
    )


class _Line:
    """A line of the picture: a neighbour of the source, one of the target, or both."""

    def __init__(self) -> None:
        self.ends: dict[Side, tuple[str, tuple[str, ...], str]] = {}
        """The name of the neighbour, its relations, and a text about it."""
        self.share: float | None = None
        """The share of the evidence, if the two match each other."""
        self.note = ""


def _rows(found: Explanation) -> Iterator[_Line]:
    for item in found.neighbours[:_MOST_MATCHING]:
        line = _Line()
        line.ends = {
            "source": (item.source_name, item.source_relations, item.source_name),
            "target": (item.target_name, item.target_relations, item.target_name),
        }
        line.share = item.share
        known = "seed" if item.is_seed else "" if item.confidence is None else f"{item.confidence:.2f}"
        line.note = f"{item.share:.0%}" + (f" · {known}" if known else "")
        yield line
    if len(found.neighbours) > _MOST_MATCHING:
        line = _Line()
        line.note = f"{len(found.neighbours) - _MOST_MATCHING} more"
        yield line
    sides: list[list[LoneNeighbour]] = [
        [item for item in found.lone_neighbours if item.side == side] for side in ("source", "target")
    ]
    for number in range(max(map(len, sides))):
        line = _Line()
        for side in sides:
            if number < len(side):
                lone = side[number]
                line.ends[lone.side] = lone.name, lone.relations, f"{lone.name}: {lone_match(lone)}"
        yield line


def _draw(line: _Line, top: float, middle: float) -> Iterator[str]:
    """A line of neighbours, with edges to their entities."""
    centre = top + 14
    matches = line.share is not None
    for side, (name, relations, about) in line.ends.items():
        is_source = side == "source"
        left = _OURS if is_source else _THEIRS
        start, end = (_SOURCE + _BOX, left) if is_source else (_TARGET, left + _BOX)
        bend = (end - start) / 2
        width = 1 + 4 * (line.share or 0.0)
        yield (
            f'<path class="edge{"" if matches else " lone"}" stroke-width="{width:.1f}" '
            f'd="M{start} {middle:.0f}C{start + bend:.0f} {middle:.0f} {start + bend:.0f} {centre:.0f} '
            f'{end} {centre:.0f}"/>'
        )
        yield from _box(name, left, top, about, faint=not matches)
        x, anchor = (left - 6, "end") if is_source else (left + _BOX + 6, "start")
        yield _text(_with_arrow(relations, is_source), x, centre - 5, "faint", anchor)
    if matches:
        yield f'<path class="match" d="M{_OURS + _BOX} {centre:.0f}H{_THEIRS}"/>'
    yield _text(line.note, (_OURS + _BOX + _THEIRS) / 2, centre - 5, "faint", "middle")


def _with_arrow(relations: tuple[str, ...], is_source: bool) -> str:
    """The first relation, with an arrow in the direction in which it points in the picture."""
    names = [relation_name(label) for label in relations]
    name = names[0].removeprefix(INVERSE)
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    points_right = (name == names[0]) == is_source
    short = _short(name, 18)
    return f"{short}{more} →" if points_right else f"← {short}{more}"


def _entity(name: str, left: float, middle: float, role: str) -> Iterator[str]:
    yield from _box(name, left, middle - 14, name, strong=True)
    yield _text(role, left + _BOX / 2, middle - 20, "faint", "middle")


def _box(
    name: str, left: float, top: float, about: str, *, faint: bool = False, strong: bool = False
) -> Iterator[str]:
    kind = "faint" if faint else "strong" if strong else ""
    title = f"<title>{escape(printable(about))}</title>"
    yield f'<g>{title}<rect x="{left}" y="{top:.0f}" width="{_BOX}" height="28" rx="6"/>'
    yield _text(_short(name, 18 if strong else 21), left + _BOX / 2, top + 19, kind, "middle") + "</g>"


def _waterfall(contributions: tuple[Contribution, ...], top: float) -> Iterator[str]:
    """Bars that start where the one before ended."""
    yield _text("where the confidence comes from, in log odds", 0, top + 8, "faint", "start")
    totals = [0.0]
    for item in contributions:
        totals.append(totals[-1] + item.log_odds)
    low, high = min(totals), max(totals)
    scale = (_BAR[1] - _BAR[0]) / max(high - low, 1e-9)
    zero, bottom = _BAR[0] - scale * low, top + 18 + 22 * len(contributions)
    yield f'<path class="edge" d="M{zero:.0f} {top + 14:.0f}V{bottom:.0f}"/>'
    for number, item in enumerate(contributions):
        y = top + 18 + 22 * number
        ends = sorted(_BAR[0] + scale * (total - low) for total in totals[number : number + 2])
        kind = "good" if item.log_odds >= 0 else "bad"
        yield _text(item.evidence, 0, y + 12, "", "start")
        yield (
            f'<rect class="{kind}" x="{ends[0]:.0f}" y="{y:.0f}" '
            f'width="{max(ends[1] - ends[0], 1):.0f}" height="14" rx="2"/>'
        )
        yield _text(f"{item.log_odds:+.2f}", _BAR[0] - 16, y + 12, "", "end")
        yield _text(f"{item.confidence:.3f} so far", WIDTH, y + 12, "faint", "end")


def _text(text: str, x: float, y: float, kind: str, anchor: str) -> str:
    shown = escape(printable(text))
    return f'<text class="{kind}" x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{shown}</text>'


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
