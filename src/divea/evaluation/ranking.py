"""The rank of the true target among the targets of each source, by the open or the closed protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from divea.graphs import AlignmentTask, Links
from divea.types import Ids

if TYPE_CHECKING:
    import torch

    from divea.types import Embeddings, Matches

Ranks = npt.NDArray[np.int64]
"""1 for the best rank; 0 if the true target was not ranked, which is a miss."""

Protocol = Literal["open", "closed"]
"""open: every source without a seed is matched with every target without a seed.
closed: only sources and targets of the test links are matched. This is easier, and impossible in real use."""

_LINKS_AT_A_TIME = 256
"""Links that are compared with a whole block at a time: all at once would need several times its memory."""


def gold_ranks(
    embeddings: Embeddings,
    task: AlignmentTask,
    gold: Links,
    *,
    method: str = "csls",
    protocol: Protocol = "open",
    random_seed: int = 0,
    memory: int = 1 << 30,
) -> Ranks:
    """The rank of each gold link's target among all candidates; ties are broken as in `divea.matching`.

    Methods in which sources compete (CSLS, Sinkhorn) use all sources of the protocol, not only those of the
    gold links.

    Parameters
    ----------
    method
        A matching method of `divea.matching.METHODS`.
    protocol
        Which sources and targets are matched; see `Protocol`.
    memory
        Bytes that matching may use beside the embeddings.

    Examples
    --------
    >>> import torch
    >>> from divea.graphs.planted import planted_pair
    >>> from divea.types import Embeddings
    >>> pair = planted_pair(entities=6, triples=20, seeds=4)
    >>> source, target = torch.zeros(6, 6), torch.zeros(6, 6)
    >>> source[pair.gold.source] = torch.eye(6)[:2]
    >>> target[pair.gold.target] = torch.eye(6)[:2]
    >>> gold_ranks(Embeddings(source, target), pair.task, pair.gold).tolist()
    [1, 1]
    """
    from divea.matching.methods import score_blocks, shuffled

    sources, candidates = _competitors(task, gold, protocol)
    columns = shuffled(candidates, random_seed)
    row, column = _rows_and_columns(gold, sources, columns, task.target.num_entities)
    ranks = np.zeros(len(gold), dtype=np.int64)
    for first, block in score_blocks(embeddings, sources, columns, method=method, memory=memory):
        here = np.flatnonzero((row >= first) & (row < first + len(block)))
        ranks[here] = _ranks_in_block(block, row[here] - first, column[here])
    return ranks


def _competitors(task: AlignmentTask, gold: Links, protocol: Protocol) -> tuple[Ids, Ids]:
    """The sources and the targets that are matched with each other."""
    if protocol == "open":
        return task.unmatched_source, task.unmatched_target
    return np.unique(gold.source), np.unique(gold.target)


def _rows_and_columns(
    gold: Links, sources: Ids, columns: Ids, num_targets: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The row and the column of each gold link in the score matrix; -1 for both if one does not exist."""
    column_of_target = np.full(num_targets, -1)
    column_of_target[columns] = np.arange(len(columns))
    row, column = np.searchsorted(sources, gold.source), column_of_target[gold.target]
    is_ranked = (column >= 0) & (row < len(sources))
    is_ranked[is_ranked] = sources[row[is_ranked]] == gold.source[is_ranked]
    return np.where(is_ranked, row, -1), np.where(is_ranked, column, -1)


def _ranks_in_block(block: torch.Tensor, rows: np.ndarray, columns: np.ndarray) -> Ranks:
    """The rank of each given entry in its row.

    It is one more than the number of columns with a higher score, or with the same score and a lower
    number, which is the order in which ties are broken.
    """
    import torch

    if not len(rows):
        return np.zeros(0, dtype=np.int64)
    numbers = torch.arange(block.shape[1], device=block.device)
    all_rows, all_columns = (torch.from_numpy(ids).to(block.device) for ids in (rows, columns))
    ranks = []
    for row, column in zip(
        torch.split(all_rows, _LINKS_AT_A_TIME), torch.split(all_columns, _LINKS_AT_A_TIME), strict=True
    ):
        scores, own_score = block[row], block[row, column][:, None]
        is_ahead = (scores > own_score) | ((scores == own_score) & (numbers < column[:, None]))
        ranks.append(is_ahead.sum(dim=1) + 1)
    return np.asarray(torch.cat(ranks).cpu().numpy())


def listed_ranks(matches: Matches, gold: Links, among: Ids | None = None) -> Ranks:
    """The rank of each gold link's target in the ranked lists, 0 if it is not listed.

    Parameters
    ----------
    among
        Count only these targets; None for all.

    Examples
    --------
    >>> from divea.types import Matches
    >>> matches = Matches(np.array([7]), np.array([[3, 5]]), np.float32([[.9, .4]]), np.array([True]))
    >>> gold = Links.from_pairs([(7, 5), (8, 3)])
    >>> listed_ranks(matches, gold).tolist(), listed_ranks(matches, gold, np.array([5])).tolist()
    ([2, 0], [1, 0])
    """
    order = np.argsort(matches.source)
    position = np.searchsorted(matches.source[order], gold.source)
    is_listed_source = position < len(order)
    is_listed_source[is_listed_source] = (
        matches.source[order[position[is_listed_source]]] == gold.source[is_listed_source]
    )
    ranks = np.zeros(len(gold), dtype=np.int64)
    listed = matches.target[order[position[is_listed_source]]]
    is_counted = listed >= 0 if among is None else np.isin(listed, among)
    is_hit = (listed == gold.target[is_listed_source][:, None]) & is_counted
    ranks[is_listed_source] = np.where(is_hit, np.cumsum(is_counted, axis=1), 0).max(axis=1, initial=0)
    return ranks
