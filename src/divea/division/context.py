"""Context graphs: the entities around a part that carry most of the evidence to it (Eq. 10).

Three ways to choose them: `first_order` ranks by the estimated drop cost, `exact` by the paper's,
and `rounds` removes the least useful entities a few at a time and estimates anew in between, so
that of two entities which stand in for each other one is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse import csr_array

from divea.division.columns import NEVER, best, positions
from divea.division.drop_costs import DropCosts
from divea.division.evidence import EvidenceSettings
from divea.division.rounds import Elimination, best_few_anchors, marked
from divea.division.threads import side_by_side
from divea.graphs.labels import Ids

POOL = 4
"""`rounds` start from this many times the entities that are to be chosen."""


def pick_contexts(
    adjacency: csr_array,
    wanted: Sequence[Ids],
    anchors: Sequence[Ids],
    counts: Sequence[int],
    draw: np.ndarray,
    settings: EvidenceSettings,
    *,
    barred: Ids | None = None,
    anchor_limits: Sequence[int] | None = None,
) -> Iterator[Ids]:
    """For every part, at most `counts[part]` entities that carry evidence to `wanted[part]`, best first.

    `anchors` is one array for each part, or a single one that all parts share (the source side).
    Nothing in `wanted[part]` or `barred` is picked, no more anchors than `anchor_limits[part]`, and
    nothing that carries no evidence. Anchors in `barred` are in the context without being picked.
    Equal costs are decided by the lower `draw`.
    """
    size = adjacency.shape[0]
    never = marked(np.zeros(0, dtype=np.int32) if barred is None else barred, size)
    shared = marked(anchors[0], size) if len(anchors) == 1 else None
    drop_costs = DropCosts.of(adjacency, wanted, anchors, settings)

    def pick(block: range) -> list[Ids]:
        rows, costs, flows = drop_costs.of_block(block)
        ids = np.arange(size, dtype=np.int32) if rows is None else rows
        costs[:, never[ids]] = NEVER
        costs[costs <= 0] = NEVER
        ties = draw[ids]
        picked = []
        for part, own, whole in zip(block, costs, flows, strict=True):
            count, starts = counts[part], anchors[part % len(anchors)]
            own[positions(rows, wanted[part])] = NEVER
            limit = count if anchor_limits is None else anchor_limits[part]
            if settings.method != "rounds":
                is_anchor = (marked(starts, size) if shared is None else shared)[ids]
                picked.append(ids[best_few_anchors(own, count, is_anchor, limit, ties)])
            else:
                pool = ids[best(own, POOL * count, ties)]
                # An anchor that is barred from being picked is there already.
                stay = np.union1d(wanted[part], starts[never[starts]])
                kept = np.union1d(stay, pool).astype(np.int32)
                inside = whole.at(positions(rows, kept))
                small = Elimination.cut(adjacency, kept, wanted[part], starts, stay, inside, draw, settings)
                picked.append(small.eliminate(count, limit))
        return picked

    for picked in side_by_side(pick, drop_costs.blocks()):
        yield from picked


def connect(
    adjacency: csr_array,
    ranked: Sequence[Ids],
    anchors: Sequence[Ids],
    share: float,
    draw: np.ndarray,
    settings: EvidenceSettings,
    *,
    barred: Ids,
) -> list[tuple[Ids, Ids]]:
    """Candidates and connecting entities of every part's target side.

    `ranked` are a part's candidates, best first, as many as there is room for beside its anchors;
    connecting entities take `share` of the whole side from the tail of them. Places that no
    connecting entity is worth stay with the candidates.
    """
    counts = [
        min(int(share * (len(order) + len(fixed))), len(order) // 2)
        for order, fixed in zip(ranked, anchors, strict=True)
    ]
    if not any(counts):
        return [(order, order[:0]) for order in ranked]
    first = [order[: len(order) - count] for order, count in zip(ranked, counts, strict=True)]
    picked = pick_contexts(adjacency, first, anchors, counts, draw, settings, barred=barred)
    sides = []
    for order, sure, connecting in zip(ranked, first, picked, strict=True):
        rest = order[len(sure) :]
        rest = rest[~np.isin(rest, connecting)][: len(rest) - len(connecting)]
        sides.append((np.concatenate([sure, rest]), connecting))
    return sides
