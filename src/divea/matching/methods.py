"""`match`: ranked targets from embeddings, by one of the methods of `METHODS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from divea.errors import InputError
from divea.graphs import Links
from divea.graphs.features import EntityVectors, Features, PairScores
from divea.matching.similarity import (
    AddedScores,
    ExcludedPairs,
    UnitRows,
    Vectors,
    cosine_blocks,
    csls_blocks,
    largest_first,
    rows_per_block,
    top_k,
)
from divea.matching.sinkhorn import NEAREST, dense_sinkhorn, nearest_targets, sparse_sinkhorn
from divea.resources.budget import MATCHING_MEMORY
from divea.types import Embeddings, Ids, Matches

Blocks = Iterator[tuple[int, Tensor]]
"""Blocks of score rows, each with the number of its first row."""

_SOURCE_SALT, _TARGET_SALT = 0x5EED_50, 0x5EED_7A


def match(
    embeddings: Embeddings,
    sources: npt.ArrayLike,
    candidates: npt.ArrayLike,
    features: Features = (),
    rejected: Links | None = None,
    *,
    method: str = "csls",
    top: int = 10,
    random_seed: int = 0,
    memory: int = MATCHING_MEMORY,
) -> Matches:
    """The best `top` candidates of every source, on the device that holds the embeddings.

    Ties are broken by a seeded draw per entity, never by id.

    Parameters
    ----------
    sources, candidates
        Ids of the entities to match: rows of the two embeddings.
    features
        Features that are added to the cosine similarity of the embeddings, each times its weight. Their rows
        are those of the embeddings.
    rejected
        Pairs of ids that must not be matched. With Sinkhorn, other pairs get their share.
    method
        A name in `METHODS`: cosine, csls or sinkhorn.
    random_seed
        Decides the order of equal scores.
    memory
        Bytes that matching may use beside the embeddings.

    Examples
    --------
    >>> same = torch.eye(3)
    >>> match(Embeddings(same, same[[2, 0, 1]]), [0, 1, 2], [0, 1, 2], method="cosine", top=1).best.tolist()
    [1, 2, 0]
    """
    requested = np.asarray(sources, dtype=np.int64)
    rows, columns = np.sort(requested.astype(np.int32)), shuffled(candidates, random_seed)
    blocks = score_blocks(embeddings, rows, columns, features, rejected, method=method, memory=memory)
    device = embeddings.source.device
    # A copy from or to a GPU waits for all work that was launched before. Results therefore stay there
    # until the end, and the host computes its own part while the GPU is busy.
    target_of_column = torch.from_numpy(columns).to(device)
    score, column, best_of_column = _best_columns(blocks, len(columns), top, device)
    target = target_of_column[column].masked_fill_(~score.isfinite(), -1)
    tie_rank = _permutation(len(rows), random_seed, _SOURCE_SALT).argsort()
    row_of_request = np.searchsorted(rows, requested)
    mutual = _mutual(score, column, best_of_column, torch.from_numpy(tie_rank).to(device))
    as_requested = torch.from_numpy(row_of_request).to(device)
    on_host = [_copy_to_host(result[as_requested]) for result in (target, score, mutual)]
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    # Copies, so that the pinned memory is free for the next results: lists may be kept for a long time.
    return Matches(requested.astype(np.int32), *(result.numpy().copy() for result in on_host))


def score_blocks(
    embeddings: Embeddings,
    rows: Ids,
    columns: Ids,
    features: Features = (),
    rejected: Links | None = None,
    *,
    method: str,
    memory: int = MATCHING_MEMORY,
) -> Blocks:
    """Blocks of scores, complete over all columns, each with the number of its first row.

    A block may be overwritten by the next one, so use it before requesting the next.

    Parameters
    ----------
    rows, columns
        Ids of source and target entities.
    """
    if method not in METHODS:
        raise InputError(f"unknown matching method {method!r}; choose from {', '.join(METHODS)}")
    vectors = [feature for feature in features if isinstance(feature, EntityVectors)]
    source = UnitRows(embeddings.source, rows, [(item.source, item.weight) for item in vectors])
    target = UnitRows(embeddings.target, columns, [(item.target, item.weight) for item in vectors])
    pairs = [feature for feature in features if isinstance(feature, PairScores)]
    added = AddedScores.of(pairs, rows, columns, embeddings.source.device) if pairs else None
    excluded = None
    if rejected is not None and len(rejected):
        excluded = ExcludedPairs.of(rejected, rows, columns, embeddings.source.device)
    return METHODS[method](source, target, memory, added, excluded)


def shuffled(ids: npt.ArrayLike, random_seed: int) -> Ids:
    """The ids in random order, whatever order they are given in: of equal scores, the earlier id wins.

    >>> shuffled([4, 7, 9], random_seed=1).tolist() == shuffled([9, 4, 7], random_seed=1).tolist()
    True
    """
    ordered = np.sort(np.asarray(ids, dtype=np.int32))
    return ordered[_permutation(len(ordered), random_seed, _TARGET_SALT)]


def _permutation(count: int, random_seed: int, salt: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng([random_seed, salt]).permutation(count)


def _best_columns(
    blocks: Blocks, columns: int, top: int, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """The scores and the numbers of each row's best columns, best first, and each column's best score."""
    top = min(top, columns)
    best_of_column = torch.full((columns,), -torch.inf, device=device)
    scores = [torch.zeros(0, top, device=device)]
    numbers = [torch.zeros(0, top, dtype=torch.long, device=device)]
    for _, block in blocks:
        if len(block):
            best_scores, best_numbers = top_k(block, top)
            scores.append(best_scores)
            numbers.append(best_numbers)
            torch.maximum(best_of_column, block.amax(dim=0), out=best_of_column)
    return *largest_first(torch.cat(scores), torch.cat(numbers)), best_of_column


def _mutual(score: Tensor, column: Tensor, best_of_column: Tensor, tie_rank: Tensor) -> Tensor:
    """Whether each row is the best row of its first column; of rows that tie, the lowest `tie_rank` is."""
    if not column.shape[1]:
        return torch.zeros(len(column), dtype=torch.bool, device=column.device)
    first, no_row = column[:, 0], len(column)
    is_best = score[:, 0].isfinite() & (score[:, 0] >= best_of_column[first])
    winner = torch.full_like(best_of_column, no_row, dtype=torch.long)
    winner.scatter_reduce_(0, first, tie_rank.where(is_best, no_row), "amin")
    return winner[first] == tie_rank


def _copy_to_host(result: Tensor) -> Tensor:
    """Start a copy to the host; it is complete after a synchronisation.

    Copies from a GPU go into pinned memory, which is several times faster.
    """
    host = torch.empty(result.shape, dtype=result.dtype, pin_memory=result.is_cuda)
    return host.copy_(result, non_blocking=True)


def _sinkhorn_blocks(
    source: Vectors,
    target: Vectors,
    memory: int,
    added: AddedScores | None = None,
    excluded: ExcludedPairs | None = None,
) -> Blocks:
    """Dense Sinkhorn if the kernel and one temporary fit the budget, otherwise over the nearest targets."""
    if 2 * 4 * len(source) * len(target) <= memory:
        similarity = (source[:] @ target[:].T).float()
        if added is not None:
            added.add_to(similarity, 0)
        if excluded is None:
            yield 0, dense_sinkhorn(similarity)
        else:
            yield 0, excluded.remove_from(dense_sinkhorn(excluded.remove_from(similarity, 0)), 0)
        return
    # A listed pair needs about 40 bytes: its score, its column, its position among its column's pairs.
    nearest = int(np.clip(memory // (40 * len(source)), 10, NEAREST))
    weights = sparse_sinkhorn(nearest_targets(source, target, memory, nearest, added, excluded), len(target))
    step = rows_per_block(len(target), memory)
    buffer = weights.values.new_empty(min(step, len(source)), len(target))
    for first in range(0, len(source), step):
        values, columns = weights.values[first : first + step], weights.columns[first : first + step]
        block = buffer[: len(values)].fill_(-torch.inf).scatter_(1, columns, values)
        # An excluded pair has a weight of 0, and must not be listed with it.
        yield first, block if excluded is None else excluded.remove_from(block, first)


METHODS: dict[str, Callable[[Vectors, Vectors, int, AddedScores | None, ExcludedPairs | None], Blocks]] = {
    "cosine": cosine_blocks,
    "csls": csls_blocks,
    "sinkhorn": _sinkhorn_blocks,
}
"""Name -> the function that yields blocks of scores."""
