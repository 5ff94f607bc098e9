"""An explanation as text for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from divea.errors import printable

if TYPE_CHECKING:
    from divea.explanations.explanation import Candidate, Entity, Explanation, LoneNeighbour, Neighbours

MOST_NEIGHBOURS, MOST_LITERALS = 10, 12

INVERSE = "inverse of "
"""The prefix of relations that point at the entity."""


def as_text(found: Explanation) -> str:
    """The text of an explanation, without characters that control a terminal."""
    return "\n".join(printable(line) for line in _lines(found))


def _lines(found: Explanation) -> Iterator[str]:
    yield f"source  {_entity(found.source)}"
    if found.target is not None:
        yield f"target  {_entity(found.target)}"
    figures = [
        f"{name} {value:.3f}"
        for name, value in (("confidence", found.confidence), ("score", found.score))
        if value is not None
    ]
    yield "; ".join([found.verdict, *figures])
    if found.contributions:
        yield ""
        yield "where the confidence comes from, in log odds that add up:"
        for item in found.contributions:
            yield f"  {item.evidence:22}{item.log_odds:+7.2f}   confidence so far {item.confidence:.3f}"
    if found.target is not None:
        yield ""
        yield from _neighbour_lines(found)
    if found.lone_neighbours:
        yield ""
        yield "neighbours without a counterpart on the other side, a few of each:"
        yield from (f"  {item.side:8}{_lone(item)}" for item in found.lone_neighbours)
    if found.literals:
        yield ""
        yield "values that the run compared, with the log odds of each, before the weight of attributes"
        yield "(even equal values count against a pair if many other pairs share them):"
        for one in found.literals[:MOST_LITERALS]:
            ours, theirs = (", ".join(values) for values in (one.source_values, one.target_values))
            properties = f"{end_of(one.source_property)}: {ours} | {end_of(one.target_property)}: {theirs}"
            yield f"  {one.log_odds:+6.2f}  {one.verdict:14}{properties}"
    if found.runners_up:
        yield ""
        yield "other candidates:"
        for candidate in found.runners_up:
            match = candidate_match(candidate)
            owner = f", {match}" if match else ""
            yield f"  {candidate.rank}. {candidate.name}  score {candidate.score:.3f}{owner}"


def _neighbour_lines(found: Explanation) -> Iterator[str]:
    assert found.target is not None
    neighbours = found.neighbours
    sizes = f"(the source has {found.source.neighbours}, the target {found.target.neighbours})"
    if not neighbours:
        yield f"no neighbours match each other {sizes}"
        return
    yield f"neighbours that match each other: {len(neighbours)} {sizes}, with their share of the structural"
    yield "evidence, estimated from their confidence and from how far the relations agree:"
    for item in neighbours[:MOST_NEIGHBOURS]:
        yield f"  {item.share:4.0%}  {_neighbour(item)}"
    if len(neighbours) > MOST_NEIGHBOURS:
        rest = sum(item.share for item in neighbours[MOST_NEIGHBOURS:])
        yield f"  {rest:4.0%}  {len(neighbours) - MOST_NEIGHBOURS} more"


def _neighbour(item: Neighbours) -> str:
    ours, theirs = (
        f"{', '.join(map(relation_name, relations))}: {name}"
        for relations, name in (
            (item.source_relations, item.source_name),
            (item.target_relations, item.target_name),
        )
    )
    known = "a seed" if item.is_seed else "" if item.confidence is None else f"{item.confidence:.2f}"
    return f"{ours} = {theirs}{f' ({known})' if known else ''}"


def _lone(item: LoneNeighbour) -> str:
    return f"{', '.join(map(relation_name, item.relations))}: {item.name} ({lone_match(item)})"


def lone_match(item: LoneNeighbour) -> str:
    """What a neighbour without a counterpart is assigned to, in words."""
    if item.match is None:
        return "no match"
    return f"assigned to {item.match}" + (", left out" if item.is_left_out else "")


def candidate_match(item: Candidate) -> str:
    """What another candidate is assigned to, in words; empty if nothing."""
    if item.assigned_to is None:
        return ""
    return f"assigned to {item.assigned_to}" + (", left out of the mappings" if item.is_left_out else "")


def _entity(entity: Entity) -> str:
    return entity.label if entity.name == entity.label else f"{entity.name}  <{entity.label}>"


def relation_name(label: str) -> str:
    """The end of a relation's IRI; `inverse of` stays before it."""
    prefix = INVERSE if label.startswith(INVERSE) else ""
    return prefix + end_of(label.removeprefix(INVERSE))


def end_of(label: str) -> str:
    """The end of an IRI, or the label itself."""
    return label.rstrip("/#").replace("#", "/").rsplit("/", 1)[-1] if "://" in label else label
