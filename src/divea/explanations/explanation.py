"""The parts of an explanation, which can be printed, drawn, and written as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from divea.explanations.literals import LiteralComparison
from divea.io import new_file, usable_path

Side = Literal["source", "target"]


@dataclass(frozen=True)
class Entity:
    """An entity as people know it."""

    label: str
    name: str
    neighbours: int
    literals: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Contribution:
    """What one kind of evidence adds to the confidence of a pair."""

    evidence: str
    log_odds: float
    confidence: float
    """The confidence with this contribution and all before it."""


@dataclass(frozen=True)
class Neighbours:
    """Two neighbours that match each other, one of each entity."""

    source: str
    target: str
    source_name: str
    target_name: str
    source_relations: tuple[str, ...]
    target_relations: tuple[str, ...]
    confidence: float | None
    is_seed: bool
    share: float


@dataclass(frozen=True)
class LoneNeighbour:
    """A neighbour of one entity that matches no neighbour of the other."""

    side: Side
    label: str
    name: str
    relations: tuple[str, ...]
    match: str | None
    """The name of what it is assigned to instead; None if it has no match."""
    is_left_out: bool
    """Whether that pair is left out of the mappings."""


@dataclass(frozen=True)
class Candidate:
    """A target in the ranked list of the source."""

    target: str
    name: str
    rank: int
    score: float
    assigned_to: str | None
    """The name of the other source entity that it was assigned to, or that it is a seed with."""
    is_left_out: bool
    """Whether that pair is left out of the mappings."""


@dataclass(frozen=True)
class Explanation:
    """Why two entities were matched, or why they were not.

    `str(explanation)` is a text for people, `explanation.save("why.svg")` draws the two neighbourhoods, and
    `explanation.as_dict()` has everything as plain JSON types.

    Examples
    --------
    >>> explanation = alignment.explain("http://source.example/resource/E102")  # doctest: +SKIP
    >>> explanation.confidence, explanation.verdict  # doctest: +SKIP
    """

    verdict: str
    """What happened to the pair, in a sentence."""
    source: Entity
    target: Entity | None
    """None if there is nothing to compare the source with."""
    score: float | None
    confidence: float | None
    contributions: tuple[Contribution, ...]
    """Their log odds add up to the confidence; empty if the pair has none."""
    neighbours: tuple[Neighbours, ...]
    lone_neighbours: tuple[LoneNeighbour, ...]
    """Some neighbours without a counterpart on the other side, at most a few of each entity."""
    literals: tuple[LiteralComparison, ...]
    runners_up: tuple[Candidate, ...]

    def as_dict(self) -> dict[str, Any]:
        """The explanation as plain JSON types."""
        return asdict(self)

    def save(self, path: str | Path) -> None:
        """Write a picture of the two neighbourhoods side by side, as SVG."""
        from divea.explanations.picture import require_svg, standalone_picture

        path = usable_path(path)
        require_svg(path)
        with new_file(path) as temporary:
            temporary.write_text(standalone_picture(self), encoding="utf-8")

    def __str__(self) -> str:
        from divea.explanations.text import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from divea.explanations.html import as_html

        return as_html(self)
