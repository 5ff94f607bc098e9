"""Where the true target stands in each source's ranking, under the open or the closed protocol."""

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
"""1 for the best; 0 where the true target was not there to be ranked, which is a miss."""

Protocol = Literal["open", "closed"]
"""open: every source without a seed is matched with every target without a seed.
closed: sources and targets of the test links only. Easier, and unknown to any user."""


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
    """The rank of each gold link's target among all candidates; ties as `divea.matching` breaks them.

    Methods in which sources compete (CSLS, Sinkhorn) see all sources of the protocol, not only
    those of the links.
    """
    import torch

    from divea.matching.methods import score_blocks, shuffled

    if protocol == "open":
        sources, candidates = task.unmatched_source, task.unmatched_target
    else:
        sources, candidates = np.unique(gold.source), np.unique(gold.target)
    columns = shuffled(candidates, random_seed)
    column_of = np.full(task.target.num_entities, -1)
    column_of[columns] = np.arange(len(columns))
    ranks = np.zeros(len(gold), dtype=np.int64)
    row = np.searchsorted(sources, gold.source)
    covered = (column_of[gold.target] >= 0) & (row < len(sources))
    covered[covered] = sources[row[covered]] == gold.source[covered]
    for start, block in score_blocks(embeddings, sources, columns, method=method, memory=memory):
        here = np.flatnonzero(covered & (row >= start) & (row < start + len(block)))
        rows = torch.from_numpy(row[here] - start).to(block.device)
        places = torch.from_numpy(column_of[gold.target[here]]).to(block.device)
        ranks[here] = _ranks_in_block(block, rows, places).cpu().numpy()
    return ranks


def listed_ranks(matches: Matches, gold: Links, among: Ids | None = None) -> Ranks:
    """The rank of each gold link's target in a table of matches, 0 where it is not listed.

    With `among`, sorted ids, only those targets are counted.
    """
    order = np.argsort(matches.source)
    at = np.searchsorted(matches.source[order], gold.source)
    known = at < len(order)
    known[known] = matches.source[order[at[known]]] == gold.source[known]
    ranks = np.zeros(len(gold), dtype=np.int64)
    listed = matches.target[order[at[known]]]
    counted = listed >= 0 if among is None else np.isin(listed, among)
    hit = (listed == gold.target[known][:, None]) & counted
    ranks[known] = np.where(hit, np.cumsum(counted, axis=1), 0).max(axis=1, initial=0)
    return ranks


def _ranks_in_block(block: torch.Tensor, rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """One more than the number of columns that score higher, or as high and were drawn earlier."""
    import torch

    columns = torch.arange(block.shape[1], device=block.device)
    ranks = []
    # In slices, because a comparison of all rows at once is several times the block.
    for part, place in zip(torch.split(rows, 256), torch.split(places, 256), strict=True):
        scores, own = block[part], block[part, place][:, None]
        ahead = (scores > own) | ((scores == own) & (columns < place[:, None]))
        ranks.append(ahead.sum(dim=1) + 1)
    return torch.cat(ranks) if ranks else rows
