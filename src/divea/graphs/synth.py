"""Generates a pair of graphs with known matches that behaves like a real one.

A world of entities stands on a line, cut into communities of skewed size and those into wider
neighbourhoods. A statement joins a head to a tail that is mostly near, and always chosen by
popularity, which follows a power law. Both graphs hold part of the world: most entities stand
in both, some in one alone and poorly described there; some statements are common to both, the
others each graph's own; and each names relations in its own vocabulary, where some relations of
the world are one.

The shapes were fitted to DBP15K zh-en; docs/synthetic-data.md shows how close they come.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import ndtri

from divea.errors import InputError
from divea.graphs.builder import GraphBuilder
from divea.graphs.knowledge_graph import KnowledgeGraph
from divea.graphs.labels import LABEL
from divea.graphs.links import Links
from divea.graphs.task import AlignmentTask

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SynthConfig:
    """What to generate. The defaults are what zh-en looks like."""

    entities: int = 15_000
    """Entities of each graph."""
    triples_per_entity: float = 4.0
    matched: float = 0.77
    """Share of a graph's entities that have a counterpart."""
    common: float = 0.55
    """Share of a graph's statements that the other one makes too."""
    seed_share: float = 0.2
    """Share of the links that are seeds; the others are gold."""
    random_seed: int = 0

    def __post_init__(self) -> None:
        if self.entities < 10:
            raise InputError("entities must be at least 10")
        if not 0.5 <= self.triples_per_entity <= 100:
            raise InputError("triples_per_entity must lie between 0.5 and 100")
        for name in ("matched", "common", "seed_share"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(f"{name} must lie between 0 and 1")


@dataclass(frozen=True)
class SynthPair:
    """A generated task, and the links that only an evaluation may see."""

    task: AlignmentTask
    gold: Links


def synthesise(config: SynthConfig) -> SynthPair:
    """Generate a pair of graphs; the same config gives the same arrays.

    >>> pair = synthesise(SynthConfig(entities=200, random_seed=7))
    >>> len(pair.task.seeds), len(pair.gold)
    (31, 123)
    """
    rng = np.random.default_rng(config.random_seed)
    world = _World.draw(config, rng)
    common = world.statements(round(config.common * config.triples_per_entity * config.entities), 0, rng)
    source, source_labels = world.graph(1, common, config, rng)
    target, target_labels = world.graph(2, common, config, rng)
    links = Links.from_labels(
        source_labels.filter(pa.array(world.role == 0)),
        target_labels.filter(pa.array(world.role == 0)),
        source,
        target,
    )
    given = np.zeros(len(links), dtype=bool)
    given[rng.permutation(len(links))[: round(config.seed_share * len(links))]] = True
    seeds, gold = Links.from_pairs(links.pairs[given]), Links.from_pairs(links.pairs[~given])
    return SynthPair(AlignmentTask(source, target, seeds), gold)


@dataclass(frozen=True)
class _World:
    """Everything there is to state something about. Entities are places on a line."""

    role: npt.NDArray[np.int8]
    """0: in both graphs; 1, 2: only in that one."""
    activity: Floats
    """How often an entity is the head of a statement."""
    popularity: Floats
    """How often it is the tail."""
    community: Rows
    bounds: tuple[Rows, Rows]
    """First and last place of each community, and of the neighbourhood around it."""
    relation_weight: Floats
    favourites: Rows
    """The relations that a community mostly uses."""

    @classmethod
    def draw(cls, config: SynthConfig, rng: np.random.Generator) -> _World:
        matched = round(config.matched * config.entities)
        single = config.entities - matched
        role = rng.permutation(np.repeat([0, 1, 2], [matched, single, single])).astype(np.int8)
        size = len(role)
        alone = np.where(role == 0, 1.0, 0.3)
        # A fifth of the entities is only ever a tail, and makes up for it by being popular.
        speaks = rng.random(size) > 0.2
        activity = alone * speaks * rng.lognormal(0, 0.55, size)
        popularity = np.minimum((1 - rng.random(size)) ** (-1 / 1.25), size**0.6)
        popularity *= alone * np.where(speaks, 1.0, 2.0)
        sizes = np.maximum(rng.lognormal(3.7, 0.8, max(1, size // 40)), 5).astype(np.int64)
        ends = np.cumsum(sizes)
        ends = np.append(ends[ends < size], size)
        starts = np.concatenate([[0], ends[:-1]])
        community = np.repeat(np.arange(len(ends)), ends - starts)
        wide = np.arange(len(ends)) // 20 * 20
        wide_starts, wide_ends = starts[wide], ends[np.minimum(wide + 19, len(ends) - 1)]
        relations = max(10, round(2600 * (config.entities / 20_000) ** 0.25))
        # Log-normal by quantiles, not by chance: one lucky draw would make up half of a small graph.
        weight = np.exp(2.15 * ndtri((rng.permutation(relations) + 0.5) / relations))
        favourites = _pick(np.cumsum(weight), rng.random((len(ends), 6)))
        bounds = np.stack([starts, ends]), np.stack([wide_starts, wide_ends])
        return cls(role, activity, popularity, community, bounds, weight, favourites)

    def statements(self, count: int, side: int, rng: np.random.Generator) -> Rows:
        """Heads, relations and tails among the entities of a side (0: those of both)."""
        here = (self.role == 0) | (self.role == side)
        heads = _pick(np.cumsum(np.where(here, self.activity, 0)), rng.random(count))
        return self._complete(heads, here, rng)

    def _complete(self, heads: Rows, here: npt.NDArray[np.bool_], rng: np.random.Generator) -> Rows:
        """Give each head a relation and a tail."""
        count = len(heads)
        reach = np.concatenate([[0.0], np.cumsum(np.where(here, self.popularity, 0))])
        near, wide = (bounds[:, self.community[heads]] for bounds in self.bounds)
        luck = rng.random(count)
        low = np.where(luck < 0.6, near[0], np.where(luck < 0.88, wide[0], 0))
        high = np.where(luck < 0.6, near[1], np.where(luck < 0.88, wide[1], len(here)))
        spot = reach[low] + rng.random(count) * (reach[high] - reach[low])
        tails = np.minimum(np.searchsorted(reach, spot, side="right") - 1, len(here) - 1)
        anyhow = _pick(np.cumsum(self.relation_weight), rng.random(count))
        favourite = self.favourites[self.community[tails], rng.integers(0, 6, count)]
        relations = np.where(rng.random(count) < 0.6, favourite, anyhow)
        # A neighbourhood without anybody of this side has no tail to give; self-loops are rare.
        kept = here[tails] & ((tails != heads) | (rng.random(count) < 0.1))
        return np.stack([heads, relations, tails])[:, kept]

    def graph(
        self, side: int, common: Rows, config: SynthConfig, rng: np.random.Generator
    ) -> tuple[KnowledgeGraph, pa.Array]:
        """One side's graph, and the label there of every entity of the world."""
        wanted = round(config.triples_per_entity * config.entities)
        own = self.statements(max(0, wanted - common.shape[1]), side, rng)
        here = (self.role == 0) | (self.role == side)
        rows = np.concatenate([common, own], axis=1)
        # Nobody stands alone: who was never drawn states one thing.
        for _ in range(20):
            silent = here.copy()
            silent[rows[0]] = silent[rows[2]] = False
            if not silent.any():
                break
            rows = np.concatenate([rows, self._complete(np.flatnonzero(silent), here, rng)], axis=1)
        heads, relations, tails = rows
        merged = _merge_some(len(self.relation_weight), 0.15 * side, rng)
        name = ("source", "target")[side - 1]
        labels = _labels(f"http://{name}.example/resource/E", rng.permutation(len(here)))
        relation_labels = _labels(f"http://{name}.example/property/p", np.arange(merged.max() + 1))
        builder = GraphBuilder()
        builder.add_triples(
            _encoded(heads, labels), _encoded(merged[relations], relation_labels), _encoded(tails, labels)
        )
        builder.add_entities(labels.filter(pa.array(here)))
        return builder.build(), labels


def _pick(cumulative: Floats, luck: Floats) -> Rows:
    """Draw indices with the weights that `cumulative` sums up."""
    drawn = np.searchsorted(cumulative, luck * cumulative[-1], side="right")
    return np.minimum(drawn, len(cumulative) - 1)


def _merge_some(count: int, share: float, rng: np.random.Generator) -> Rows:
    """A smaller vocabulary: a share of the relations is folded into others, and all renumbered."""
    merged = np.arange(count)
    folded = rng.permutation(count)[: round(share * count)]
    merged[folded] = rng.integers(0, count, len(folded))
    _, names = np.unique(merged, return_inverse=True)
    return rng.permutation(names.max() + 1)[names]


def _labels(prefix: str, numbers: Rows) -> pa.Array:
    empty = pa.scalar("", type=LABEL)
    return pc.binary_join_element_wise(pa.scalar(prefix, type=LABEL), pa.array(numbers).cast(LABEL), empty)


def _encoded(indices: Rows, labels: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(indices.astype(np.int32)), labels)
