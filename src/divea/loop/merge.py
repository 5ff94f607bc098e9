"""Merges the matches of all subtasks, and assigns at most one target to each source."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divea.matching.one_to_one import one_to_one as assign_one_to_one
from divea.types import Ids, Matches


def merge(found: Sequence[Matches]) -> tuple[Matches, Ids]:
    """The matches of all subtasks as one, by source id, and the subtask that each row comes from.

    A source is unmatched in one subtask only, so lists never mix; they may differ in length.
    """
    width = max((matches.target.shape[1] for matches in found), default=0)
    source = np.concatenate([matches.source for matches in found]) if found else np.zeros(0, np.int32)
    order = np.argsort(source)
    place = np.empty(len(source), dtype=np.int64)
    place[order] = np.arange(len(source))
    target = np.full((len(source), width), -1, dtype=np.int32)
    score = np.full((len(source), width), -np.inf, dtype=np.float32)
    mutual = np.zeros(len(source), dtype=bool)
    subtask = np.empty(len(source), dtype=np.int32)
    first = 0
    for number, matches in enumerate(found):
        rows, columns = place[first : first + len(matches)], slice(matches.target.shape[1])
        target[rows, columns], score[rows, columns] = matches.target, matches.score
        mutual[rows], subtask[rows] = matches.mutual, number
        first += len(matches)
    return Matches(source[order], target, score, mutual), subtask


def assign(matches: Matches, *, one_to_one: bool, random_seed: int = 0) -> Ids:
    """The target assigned to each source, -1 for none.

    With `one_to_one`, the best-scored pair of all subtasks is taken first and no target is assigned twice;
    otherwise every source gets the first of its list.
    """
    return assign_one_to_one(matches, random_seed=random_seed) if one_to_one else matches.best
