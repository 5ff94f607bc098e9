"""Why two entities were matched, or why an entity has no match: everything comes from what the run kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow.compute as pc
from scipy.special import expit

from divea.config.group import shown_value
from divea.errors import InputError, printable
from divea.explanations.literals import LiteralComparison, compared_literals, literals_of
from divea.explanations.neighbours import edges_of, match_of, matching_neighbours
from divea.formats.parquet import open_parquet
from divea.graphs import KnowledgeGraph, Links
from divea.graphs.arrays import read_description
from divea.graphs.names import GIVEN_NAME, NAME_PREDICATES, entity_names, readable
from divea.runs.evidence import Evidence, Regression, read_evidence
from divea.runs.finished import FinishedRun
from divea.runs.layout import CALIBRATION, EVIDENCE, FEATURES, RANKED
from divea.runs.tables import RANKED_SCHEMA

MOST_RUNNERS_UP = 5

LEAST_SCORE = 0.0005
"""Candidates with a lower score are not shown."""

Side = Literal["source", "target"]

_GROUPS = {
    "log score": "score",
    "share of neighbours": "matching neighbours",
    "features": "names and attributes",
    "features up to 10": "names and attributes",
}
"""Columns of the regression that people need not tell apart."""


@dataclass(frozen=True)
class _Kept:
    """What a run kept: all that explanations come from."""

    run: FinishedRun
    evidence: Evidence
    properties: dict[str, tuple[str, ...]]
    """The properties of both graphs that name entities: side -> properties, the preferred ones first."""
    learned: list[dict[str, Any]]
    """What was learned about pairs of properties."""
    threshold: float
    """The confidence below which pairs are left out of the mappings."""

    @classmethod
    def by(cls, run: FinishedRun) -> _Kept:
        """What this run kept. Raises InputError if its files are not those of a run."""
        return cls(
            run,
            read_evidence(run.path / EVIDENCE, run.task),
            *_learned(run.path / FEATURES),
            _threshold(run.path / CALIBRATION),
        )

    def names(self, side: Side, ids: list[int]) -> list[str]:
        """The names of entities, in one line each."""
        graph: KnowledgeGraph = getattr(self.run.task, side)
        names = entity_names(graph, self.properties[side], np.array(ids, dtype=np.int32))
        found: list[str] = readable(names).to_pylist()
        return found


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
    """A neighbour of each entity, which match each other."""

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
class Candidate:
    """A target in the ranked list of the source."""

    target: str
    name: str
    rank: int
    score: float
    assigned_to: str | None
    """The name of the other source entity that it was assigned to, or that it is a seed with."""


@dataclass(frozen=True)
class Explanation:
    """Why two entities were matched, or why they were not.

    `str(explanation)` is a text for people, `explanation.as_dict()` has the same as plain JSON types.
    """

    verdict: str
    """What happened to the pair, in a sentence."""
    source: Entity
    target: Entity | None
    """None if there is nothing to compare the source with."""
    score: float | None
    confidence: float | None
    contributions: tuple[Contribution, ...]
    """They add up to the confidence; empty if the pair has none."""
    neighbours: tuple[Neighbours, ...]
    literals: tuple[LiteralComparison, ...]
    runners_up: tuple[Candidate, ...]

    def as_dict(self) -> dict[str, Any]:
        """The explanation as plain JSON types."""
        return asdict(self)

    def __str__(self) -> str:
        from divea.explanations.text import as_text

        return as_text(self)


def explain(run: FinishedRun, source: str, target: str | None = None) -> Explanation:
    """Explain the match of a source entity, or a pair of entities.

    Parameters
    ----------
    source
        The label of an entity of the source graph.
    target
        The label of an entity of the target graph; by default the one that the source was matched with or,
        if it has no match, its best candidate.
    """
    kept = _Kept.by(run)
    task, evidence = run.task, kept.evidence
    here = _id(task.source, source, "source")
    ranked = _ranked(run, source, here)
    matched, confidence, is_seed = match_of(task, evidence, here)
    other = matched if target is None else _id(task.target, target, "target")
    if other < 0 and ranked:
        other = ranked[0][0]
    candidates = _candidates(kept, here, ranked)
    score = next((score for one, score in ranked if one == other), None)
    is_match = other == matched and other >= 0
    row = evidence.row(here) if is_match and not is_seed else None
    ours = literals_of(task.source, here)
    theirs = literals_of(task.target, other) if other >= 0 else {}
    return Explanation(
        verdict=_verdict(kept, here, other, matched, is_seed, ranked),
        source=_entity(kept, "source", here, ours),
        target=_entity(kept, "target", other, theirs) if other >= 0 else None,
        score=score,
        confidence=confidence if is_match else None,
        contributions=_contributions(evidence, row),
        neighbours=_neighbours(kept, here, other),
        literals=tuple(compared_literals(ours, theirs, kept.learned)),
        runners_up=tuple(one for one in candidates if other < 0 or one.target != _label(task.target, other))[
            :MOST_RUNNERS_UP
        ],
    )


def _id(graph: KnowledgeGraph, label: str, side: str) -> int:
    if not isinstance(label, str):
        raise InputError(f"{side}: expected the label of an entity; found {shown_value(label)}")
    try:
        found = int(graph.find([label])[0])
    except UnicodeEncodeError:
        found = -1
    if found < 0:
        raise InputError(f"{printable(label)} is no entity of the {side} graph")
    return found


def _label(graph: KnowledgeGraph, entity: int) -> str:
    return str(graph.entities[entity].as_py())


def _entity(kept: _Kept, side: Side, entity: int, literals: dict[str, tuple[str, ...]]) -> Entity:
    graph: KnowledgeGraph = getattr(kept.run.task, side)
    neighbours = len(np.unique(edges_of(graph, entity).neighbour))
    return Entity(_label(graph, entity), kept.names(side, [entity])[0], neighbours, literals)


def _ranked(run: FinishedRun, label: str, source: int) -> list[tuple[int, float]]:
    """The ranked list of a source: targets and scores. Lists are sorted by source id, so a binary search
    finds the row group.
    """
    columns = ["source", "target", "score"]
    with open_parquet(run.path / RANKED, columns) as file:
        low, high = 0, file.num_row_groups - 1
        while low < high:
            middle = (low + high + 1) // 2
            first = next(file.iter_batches(1, [middle], ["source"]))["source"]
            if int(run.task.source.find(first)[0]) <= source:
                low = middle
            else:
                high = middle - 1
        # A list may start in the group before or continue in the next one.
        groups = [group for group in (low - 1, low, low + 1) if 0 <= group < file.num_row_groups]
        table = file.read_row_groups(groups, columns)
    if table.schema.types != [RANKED_SCHEMA.field(name).type for name in columns]:
        raise InputError("is not the table of a run", path=run.path / RANKED)
    found = table.filter(pc.equal(table["source"], label))
    targets = run.task.target.find(found["target"]).tolist()
    if -1 in targets:
        raise InputError("holds ranked lists that do not belong to the task", path=run.path / RANKED)
    return list(zip(targets, found["score"].to_pylist(), strict=True))


def _learned(path: Path) -> tuple[dict[str, tuple[str, ...]], list[dict[str, Any]]]:
    """The properties that name entities, and what was learned about pairs of properties."""
    content = read_description(path)
    try:
        # The file has the properties as one text; no IRI contains a comma and a space.
        names = {side: str(content.get("names", {}).get(side, "")) for side in ("source", "target")}
        pairs = [
            {
                **{key: str(item[key]) for key in ("source", "target")},
                **{key: float(item[key]) for key in ("agreement", "presence")},
            }
            for item in content.get("attributes", [])
        ]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError("is not what a run learned about features", path=path) from error
    known = GIVEN_NAME, *NAME_PREDICATES
    return {side: tuple(dict.fromkeys((*known, *text.split(", ")))) for side, text in names.items()}, pairs


def _threshold(path: Path) -> float:
    """The confidence below which pairs are left out of the mappings; infinite if all of them are."""
    content = read_description(path)
    found = content.get("threshold", False) if isinstance(content, dict) else False
    if found is not None and (isinstance(found, bool) or not isinstance(found, int | float)):
        raise InputError("is not the calibration of a run", path=path)
    return float("inf") if found is None else float(found)


def _candidates(kept: _Kept, source: int, ranked: list[tuple[int, float]]) -> list[Candidate]:
    """The first targets of a ranked list, and what they are matched with."""
    task, evidence = kept.run.task, kept.evidence
    shown = [(target, score) for target, score in ranked[: MOST_RUNNERS_UP + 1] if score >= LEAST_SCORE]
    names = kept.names("target", [target for target, _ in shown])
    found = []
    for rank, ((target, score), name) in enumerate(zip(shown, names, strict=True), start=1):
        owners = [
            *task.seeds.source[task.seeds.target == target].tolist(),
            *evidence.source[np.flatnonzero(evidence.target == target)].tolist(),
        ]
        other = [owner for owner in owners if owner != source]
        owner = kept.names("source", other[:1])[0] if other else None
        found.append(Candidate(_label(task.target, target), name, rank, float(score), owner))
    return found


def _contributions(evidence: Evidence, row: int | None) -> tuple[Contribution, ...]:
    """What each kind of evidence adds to the log odds, the largest first, after what all pairs have."""
    regression = evidence.regression
    if regression is None or row is None:
        return ()
    sums = _grouped(regression, evidence.values_of(row))
    ordered = sorted(sums.items(), key=lambda item: -abs(item[1]))
    steps = [("average evidence", regression.intercept), *ordered]
    totals = np.cumsum([log_odds for _, log_odds in steps])
    return tuple(
        Contribution(name, float(log_odds), float(expit(total)))
        for (name, log_odds), total in zip(steps, totals, strict=True)
    )


def _grouped(regression: Regression, values: np.ndarray) -> dict[str, float]:
    sums: dict[str, float] = {}
    for name, term in zip(regression.columns, regression.terms(values).tolist(), strict=True):
        group = _GROUPS.get(name, name)
        sums[group] = sums.get(group, 0.0) + term
    return sums


def _neighbours(kept: _Kept, source: int, target: int) -> tuple[Neighbours, ...]:
    if target < 0:
        return ()
    task = kept.run.task
    found = matching_neighbours(task, kept.evidence, source, target)
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


def _verdict(
    kept: _Kept,
    source: int,
    target: int,
    matched: int,
    is_seed: bool,
    ranked: list[tuple[int, float]],
) -> str:
    """What happened to a pair, in a sentence."""
    run = kept.run
    if is_seed:
        return (
            "the pair is a seed"
            if target == matched
            else "the source is matched with another target by a seed"
        )
    if target < 0:
        return "the source has no candidates: its subtask could not be solved, or has no targets"
    place = next((rank for rank, (one, _) in enumerate(ranked, start=1) if one == target), None)
    if target == matched:
        confidence = match_of(run.task, kept.evidence, source)[1]
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
    if matched < 0:
        return f"not matched: the target {rank}, and the source has no match at all"
    return f"not matched: the target {rank}, and the source was matched with another target"
