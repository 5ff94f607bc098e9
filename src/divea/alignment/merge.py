"""Merges the matches of all subtasks: one ranked list per source, and one target each at most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divea.graphs.labels import Ids
from divea.matching import Matches, one_to_one


def merge(found: Sequence[Matches]) -> tuple[Matches, Ids]:
    """All subtasks' matches as one, by source id, and the subtask that each row comes from.

    A source is unmatched in one subtask only, so lists do not mix; they may differ in length.
    """
    width = max((matches.target.shape[1] for matches in found), default=0)
    source = np.concatenate([matches.source for matches in found]) if found else np.zeros(0, np.int32)
    target = np.full((len(source), width), -1, dtype=np.int32)
    score = np.full((len(source), width), -np.inf, dtype=np.float32)
    mutual = np.zeros(len(source), dtype=bool)
    at = 0
    for matches in found:
        rows, columns = slice(at, at + len(matches)), slice(matches.target.shape[1])
        target[rows, columns], score[rows, columns] = matches.target, matches.score
        mutual[rows] = matches.mutual
        at += len(matches)
    subtask = np.repeat(np.arange(len(found), dtype=np.int32), [len(matches) for matches in found])
    order = np.argsort(source)
    return Matches(source[order], target[order], score[order], mutual[order]), subtask[order]


def assign(matches: Matches, *, globally: bool, seed: int = 0) -> Ids:
    """The target of each source, -1 for none: the best of its list, or the best that is left to it.

    `globally` takes the surest pair of all subtasks first, so that no target is given twice.
    """
    return one_to_one(matches, seed=seed) if globally else matches.best
