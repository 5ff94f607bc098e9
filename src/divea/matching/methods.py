"""From embeddings to matches: `match`, and the methods it knows by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from divea.errors import InputError
from divea.matching.similarity import (
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

_SOURCE_SALT, _TARGET_SALT = 0x5EED_50, 0x5EED_7A


def match(
    embeddings: Embeddings,
    sources: npt.ArrayLike,
    candidates: npt.ArrayLike,
    *,
    method: str = "csls",
    top: int = 10,
    random_seed: int = 0,
    memory: int = MATCHING_MEMORY,
) -> Matches:
    """The best `top` candidates of every source, by a method of `METHODS`.

    `sources` and `candidates` are ids, the rows of the two embeddings to match; the work is done
    on the device that holds the embeddings and keeps within `memory` bytes beside them. Equal
    scores are ordered by a draw per entity that `random_seed` decides, never by id.

    >>> same = torch.eye(3)
    >>> match(Embeddings(same, same[[2, 0, 1]]), [0, 1, 2], [0, 1, 2], method="cosine", top=1).best.tolist()
    [1, 2, 0]
    """
    asked = np.asarray(sources, dtype=np.int64)
    rows, columns = np.sort(asked.astype(np.int32)), shuffled(candidates, random_seed)
    blocks = score_blocks(embeddings, rows, columns, method=method, memory=memory)
    device, top = embeddings.source.device, min(top, len(columns))
    # A copy from or to a GPU waits for all the work that was asked for before it. So results stay
    # there until the end, and what the host has to find out it finds out while a GPU is busy.
    target_of_column = torch.from_numpy(columns).to(device)
    best_of_column = torch.full((len(columns),), -torch.inf, device=device)
    values = [torch.zeros(0, top, device=device)]
    places = [torch.zeros(0, top, dtype=torch.long, device=device)]
    for _, block in blocks:
        if len(block):
            best, where = top_k(block, top)
            values.append(best)
            places.append(where)
            torch.maximum(best_of_column, block.amax(dim=0), out=best_of_column)
    score, place = largest_first(torch.cat(values), torch.cat(places))
    target = target_of_column[place].masked_fill_(~score.isfinite(), -1)
    turn = _draw(len(rows), random_seed, _SOURCE_SALT).argsort()
    order = np.searchsorted(rows, asked)
    mutual = _mutual(score, place, best_of_column, torch.from_numpy(turn).to(device))
    in_order = torch.from_numpy(order).to(device)
    found = [_fetch(column[in_order]) for column in (target, score, mutual)]
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return Matches(asked.astype(np.int32), *(column.numpy() for column in found))


def _fetch(column: Tensor) -> Tensor:
    """A column on the host, from a GPU into pinned memory: several times faster, and done after a wait."""
    host = torch.empty(column.shape, dtype=column.dtype, pin_memory=column.is_cuda)
    return host.copy_(column, non_blocking=True)


def score_blocks(
    embeddings: Embeddings, rows: Ids, columns: Ids, *, method: str, memory: int = MATCHING_MEMORY
) -> Blocks:
    """Blocks of scores, each with the row it starts at and complete over all `columns`.

    Use a block before asking for the next, which may be written over it.
    """
    if method not in METHODS:
        raise InputError(f"unknown matching method {method!r}; choose from {', '.join(METHODS)}")
    return METHODS[method](UnitRows(embeddings.source, rows), UnitRows(embeddings.target, columns), memory)


def shuffled(ids: npt.ArrayLike, random_seed: int) -> Ids:
    """Ids in the order of a random draw, whatever order they come in: earlier wins a tie."""
    ordered = np.sort(np.asarray(ids, dtype=np.int32))
    return ordered[_draw(len(ordered), random_seed, _TARGET_SALT)]


def _draw(count: int, random_seed: int, salt: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng([random_seed, salt]).permutation(count)


def _sinkhorn_blocks(source: Vectors, target: Vectors, memory: int) -> Blocks:
    """Dense where the kernel and one temporary fit the budget, else over the nearest targets."""
    if 2 * 4 * len(source) * len(target) <= memory:
        yield 0, dense_sinkhorn((source[:] @ target[:].T).float())
        return
    # A listed pair takes about 40 bytes: its score, its column, its place among its column's pairs.
    nearest = int(np.clip(memory // (40 * len(source)), 10, NEAREST))
    weights = sparse_sinkhorn(nearest_targets(source, target, memory, nearest), len(target))
    step = rows_per_block(len(target), memory)
    buffer = weights.values.new_empty(min(step, len(source)), len(target))
    for start in range(0, len(source), step):
        values, places = weights.values[start : start + step], weights.columns[start : start + step]
        yield start, buffer[: len(values)].fill_(-torch.inf).scatter_(1, places, values)


METHODS: dict[str, Callable[[Vectors, Vectors, int], Blocks]] = {
    "cosine": cosine_blocks,
    "csls": csls_blocks,
    "sinkhorn": _sinkhorn_blocks,
}
"""Name -> how to score: feeds `match`, the command line's `--matching` and the docs."""


def _mutual(score: Tensor, place: Tensor, best_of_column: Tensor, turn: Tensor) -> Tensor:
    """Rows whose first choice chooses them back; of rows that tie for a target, the first by `turn`."""
    if not place.shape[1]:
        return torch.zeros(len(place), dtype=torch.bool, device=place.device)
    first, nobody = place[:, 0], len(place)
    chosen = score[:, 0].isfinite() & (score[:, 0] >= best_of_column[first])
    winner = torch.full_like(best_of_column, nobody, dtype=torch.long)
    winner.scatter_reduce_(0, first, turn.where(chosen, nobody), "amin")
    return winner[first] == turn
