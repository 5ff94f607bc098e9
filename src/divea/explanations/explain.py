"""Why two entities were matched, or why an entity has no match: everything comes from what the run kept."""

from __future__ import annotations

import numpy as np

from divea.config.group import shown_value
from divea.errors import InputError, printable
from divea.explanations.explanation import (
    Candidate,
    Contribution,
    Entity,
    Explanation,
    LoneNeighbour,
    Neighbours,
    Side,
)
from divea.explanations.kept import Kept
from divea.explanations.literals import compared_literals, literals_of
from divea.explanations.neighbours import Edges, matching_neighbours, relation_labels
from divea.graphs import KnowledgeGraph, Links
from divea.runs.evidence import Evidence, Regression
from divea.runs.finished import FinishedRun

MOST_RUNNERS_UP = 5
MOST_LONE_NEIGHBOURS = 5
"""The most neighbours without a counterpart that are shown for each of the two entities."""

LEAST_SCORE = 0.0005
"""Candidates with a lower score are not shown."""

_GROUPS = {
    "log score": "score",
    "share of neighbours": "matching neighbours",
    "features": "names and attributes",
    "features up to 10": "names and attributes",
}
"""Columns of the regression that are shown as one kind of evidence."""


def explain(run: FinishedRun, source: str, target: str | None = None) -> Explanation:
    """Explain the match of a source entity, or a pair of entities.

    Parameters
    ----------
    source
        The label of an entity of the source graph, or its name if no other entity has it.
    target
        The label or name of an entity of the target graph; by default the one that the source was matched
        with or, if it has no match, its best candidate.
    """
    kept = Kept(run)
    here = _id(kept, "source", source)
    there = None if target is None else _id(kept, "target", target)
    return explain_pair(kept, here, there)


def explain_pair(kept: Kept, source: int, target: int | None = None) -> Explanation:
    """Explain a pair of ids; without a target, the match of the source or its best candidate."""
    task, known = kept.task, kept.counterparts
    ranked = kept.ranked(source)
    matched = int(known.target[source])
    other = matched if target is None else target
    if other < 0 and ranked:
        other = ranked[0][0]
    is_match = other == matched and other >= 0
    row = kept.evidence.row(source) if is_match and not known.is_seed[source] else None
    ours = literals_of(task.source, source)
    theirs = literals_of(task.target, other) if other >= 0 else {}
    here = kept.edges("source", source)
    there = kept.edges("target", other) if other >= 0 else None
    neighbours: tuple[Neighbours, ...] = ()
    lone: tuple[LoneNeighbour, ...] = ()
    if there is not None:
        neighbours = _neighbours(kept, here, there)
        lone = (*_lone(kept, "source", here, there), *_lone(kept, "target", there, here))
    return Explanation(
        verdict=_verdict(kept, source, other, matched, ranked),
        source=_entity(kept, "source", source, here, ours),
        target=None if there is None else _entity(kept, "target", other, there, theirs),
        score=next((score for one, score in ranked if one == other), None),
        confidence=known.confidence_of(source) if is_match else None,
        contributions=_contributions(kept.evidence, row),
        neighbours=neighbours,
        lone_neighbours=lone,
        literals=tuple(compared_literals(ours, theirs, kept.learned, kept.rarity)),
        runners_up=_runners_up(kept, source, other, ranked),
    )


def _id(kept: Kept, side: Side, label: str) -> int:
    """The entity with this label or, if there is none, the only one with this name."""
    if not isinstance(label, str):
        raise InputError(f"{side}: expected the label of an entity; found {shown_value(label)}")
    found = _find(kept.graph(side), label)
    if found >= 0:
        return found
    named = kept.named(side, label)
    if len(named) == 1:
        return int(named[0])
    shown = printable(label)
    if len(named):
        labels = ", ".join(printable(_label(kept.graph(side), one)) for one in named[:3].tolist())
        raise InputError(f"{len(named)} entities of the {side} graph are named {shown}: {labels}")
    if side == "source" and (other := _find(kept.task.target, label)) >= 0:
        owner = int(kept.counterparts.source[other])
        match = "" if owner < 0 else f", assigned to {printable(_label(kept.task.source, owner))}"
        raise InputError(f"{shown} is an entity of the target graph{match}; name the source entity first")
    raise InputError(f"{shown} is no entity of the {side} graph, nor the name of one")


def _find(graph: KnowledgeGraph, label: str) -> int:
    try:
        return int(graph.find([label])[0])
    except UnicodeEncodeError:
        return -1


def _label(graph: KnowledgeGraph, entity: int) -> str:
    return str(graph.entities[entity].as_py())


def _entity(
    kept: Kept, side: Side, entity: int, edges: Edges, literals: dict[str, tuple[str, ...]]
) -> Entity:
    neighbours = len(np.unique(edges.neighbour))
    return Entity(_label(kept.graph(side), entity), kept.names(side, [entity])[0], neighbours, literals)


def _runners_up(
    kept: Kept, source: int, target: int, ranked: list[tuple[int, float]]
) -> tuple[Candidate, ...]:
    """The first other targets of a ranked list, and what they are matched with."""
    known = kept.counterparts
    # Only the scores of Sinkhorn are shares of a match; others may be negative.
    least = LEAST_SCORE if kept.run.manifest.settings.matching.method == "sinkhorn" else -np.inf
    listed = list(enumerate(ranked[: MOST_RUNNERS_UP + 1], start=1))
    shown = [(rank, one, score) for rank, (one, score) in listed if score >= least and one != target]
    names = kept.names("target", [one for _, one, _ in shown])
    found = []
    for (rank, one, score), name in zip(shown, names, strict=True):
        owner = int(known.source[one])
        assigned_to = kept.names("source", [owner])[0] if owner not in (-1, source) else None
        is_left_out = assigned_to is not None and kept.is_left_out(owner)
        label = _label(kept.task.target, one)
        found.append(Candidate(label, name, rank, float(score), assigned_to, is_left_out))
    return tuple(found[:MOST_RUNNERS_UP])


def _contributions(evidence: Evidence, row: int | None) -> tuple[Contribution, ...]:
    """What each kind of evidence adds to the log odds: first that of all pairs, then the largest first."""
    regression = evidence.regression
    if regression is None or row is None:
        return ()
    sums = _grouped(regression, evidence.values_of(row))
    ordered = sorted(sums.items(), key=lambda item: -abs(item[1]))
    steps = [("average evidence", regression.intercept), *ordered]
    totals = np.cumsum([log_odds for _, log_odds in steps])
    return tuple(
        Contribution(name, float(log_odds), float(0.5 + 0.5 * np.tanh(total / 2)))
        for (name, log_odds), total in zip(steps, totals, strict=True)
    )


def _grouped(regression: Regression, values: np.ndarray) -> dict[str, float]:
    sums: dict[str, float] = {}
    for name, term in zip(regression.columns, regression.terms(values).tolist(), strict=True):
        group = _GROUPS.get(name, name)
        sums[group] = sums.get(group, 0.0) + term
    return sums


def _neighbours(kept: Kept, here: Edges, there: Edges) -> tuple[Neighbours, ...]:
    task = kept.task
    found = matching_neighbours(task, kept.counterparts, here, there, kept.agreement(here, there))
    sources, targets = [item.source for item in found], [item.target for item in found]
    names = zip(kept.names("source", sources), kept.names("target", targets), strict=True)
    return tuple(
        Neighbours(
            _label(task.source, item.source),
            _label(task.target, item.target),
            *both,
            item.source_relations,
            item.target_relations,
            item.confidence,
            item.is_seed,
            item.share,
        )
        for item, both in zip(found, names, strict=True)
    )


def _lone(kept: Kept, side: Side, own: Edges, others: Edges) -> tuple[LoneNeighbour, ...]:
    """Some neighbours that match no neighbour of the other entity: first those that match something else."""
    known = kept.counterparts
    match_of, graph = (known.target if side == "source" else known.source), kept.graph(side)
    other_side: Side = "target" if side == "source" else "source"
    near = np.unique(own.neighbour)
    lone = near[~np.isin(match_of[near], others.neighbour)]
    # Sorted by label, because ids mean nothing to people.
    in_order = sorted(zip(match_of[lone] < 0, graph.label(lone), lone.tolist(), strict=True))
    shown = [one for _, _, one in in_order[:MOST_LONE_NEIGHBOURS]]
    matches = match_of[shown].tolist()
    return tuple(
        LoneNeighbour(
            side,
            _label(graph, one),
            name,
            relation_labels(own.to(one), graph),
            None if match < 0 else kept.names(other_side, [match])[0],
            match >= 0 and kept.is_left_out(one if side == "source" else match),
        )
        for one, name, match in zip(shown, kept.names(side, shown), matches, strict=True)
    )


def _verdict(kept: Kept, source: int, target: int, matched: int, ranked: list[tuple[int, float]]) -> str:
    """What happened to a pair, in a sentence."""
    run, known = kept.run, kept.counterparts
    if known.is_seed[source]:
        return (
            "the pair is a seed"
            if target == matched
            else "the source is matched with another target by a seed"
        )
    if target < 0:
        return "the source has no candidates: its subtask could not be solved, or has no targets"
    place = next((rank for rank, (one, _) in enumerate(ranked, start=1) if one == target), None)
    if target == matched:
        confidence = known.confidence_of(source)
        if confidence is not None and confidence < kept.threshold:
            if np.isinf(kept.threshold):
                return "left out of the mappings, because no threshold gives the precision that was set"
            return f"left out of the mappings, because its confidence is below {kept.threshold:.3g}"
        return f"matched; the target is number {place} of the source's ranked list"
    if len(Links.from_pairs([(source, target)]).intersection(run.task.rejected)):
        return "not matched: a review rejected this pair"
    if np.isin(target, run.task.seeds.target):
        return "not matched: the target is matched with another source by a seed"
    subtask = next((one for one in run.division.subtasks if np.isin(source, one.unmatched)), None)
    if subtask is not None and not np.isin(target, subtask.candidates):
        return "not matched: the target was no candidate in the source's subtask of the last iteration"
    rank = "is not in the source's ranked list" if place is None else f"is number {place} of the ranked list"
    owner = int(known.source[target])
    if matched < 0 and owner >= 0:
        name = kept.names("source", [owner])[0]
        return f"not matched: the target {rank}, but was assigned to {name}"
    if matched < 0:
        return f"not matched: the target {rank}, and the source has no match at all"
    return f"not matched: the target {rank}, and the source was matched with another target"
