"""An explanation as HTML for notebooks: the sections of its text as tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from divea.explanations.text import MOST_LITERALS, MOST_NEIGHBOURS, end_of, relation_name
from divea.html_text import paragraph, table

if TYPE_CHECKING:
    from divea.explanations.explanation import Explanation


def as_html(found: Explanation) -> str:
    """The HTML of an explanation."""
    return "".join(_sections(found))


def _sections(found: Explanation) -> Iterator[str]:
    yield paragraph(found.verdict)
    ends = [("source", found.source), ("target", found.target)]
    yield table(
        ["", "name", "label", "neighbours"],
        [(side, one.name, one.label, one.neighbours) for side, one in ends if one is not None],
    )
    figures = [("confidence", found.confidence), ("score", found.score)]
    if known := [figure for figure in figures if figure[1] is not None]:
        yield table([], known)
    if found.contributions:
        yield table(
            ["evidence", "log odds", "confidence so far"],
            [(item.evidence, item.log_odds, item.confidence) for item in found.contributions],
            "Where the confidence comes from: log odds that add up",
        )
    if found.neighbours:
        yield table(
            ["share", "relation", "neighbour", "relation", "neighbour", "confidence"],
            [
                (
                    f"{item.share:.0%}",
                    ", ".join(map(relation_name, item.source_relations)),
                    item.source_name,
                    ", ".join(map(relation_name, item.target_relations)),
                    item.target_name,
                    "a seed" if item.is_seed else item.confidence,
                )
                for item in found.neighbours[:MOST_NEIGHBOURS]
            ],
            _neighbours_caption(len(found.neighbours)),
        )
    if found.lone_neighbours:
        yield table(
            ["", "relation", "neighbour", "matched with"],
            [
                (one.side, ", ".join(map(relation_name, one.relations)), one.name, one.match)
                for one in found.lone_neighbours
            ],
            "Neighbours without a counterpart",
        )
    if found.literals:
        yield table(
            ["log odds", "verdict", "property", "values", "property", "values"],
            [
                (
                    one.log_odds,
                    one.verdict,
                    end_of(one.source_property),
                    ", ".join(one.source_values),
                    end_of(one.target_property),
                    ", ".join(one.target_values),
                )
                for one in found.literals[:MOST_LITERALS]
            ],
            "Literals that the run learned to compare",
        )
    if found.runners_up:
        yield table(
            ["rank", "candidate", "score", "matched with"],
            [(one.rank, one.name, one.score, one.assigned_to) for one in found.runners_up],
            "Other candidates",
        )


def _neighbours_caption(count: int) -> str:
    shown = f", of which {MOST_NEIGHBOURS} are shown" if count > MOST_NEIGHBOURS else ""
    return f"{count} neighbours that match each other{shown}, with their share of the structural evidence"
