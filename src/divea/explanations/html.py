"""An explanation as HTML for notebooks: its picture, and the rest as tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from divea.explanations.picture import STYLE, picture
from divea.explanations.text import MOST_LITERALS, candidate_match, end_of
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
    if found.target is not None:
        yield picture(found, STYLE)
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
            ["rank", "candidate", "score", ""],
            [(one.rank, one.name, one.score, candidate_match(one)) for one in found.runners_up],
            "Other candidates",
        )
