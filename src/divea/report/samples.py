"""The pairs that a report shows: a sample of doubtful, contested and sure ones, and of unmatched entities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from divea.explanations.kept import Kept
from divea.types import Ids

Kind = Literal["doubtful", "contested", "unmatched", "sure", "unrated"]

KINDS: dict[Kind, str] = {
    "doubtful": "assigned pairs with a confidence from .1 to .9, those nearest to the threshold first",
    "contested": "pairs of which one end is a better match of another entity",
    "unmatched": "source entities without a pair in the mappings, shown with their best candidate",
    "sure": "pairs with a confidence above .9",
    "unrated": "pairs without a confidence",
}
"""What the pairs of each kind are, in the order in which they are shown."""

_SALT = 0x5A3B1E


@dataclass(frozen=True)
class Sample:
    """A source entity that the report shows, with its match or its best candidate."""

    kind: Kind
    source: int


def choose_samples(kept: Kept, most: int) -> list[Sample]:
    """Choose up to `most` entities; kinds take turns while they have members, and no entity has two kinds."""
    seed = kept.run.manifest.settings.random_seed
    members = _members(kept, np.random.default_rng([seed, _SALT]))
    taken = np.zeros(kept.task.source.num_entities, dtype=bool)
    free: dict[Kind, list[int]] = {}
    for kind in KINDS:
        own = members[kind][~taken[members[kind]]]
        free[kind] = own[:most].tolist()
        taken[own] = True
    longest = max(map(len, free.values()))
    turns = [(place, kind) for place in range(longest) for kind in KINDS if place < len(free[kind])]
    return [Sample(kind, free[kind][place]) for place, kind in turns[:most]]


def _members(kept: Kept, draw: np.random.Generator) -> dict[Kind, Ids]:
    """The source entities of each kind: doubtful ones nearest to the threshold first, others at random."""
    known, evidence, mappings = kept.counterparts, kept.evidence, kept.run.mappings
    confidence = evidence.confidence
    is_doubtful = (confidence >= 0.1) & (confidence <= 0.9)
    # The threshold is infinite if no pair is in the mappings; the most confident pairs then come first.
    distance = np.abs(confidence[is_doubtful] - min(kept.threshold, 1.0))
    in_order = np.lexsort((draw.random(len(distance)), distance))
    is_mapped = ~(known.confidence < kept.threshold) & (known.target >= 0)
    listed = kept.task.source.find(mappings["source"])
    is_contested = (mappings["rank"].to_numpy() > 1) | ~mappings["mutual"].to_numpy()
    return {
        "doubtful": evidence.source[is_doubtful][in_order],
        "contested": draw.permutation(listed[is_contested & (listed >= 0)]),
        "unmatched": draw.permutation(np.flatnonzero(~is_mapped)),
        "sure": draw.permutation(evidence.source[confidence > 0.9]),
        "unrated": draw.permutation(evidence.source[np.isnan(confidence)]),
    }
