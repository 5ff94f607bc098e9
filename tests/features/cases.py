"""Small pairs of graphs as new users bring them: films with labels, years and casts; books with an ISBN."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.builder import GraphBuilder
from divea.graphs.labels import as_labels

LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_SYLLABLES = ("ba", "ko", "ri", "ten", "sol", "mar", "vi", "lo", "da", "nu", "fer", "gi", "hal", "je", "qua")


@dataclass(frozen=True)
class Case:
    """A task without seeds, and its gold links."""

    task: AlignmentTask
    gold: Links

    def with_seeds(self, count: int) -> AlignmentTask:
        return AlignmentTask(self.task.source, self.task.target, Links.from_pairs(self.gold.pairs[:count]))


def invented_names(count: int, draw: np.random.Generator, words: int = 2) -> list[str]:
    """Distinct names of invented words."""
    names: dict[str, None] = {}
    while len(names) < count:
        parts = ["".join(draw.choice(_SYLLABLES, draw.integers(2, 4))).capitalize() for _ in range(words)]
        names[" ".join(parts)] = None
    return list(names)


def graph_of(
    triples: list[tuple[str, str, str]], literals: list[tuple[str, str, str, str]]
) -> KnowledgeGraph:
    """A graph from triples and literals (entity, property, value, kind)."""
    builder = GraphBuilder()
    columns = [as_labels(column) for column in zip(*triples, strict=True)] if triples else []
    if columns:
        builder.add_triples(*columns)
    builder.add_attributes(*(as_labels(column) for column in zip(*literals, strict=True)))
    return builder.build()


def films(count: int = 300, random_seed: int = 0) -> Case:
    """Films with a label, a year and a cast of labelled people; other IRIs, properties and spellings."""
    draw = np.random.default_rng(random_seed)
    titles, people = invented_names(count, draw), invented_names(count // 2, draw)
    casts = [draw.choice(len(people), draw.integers(1, 5), replace=False) for _ in titles]
    years = draw.integers(1950, 2020, count)
    sides = []
    for side, (label, year, actor) in enumerate(((LABEL, "year", "cast"), ("title", "released", "starring"))):
        film = [f"http://films{side}.org/f{number}" for number in draw.permutation(count)]
        person = [f"http://films{side}.org/p{number}" for number in draw.permutation(len(people))]
        typed = "http://www.w3.org/2001/XMLSchema#gYear" if side == 0 else ""
        literals = [(film[i], label, titles[i] if side == 0 else titles[i].upper(), "") for i in range(count)]
        literals += [(film[i], year, str(years[i]), typed) for i in range(count)]
        literals += [(person[i], label, name, "") for i, name in enumerate(people)]
        triples = [(film[i], actor, person[one]) for i in range(count) for one in casts[i]]
        sides.append((graph_of(triples, literals), [*film, *person]))
    return _case(sides)


def books(count: int = 200, random_seed: int = 0) -> Case:
    """Books with an ISBN, in groups of digits on one side; titles are in two languages that share nothing."""
    draw = np.random.default_rng(random_seed)
    codes = [f"978{number:010}" for number in draw.choice(10**10, count, replace=False)]
    sides = []
    for side in (0, 1):
        book = [f"http://books{side}.org/{number}" for number in draw.permutation(count)]
        titles = invented_names(count, draw, words=3)
        written = codes if side == 0 else [f"{c[:3]}-{c[3]}-{c[4:8]}-{c[8:12]}-{c[12]}" for c in codes]
        literals = [(book[i], f"http://v{side}/isbn", written[i], "") for i in range(count)]
        literals += [(book[i], f"http://v{side}/title", titles[i], "") for i in range(count)]
        sides.append((graph_of([], literals), book))
    return _case(sides)


def _case(sides: list[tuple[KnowledgeGraph, list[str]]]) -> Case:
    (source, here), (target, there) = sides
    return Case(AlignmentTask(source, target), Links(source.find(here), target.find(there)))
