"""The pairs that a report shows: a sample of sure, doubtful and contested ones, and of unmatched entities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from divea.explanations.kept import Kept
from divea.types import Ids

Kind = Literal["sure", "doubtful", "contested", "unmatched"]

KINDS: dict[Kind, str] = {
    "sure": "among the tenth of the pairs with the highest confidence",
    "doubtful": "confidence nearest to the threshold of the mappings, above or below it",
    "contested": "assigned to each other, but one of them is a better match of another entity",
    "unmatched": "source entities without a pair in the mappings",
}
"""What the pairs of each kind are."""

_SALT = 0x5A3B1E


@dataclass(frozen=True)
class Sample:
    """A source entity that the report shows, with its match or its best candidate."""

    kind: Kind
    source: int


def choose_samples(kept: Kept, each: int) -> list[Sample]:
    """Up to `each` entities of every kind; kinds take turns, and no entity is in two kinds."""
    seed = kept.run.manifest.settings.random_seed
    draw = np.random.default_rng([seed, _SALT])
    chosen: dict[Kind, list[int]] = {}
    taken = np.zeros(kept.task.source.num_entities, dtype=bool)
    # Sure pairs come last: there are enough of them for any choice of the other kinds.
    for kind, members in reversed(_members(kept, draw).items()):
        free = members[~taken[members]][:each]
        taken[free] = True
        chosen[kind] = free.tolist()
    turns = [(place, kind) for place in range(each) for kind in KINDS]
    return [Sample(kind, chosen[kind][place]) for place, kind in turns if place < len(chosen[kind])]


def _members(kept: Kept, draw: np.random.Generator) -> dict[Kind, Ids]:
    """The source entities of each kind: doubtful ones by how doubtful they are, all others at random."""
    known, evidence, mappings = kept.counterparts, kept.evidence, kept.run.mappings
    has_confidence = np.isfinite(evidence.confidence)
    source, confidence = evidence.source[has_confidence], evidence.confidence[has_confidence]
    least = np.quantile(confidence, 0.9) if len(confidence) else np.inf
    # The threshold is infinite if no pair is in the mappings: the most confident ones are doubtful then.
    distance = np.abs(confidence - min(kept.threshold, 1.0))
    in_order = np.lexsort((draw.random(len(distance)), distance))
    is_mapped = ~(known.confidence < kept.threshold) & (known.target >= 0)
    listed = kept.task.source.find(mappings["source"])
    is_contested = (mappings["rank"].to_numpy() > 1) | ~mappings["mutual"].to_numpy()
    return {
        "sure": draw.permutation(source[confidence >= least]),
        "doubtful": source[in_order],
        "contested": draw.permutation(listed[is_contested & (listed >= 0)]),
        "unmatched": draw.permutation(np.flatnonzero(~is_mapped)),
    }
