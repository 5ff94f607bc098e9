"""Generates a pair of knowledge graphs with known matches that resembles a real pair.

A world of entities is drawn first. The entities are on a line that is cut into communities of skewed size;
twenty communities form a neighbourhood. The tail of a triple is mostly near its head, and is always drawn by
popularity, which follows a power law.

Both graphs contain a part of the world. Most entities are in both graphs; the others are in one graph only
and have fewer triples there. Some triples are common to both graphs, and the others belong to one of them.
Each graph has its own vocabulary, in which some relations of the world are merged. On request, entities have
names and attributes, which are noisy in the target; `synth_literals` generates them.

The parameters were fitted to DBP15K zh-en; docs/notes/synthetic-data.md shows how close the result is.
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
from divea.graphs.labels import LABEL, as_labels
from divea.graphs.links import Links
from divea.graphs.synth_literals import draw_literals
from divea.graphs.task import AlignmentTask

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_BOTH, _SOURCE, _TARGET = 0, 1, 2
"""The graphs that contain an entity of the world; also the numbers of the graphs."""

_TAIL_ONLY = 0.2
"""Share of entities that are never drawn as a head."""
_SINGLE_WEIGHT = 0.3
"""Activity and popularity of entities that are in one graph only, relative to the others."""
_COMMUNITIES_PER_NEIGHBOURHOOD = 20
_SAME_COMMUNITY = 0.6
"""Probability that a tail is drawn from the head's community."""
_SAME_NEIGHBOURHOOD = 0.88
"""Probability that a tail is drawn from the head's community or neighbourhood."""
_FAVOURITES = 6
"""Relations that are typical of a community."""
_FAVOURITE_RELATION = 0.6
"""Probability that a relation is drawn from the favourites of the tail's community."""
_LOOPS_KEPT = 0.1
"""Share of the drawn self-loops that are kept."""
_MERGED_RELATIONS = 0.15
"""Share of the world's relations that are merged into others, per number of the graph."""
_COMPLETION_ROUNDS = 20
"""Attempts to give every entity a triple."""


DEFAULT_NAME_NOISE = 0.3


@dataclass(frozen=True)
class SynthConfig:
    """The parameters of a generated pair. The defaults resemble DBP15K zh-en."""

    entities: int = 15_000
    """Entities of each graph."""
    triples_per_entity: float = 4.0
    matched: float = 0.77
    """Share of each graph's entities that have a counterpart."""
    common: float = 0.55
    """Share of each graph's triples that the other graph contains too."""
    seed_share: float = 0.2
    """Share of the links that are seeds; the others are gold. 0 for a pair without seeds."""
    random_seed: int = 0
    names: bool = False
    """Whether the entities have names and attributes. The triples and links are the same without them."""
    name_noise: float = DEFAULT_NAME_NOISE
    """Share of the target's names that differ from the source's. A sixth as many names are missing."""

    def __post_init__(self) -> None:
        if self.entities < 10:
            raise InputError("entities must be at least 10")
        if self.entities > 100_000_000:
            raise InputError("entities must be at most 100000000")
        if not 0 <= self.random_seed < 1 << 31:
            raise InputError("random_seed must be between 0 and 2147483647")
        if not 0.5 <= self.triples_per_entity <= 100:
            raise InputError("triples_per_entity must be between 0.5 and 100")
        for name in ("matched", "common"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(f"{name} must be between 0 and 1")
        if not 0 <= self.seed_share < 1:
            raise InputError("seed_share must be at least 0 and below 1")
        if not 0 <= self.name_noise <= 1:
            raise InputError("name_noise must be from 0 to 1")
        if self.name_noise != DEFAULT_NAME_NOISE and not self.names:
            raise InputError("name_noise has no effect without names")


@dataclass(frozen=True)
class SynthPair:
    """A generated task, and the links that are not among its seeds, for evaluation."""

    task: AlignmentTask
    gold: Links


def synthesise(config: SynthConfig) -> SynthPair:
    """Generate a pair of graphs; the same config gives the same arrays.

    Examples
    --------
    >>> pair = synthesise(SynthConfig(entities=200, random_seed=7))
    >>> pair.task.source
    KnowledgeGraph(200 entities, 125 relations, 790 triples)
    >>> len(pair.task.seeds), len(pair.gold)
    (31, 123)
    >>> pair = synthesise(SynthConfig(entities=200, random_seed=7, names=True))
    >>> pair.task.source.names[0].as_py()
    'Rulon Mivil Salu Pijer'
    """
    rng = np.random.default_rng(config.random_seed)
    world = _World.draw(config, rng)
    common = world.draw_triples(
        round(config.common * config.triples_per_entity * config.entities), _BOTH, rng
    )
    source, source_labels = world.draw_graph(_SOURCE, common, config, rng)
    target, target_labels = world.draw_graph(_TARGET, common, config, rng)
    in_both = pa.array(world.graph_of == _BOTH)
    links = Links.from_labels(source_labels.filter(in_both), target_labels.filter(in_both), source, target)
    is_seed = np.zeros(len(links), dtype=bool)
    is_seed[rng.permutation(len(links))[: round(config.seed_share * len(links))]] = True
    seeds, gold = Links.from_pairs(links.pairs[is_seed]), Links.from_pairs(links.pairs[~is_seed])
    return SynthPair(AlignmentTask(source, target, seeds), gold)


@dataclass(frozen=True)
class _Communities:
    """Communities and neighbourhoods: consecutive entities of the line."""

    of_entity: Indices
    """The community of each entity."""
    bounds: Indices
    """Two rows: the first entity of each community, and the entity after its last."""
    wide_bounds: Indices
    """The same for the neighbourhood of each community."""

    @classmethod
    def draw(cls, entities: int, rng: np.random.Generator) -> _Communities:
        """Communities of log-normal size, at least five entities each; the last one ends with the line."""
        sizes = np.maximum(rng.lognormal(3.7, 0.8, max(1, entities // 40)), 5).astype(np.int64)
        ends = np.cumsum(sizes)
        ends = np.append(ends[ends < entities], entities)
        starts = np.concatenate([[0], ends[:-1]])
        of_entity = np.repeat(np.arange(len(ends)), ends - starts)
        width = _COMMUNITIES_PER_NEIGHBOURHOOD
        first = np.arange(len(ends)) // width * width
        last = np.minimum(first + width - 1, len(ends) - 1)
        return cls(of_entity, np.stack([starts, ends]), np.stack([starts[first], ends[last]]))

    def __len__(self) -> int:
        return self.bounds.shape[1]


@dataclass(frozen=True)
class _World:
    """The entities and relations that both graphs are drawn from. Triples are columns: head, relation, tail.

    The order of the random draws is part of the format: a change would give every random seed other graphs.
    """

    graph_of: npt.NDArray[np.int8]
    """Whether an entity is in both graphs, or only in the source or the target."""
    activity: Floats
    """The weight with which an entity is drawn as a head."""
    popularity: Floats
    """The weight with which an entity is drawn as a tail."""
    communities: _Communities
    relation_weight: Floats
    """The weight with which a relation is drawn."""
    favourites: Indices
    """The favourite relations of each community."""

    @classmethod
    def draw(cls, config: SynthConfig, rng: np.random.Generator) -> _World:
        """A world that is large enough for two graphs of the given size."""
        graph_of = _draw_graph_of(config, rng)
        activity, popularity = _draw_weights(graph_of, rng)
        communities = _Communities.draw(len(graph_of), rng)
        relation_weight = _draw_relation_weight(config, rng)
        uniform = rng.random((len(communities), _FAVOURITES))
        favourites = _draw_indices(np.cumsum(relation_weight), uniform)
        return cls(graph_of, activity, popularity, communities, relation_weight, favourites)

    def is_in(self, graph: int) -> Mask:
        """Which entities are in a graph; those in both for `_BOTH`."""
        return (self.graph_of == _BOTH) | (self.graph_of == graph)

    def draw_triples(self, count: int, graph: int, rng: np.random.Generator) -> Indices:
        """At most `count` triples between entities of a graph (`_BOTH`: between entities of both graphs)."""
        is_present = self.is_in(graph)
        heads = _draw_indices(np.cumsum(np.where(is_present, self.activity, 0)), rng.random(count))
        return self._draw_triples_of(heads, is_present, rng)

    def draw_graph(
        self, graph: int, common: Indices, config: SynthConfig, rng: np.random.Generator
    ) -> tuple[KnowledgeGraph, pa.Array]:
        """One graph, with the common triples, and the label of every entity of the world in it."""
        wanted = round(config.triples_per_entity * config.entities)
        own = self.draw_triples(max(0, wanted - common.shape[1]), graph, rng)
        is_present = self.is_in(graph)
        triples = self._connect_isolated(np.concatenate([common, own], axis=1), is_present, rng)
        heads, relations, tails = triples
        merged = _draw_vocabulary(len(self.relation_weight), _MERGED_RELATIONS * graph, rng)
        name = "source" if graph == _SOURCE else "target"
        labels = _numbered(f"http://{name}.example/resource/E", rng.permutation(len(is_present)))
        relation_labels = _numbered(f"http://{name}.example/property/p", np.arange(merged.max() + 1))
        builder = GraphBuilder()
        builder.add_triples(
            _encoded(heads, labels), _encoded(merged[relations], relation_labels), _encoded(tails, labels)
        )
        builder.add_entities(labels.filter(pa.array(is_present)))
        if config.names:
            _add_literals(builder, labels, is_present, graph, config)
        return builder.build(), labels

    def _draw_triples_of(self, heads: Indices, is_present: Mask, rng: np.random.Generator) -> Indices:
        """One triple for each head, less those without a possible tail and most self-loops."""
        tails = self._draw_tails(heads, is_present, rng)
        relations = self._draw_relations(tails, rng)
        is_kept = is_present[tails] & ((tails != heads) | (rng.random(len(heads)) < _LOOPS_KEPT))
        return np.stack([heads, relations, tails])[:, is_kept]

    def _draw_tails(self, heads: Indices, is_present: Mask, rng: np.random.Generator) -> Indices:
        """A tail for each head, from its community, its neighbourhood or the whole world, by popularity.

        If none of these entities is present, the tail is one that is not present.
        """
        community = self.communities.of_entity[heads]
        near, wide = self.communities.bounds[:, community], self.communities.wide_bounds[:, community]
        uniform = rng.random(len(heads))
        is_near, is_wide = uniform < _SAME_COMMUNITY, uniform < _SAME_NEIGHBOURHOOD
        first = np.where(is_near, near[0], np.where(is_wide, wide[0], 0))
        end = np.where(is_near, near[1], np.where(is_wide, wide[1], len(is_present)))
        # The popularity of all entities before each one; a point between two of these sums draws an entity.
        before = np.concatenate([[0.0], np.cumsum(np.where(is_present, self.popularity, 0))])
        point = before[first] + rng.random(len(heads)) * (before[end] - before[first])
        return np.minimum(np.searchsorted(before, point, side="right") - 1, len(is_present) - 1)

    def _draw_relations(self, tails: Indices, rng: np.random.Generator) -> Indices:
        """A relation for each tail: often a favourite of the tail's community, otherwise any relation."""
        count = len(tails)
        any_relation = _draw_indices(np.cumsum(self.relation_weight), rng.random(count))
        community = self.communities.of_entity[tails]
        favourite = self.favourites[community, rng.integers(0, _FAVOURITES, count)]
        return np.where(rng.random(count) < _FAVOURITE_RELATION, favourite, any_relation)

    def _connect_isolated(self, triples: Indices, is_present: Mask, rng: np.random.Generator) -> Indices:
        """The triples, and one more for each isolated entity, which is its head."""
        for _ in range(_COMPLETION_ROUNDS):
            is_isolated = is_present.copy()
            is_isolated[triples[0]] = is_isolated[triples[2]] = False
            if not is_isolated.any():
                break
            more = self._draw_triples_of(np.flatnonzero(is_isolated), is_present, rng)
            triples = np.concatenate([triples, more], axis=1)
        return triples


def _add_literals(
    builder: GraphBuilder, labels: pa.Array, is_present: Mask, graph: int, config: SynthConfig
) -> None:
    """Add names and attributes. They have random generators of their own and leave the structure as it is."""
    blocks = draw_literals(
        is_present,
        is_target=graph == _TARGET,
        name_noise=config.name_noise,
        random_seed=config.random_seed,
    )
    for block in blocks:
        count = len(block.entities)
        predicates = _encoded(np.zeros(count, dtype=np.int64), as_labels([block.predicate]))
        kinds = pa.repeat(pa.scalar(block.kind, type=LABEL), count)
        builder.add_attributes(_encoded(block.entities, labels), predicates, block.values, kinds)


def _draw_graph_of(config: SynthConfig, rng: np.random.Generator) -> npt.NDArray[np.int8]:
    """The graphs that contain each entity, in random order along the line."""
    matched = round(config.matched * config.entities)
    single = config.entities - matched
    return rng.permutation(np.repeat([_BOTH, _SOURCE, _TARGET], [matched, single, single])).astype(np.int8)


def _draw_weights(graph_of: npt.NDArray[np.int8], rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The activity and the popularity of each entity."""
    size = len(graph_of)
    scale = np.where(graph_of == _BOTH, 1.0, _SINGLE_WEIGHT)
    # Entities that are never a head are twice as popular as tails, to have about as many triples.
    is_head = rng.random(size) > _TAIL_ONLY
    activity = scale * is_head * rng.lognormal(0, 0.55, size)
    popularity = np.minimum((1 - rng.random(size)) ** (-1 / 1.25), size**0.6)
    popularity *= scale * np.where(is_head, 1.0, 2.0)
    return activity, popularity


def _draw_relation_weight(config: SynthConfig, rng: np.random.Generator) -> Floats:
    """Log-normal weights of relations, in random order.

    The weights are quantiles and not random draws: one extreme draw would make up half of a small graph.
    """
    relations = max(10, round(2600 * (config.entities / 20_000) ** 0.25))
    weight: Floats = np.exp(2.15 * ndtri((rng.permutation(relations) + 0.5) / relations))
    return weight


def _draw_vocabulary(count: int, share: float, rng: np.random.Generator) -> Indices:
    """A new number for each relation of the world; a share of them get the number of another relation."""
    kept_as = np.arange(count)
    merged = rng.permutation(count)[: round(share * count)]
    kept_as[merged] = rng.integers(0, count, len(merged))
    _, number = np.unique(kept_as, return_inverse=True)
    return rng.permutation(number.max() + 1)[number]


def _draw_indices(cumulative: Floats, uniform: Floats) -> Indices:
    """Indices drawn by weights, given their cumulative sum and random numbers between 0 and 1."""
    drawn = np.searchsorted(cumulative, uniform * cumulative[-1], side="right")
    return np.minimum(drawn, len(cumulative) - 1)


def _numbered(prefix: str, numbers: Indices) -> pa.Array:
    """Labels: the prefix followed by each number."""
    empty = pa.scalar("", type=LABEL)
    return pc.binary_join_element_wise(pa.scalar(prefix, type=LABEL), pa.array(numbers).cast(LABEL), empty)


def _encoded(indices: Indices, labels: pa.Array) -> pa.Array:
    """The labels at these indices, as a dictionary-encoded column."""
    return pa.DictionaryArray.from_arrays(pa.array(indices.astype(np.int32)), labels)
