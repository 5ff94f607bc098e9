"""From embeddings to matches: `match`, and the methods it knows by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from divea.errors import InputError
from divea.graphs.labels import Ids
from divea.matching.embeddings import Embeddings
from divea.matching.matches import Matches
from divea.matching.similarity import MEMORY_BUDGET, cosine_blocks, csls_blocks, rows_per_block
from divea.matching.sinkhorn import NEAREST, dense_sinkhorn, nearest_targets, sparse_sinkhorn
from divea.matching.top_k import largest_first, top_k

Blocks = Iterator[tuple[int, Tensor]]

_SOURCE_SALT, _TARGET_SALT = 0x5EED_50, 0x5EED_7A


def match(
    embeddings: Embeddings,
    sources: npt.ArrayLike,
    candidates: npt.ArrayLike,
    *,
    method: str = "csls",
    top: int = 10,
    seed: int = 0,
    memory: int = MEMORY_BUDGET,
) -> Matches:
    """The best `top` candidates of every source, by a method of `METHODS`.

    `sources` and `candidates` are ids, the rows of the two embeddings to match; the work is done
    on the device that holds the embeddings and keeps within `memory` bytes beside them. Equal
    scores are ordered by a draw per entity that `seed` decides, never by id.

    >>> same = torch.eye(3)
    >>> match(Embeddings(same, same[[2, 0, 1]]), [0, 1, 2], [0, 1, 2], method="cosine", top=1).best.tolist()
    [1, 2, 0]
    """
    rows, columns = shuffled(sources, seed, _SOURCE_SALT), shuffled(candidates, seed, _TARGET_SALT)
    blocks = score_blocks(embeddings, rows, columns, method=method, memory=memory)
    device, top = embeddings.source.device, min(top, len(columns))
    # Results stay on the device until the end: fetching them block by block would stall a GPU.
    values = [torch.zeros(0, top, device=device)]
    places = [torch.zeros(0, top, dtype=torch.long, device=device)]
    best_of_column = torch.full((len(columns),), -torch.inf, device=device)
    for _, block in blocks:
        if len(block):
            best, where = top_k(block, top)
            values.append(best)
            places.append(where)
            torch.maximum(best_of_column, block.amax(dim=0), out=best_of_column)
    # Back from the order of the draw to the order in which the sources were asked for. Before
    # anything below waits for a GPU, so that both work at once.
    asked = np.asarray(sources, dtype=np.int64)
    place_of = np.zeros(int(rows.max(initial=-1)) + 1, dtype=np.int64)
    place_of[rows] = np.arange(len(rows))
    order = place_of[asked]
    score, place = largest_first(torch.cat(values), torch.cat(places))
    mutual = _mutual(score, place, best_of_column)
    target = torch.from_numpy(columns).to(device)[place].masked_fill_(~score.isfinite(), -1)
    back = torch.from_numpy(order).to(device)
    found = (column[back].cpu().numpy() for column in (target, score, mutual))
    return Matches(asked.astype(np.int32), *found)


def score_blocks(
    embeddings: Embeddings, rows: Ids, columns: Ids, *, method: str, memory: int = MEMORY_BUDGET
) -> Blocks:
    """Blocks of scores, each with the row it starts at and complete over all `columns`.

    Use a block before asking for the next, which may be written over it.
    """
    if method not in METHODS:
        raise InputError(f"unknown matching method {method!r}; choose from {', '.join(METHODS)}")
    return METHODS[method](
        _unit_rows(embeddings.source, rows), _unit_rows(embeddings.target, columns), memory
    )


def shuffled(ids: npt.ArrayLike, seed: int, salt: int = _TARGET_SALT) -> Ids:
    """Ids in the order of a random draw, whatever order they come in: earlier wins a tie."""
    ordered = np.sort(np.asarray(ids, dtype=np.int32))
    return np.random.default_rng([seed, salt]).permutation(ordered)


def _sinkhorn_blocks(source: Tensor, target: Tensor, memory: int) -> Blocks:
    """Dense where the kernel and one temporary fit the budget, else over the nearest targets."""
    if 2 * 4 * len(source) * len(target) <= memory:
        yield 0, dense_sinkhorn((source @ target.T).float())
        return
    # A listed pair takes about 40 bytes: its score, its column, its place among its column's pairs.
    nearest = int(np.clip(memory // (40 * len(source)), 10, NEAREST))
    weights = sparse_sinkhorn(nearest_targets(source, target, memory, nearest), len(target))
    step = rows_per_block(len(target), memory)
    buffer = source.new_empty(min(step, len(source)), len(target))
    for start in range(0, len(source), step):
        values, places = weights.values[start : start + step], weights.columns[start : start + step]
        yield start, buffer[: len(values)].fill_(-torch.inf).scatter_(1, places, values)


METHODS: dict[str, Callable[[Tensor, Tensor, int], Blocks]] = {
    "cosine": cosine_blocks,
    "csls": csls_blocks,
    "sinkhorn": _sinkhorn_blocks,
}
"""Name -> how to score: feeds `match`, the command line's `--matching` and the docs."""


def _unit_rows(embeddings: Tensor, ids: Ids) -> Tensor:
    chosen = embeddings[torch.from_numpy(ids.astype(np.int64)).to(embeddings.device)]
    return torch.nn.functional.normalize(chosen, dim=1)


def _mutual(score: Tensor, place: Tensor, best_of_column: Tensor) -> Tensor:
    """Rows whose first choice chooses them back; of rows that tie for a target, the first drawn."""
    if not place.shape[1]:
        return torch.zeros(len(place), dtype=torch.bool, device=place.device)
    first, row = place[:, 0], torch.arange(len(place), device=place.device)
    chosen = score[:, 0].isfinite() & (score[:, 0] >= best_of_column[first])
    nobody = len(place)
    winner = torch.full_like(best_of_column, nobody, dtype=torch.long)
    winner.scatter_reduce_(0, first, row.where(chosen, nobody), "amin")
    return winner[first] == row
