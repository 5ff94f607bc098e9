"""Confidence without seeds: learned from pairs that one kind of evidence is sure of, and from decoys.

There are two kinds of evidence that do not depend on each other: features such as names, and structure that
started from other pairs. A pair that either of them is sure of is taken as correct. Its decoy is the pair
that its source entity would have got if its counterpart did not exist: the best one among the targets that
are left over. Decoys are wrong, and look as wrong pairs do. A logistic regression tells the two apart, and
the share of correct pairs among all assigned ones is found by expectation maximisation (Saerens et al.,
2002).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.special import expit, logit

from divea.division.selection import tie_breakers
from divea.features.judges import Structure
from divea.features.neighbours import matches_and_seeds, neighbour_support
from divea.features.start import sure_pairs
from divea.graphs import AlignmentTask
from divea.graphs.features import Features, PairScores, all_ids, scores_at, total_scores
from divea.loop.assignment import Assignment
from divea.loop.confidence import FEWEST_PAIRS, Calibration, Judged, calibrate
from divea.matching.sinkhorn import TEMPERATURE

COLUMNS = ("features", "features up to 10", "structure", "matching neighbours", "share of neighbours")
"""What confidence is learned from, one column each."""

MOST_SURE = 5_000
"""The most sure pairs that are learned from; more would add little."""

LEAST_AGREEMENT = 0.7
"""The share of sure pairs (by features) that structure must prefer to their decoys; .5 is chance."""

MOST_COMPARED = 10
"""The most targets of a source that are compared by structure to find its decoy."""

_ROUNDS = 100
_SALT = 0xDEC0

Numbers = npt.NDArray[np.float64]
Pairs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


@dataclass(frozen=True)
class _Evidence:
    """The evidence that any pair of entities can be judged by."""

    task: AlignmentTask
    listed: csr_array
    """The weighted sum of all features."""
    structure: Structure
    matched: csr_array
    """The assigned pairs and the seeds."""

    def columns(self, pairs: Pairs) -> Numbers:
        """What confidence is learned from, for each pair; see `COLUMNS`."""
        listed = scores_at(self.listed, *pairs) / TEMPERATURE
        structure = self.structure.similarity(*pairs) / TEMPERATURE
        support, possible = neighbour_support(pairs, self.matched, self.task)
        return np.stack(
            [
                listed,
                np.minimum(listed, 10),
                structure,
                np.log1p(support),
                support / np.maximum(possible, 1),
            ],
            axis=1,
        )


def calibrate_without_seeds(
    assignment: Assignment,
    task: AlignmentTask,
    features: Features,
    structure: Structure,
    random_seed: int = 0,
) -> tuple[Calibration | None, Numbers]:
    """A calibration, and the columns of each assigned pair that it applies to.

    The calibration is None if too few pairs are sure, or if structure does not confirm them.

    Parameters
    ----------
    features
        The features of the last iteration.
    structure
        Similarity by structure, of pairs that it did not start from.
    """
    listed = total_scores(features)
    if listed is None:
        listed = csr_array((task.source.num_entities, task.target.num_entities), dtype=np.float32)
    ends = assignment.source.astype(np.int64), assignment.target.astype(np.int64)
    evidence = _Evidence(task, listed, structure, matches_and_seeds(ends, task))
    columns = evidence.columns(ends)
    sure, is_sure_by_features = _sure(ends, listed, structure, task, random_seed)
    decoys, decoy_of = _decoys(sure, evidence)
    examples = np.concatenate([evidence.columns(sure), evidence.columns(decoys)])
    if not _agree(examples[:, 2], len(sure[0]), decoy_of, is_sure_by_features):
        return None, columns
    is_correct = np.repeat([1.0, 0.0], [len(sure[0]), len(decoys[0])])
    balanced = Judged(examples, is_correct, _counts(is_correct, 0.5), np.concatenate([sure[0], decoys[0]]))
    first = calibrate(balanced)
    if first is None:
        return None, columns
    share = _share_of_correct(first(columns))
    return calibrate(replace(balanced, counts=_counts(is_correct, share))), columns


def _sure(
    assigned: Pairs, listed: csr_array, structure: Structure, task: AlignmentTask, random_seed: int
) -> tuple[Pairs, npt.NDArray[np.bool_]]:
    """A sample of the assigned pairs that features or structure alone are sure of, and whether features are
    sure of each.
    """
    named = sure_pairs((PairScores("all", *all_ids(task), listed),))
    width = listed.shape[1]
    by_features, by_structure = (
        np.isin(assigned[0] * width + assigned[1], links.source.astype(np.int64) * width + links.target)
        for links in (named, structure.sure)
    )
    chosen = np.flatnonzero(by_features | by_structure)
    chosen = np.sort(np.random.default_rng([random_seed, _SALT]).permutation(chosen)[:MOST_SURE])
    return (assigned[0][chosen], assigned[1][chosen]), by_features[chosen]


def _agree(
    structure: Numbers,
    count: int,
    decoy_of: npt.NDArray[np.int64],
    is_sure_by_features: npt.NDArray[np.bool_],
) -> bool:
    """Whether structure prefers the pairs that features are sure of to their decoys.

    If it does not, the features may be wrong, and nothing can be learned from their sure pairs.

    Parameters
    ----------
    structure
        The similarity by structure of the sure pairs, then of the decoys.
    count
        The number of sure pairs.
    """
    judged = is_sure_by_features[decoy_of]
    if judged.sum() < FEWEST_PAIRS:
        return False
    pair, decoy = structure[:count][decoy_of][judged], structure[count:][judged]
    return bool((pair > decoy).mean() + (pair == decoy).mean() / 2 >= LEAST_AGREEMENT)


def _decoys(sure: Pairs, evidence: _Evidence) -> tuple[Pairs, npt.NDArray[np.int64]]:
    """The decoys: the source of each sure pair with the best target that is left over; and the position of
    the sure pair.
    """
    listed = evidence.listed[sure[0]]
    row = np.repeat(np.arange(len(sure[0])), np.diff(listed.indptr))
    source, target = sure[0][row], listed.indices.astype(np.int64)
    near_row, near_target = evidence.structure.nearest(sure[0])
    source, target = np.concatenate([source, sure[0][near_row]]), np.concatenate([target, near_target])
    row = np.concatenate([row, near_row])
    other = target != sure[1][row]
    row, source, target = row[other], source[other], target[other]
    if not len(row):
        return (source, target), row
    # Targets of seeds and of sure pairs are taken; all others are left over. If all targets of a source are
    # taken, its decoy is one of them, which is harder to tell from a match.
    is_taken = np.zeros(evidence.task.target.num_entities, dtype=bool)
    is_taken[sure[1]] = True
    is_taken[evidence.task.seeds.target] = True
    score = scores_at(evidence.listed, source, target)
    ties = tie_breakers(evidence.task.target.num_entities, evidence.structure.random_seed, "target")
    order = np.lexsort((ties[target], -score, is_taken[target], row))
    # Only the most promising targets are compared by structure, because that is slow.
    kept = order[_rank(row[order]) < MOST_COMPARED]
    row, source, target = row[kept], source[kept], target[kept]
    score = score[kept] + evidence.structure.similarity(source, target)
    order = np.lexsort((ties[target], -score, is_taken[target], row))
    best = order[_rank(row[order]) == 0]
    return (source[best], target[best]), row[best]


def _rank(groups: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The position of each entry within its group; entries of a group are consecutive."""
    is_first = np.diff(groups, prepend=-1) != 0
    starts = np.flatnonzero(is_first)
    return np.arange(len(groups)) - starts[np.cumsum(is_first) - 1]


def _counts(is_correct: Numbers, share: float) -> Numbers:
    """The weight of each example, such that correct ones have this share of the total."""
    correct = is_correct.mean()
    return np.where(is_correct > 0, share / max(correct, 1e-9), (1 - share) / max(1 - correct, 1e-9))


def _share_of_correct(probability: Numbers) -> float:
    """The share of correct pairs, given their probability if half of all pairs were correct."""
    odds = logit(np.clip(probability, 1e-9, 1 - 1e-9))
    share = 0.5
    for _ in range(_ROUNDS):
        share = float(np.clip(expit(odds + logit(share)).mean(), 1e-3, 1 - 1e-3))
    return share
