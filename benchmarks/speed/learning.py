"""Averaging lists of several iterations and one-to-one assignment, next to sorting whole arrays.

Random lists of 50 targets for each of 200,000 sources stand for three iterations: the candidates of a source
are near each other, some targets are popular, a quarter of the lists has equal scores, and some are short.
divea works on blocks of 10,000 lists whose sources are spread over the graph, as subtasks give them. Memory
is the peak beyond the lists. Both methods run in one process and must give the same lists and the same pairs.
Aim: at least ten times as fast.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common import (
    Figures,
    Needs,
    Rounds,
    Spread,
    Table,
    add_random_seed,
    add_rounds,
    by_sorting,
    in_turns,
    measure,
)
from divea.loop.assignment import assign
from divea.loop.average import average
from divea.loop.lists import Lists, Ranking
from divea.resources.row_blocks import for_row_blocks
from divea.types import Matches

NEEDS = Needs("none", "CPU, 4 GiB (24 GiB for 2,000,000 sources)", "3 min")

SORTING, DIVEA = "sorting", "divea"
BLOCK = 1 << 14
SUBTASK = 10_000


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sources", type=int, default=200_000)
    parser.add_argument("--width", type=int, default=50, help="targets of a list (default: 50)")
    parser.add_argument("--iterations", type=int, default=3)
    add_random_seed(parser)
    add_rounds(parser, 3)


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    units = {"step": "", "method": "", "time": "s", "CPU time": "s", "peak memory": "MiB"}
    table = figures.table("learning", units)
    random_seed = options.random_seed
    shape = options.sources, options.width
    history = [ranked_lists(shape, random_seed, number) for number in range(options.iterations)]
    taken = np.arange(0, options.sources, 50, dtype=np.int32)
    blocks = [Lists.of(list(cut(lists, number))) for number, lists in enumerate(history)]
    averaging = compared(
        "average",
        {
            SORTING: partial(
                by_sorting.average, history, history[-1].source, taken, options.width, random_seed
            ),
            DIVEA: partial(average, blocks, taken, options.width, random_seed),
        },
        options.rounds,
        table,
    )
    ranking: Ranking = averaging[DIVEA].results[0]
    lists = averaging[SORTING].results[0]
    if not is_same(ranking, lists):
        figures.fail("the averaged lists differ")
    assigning = compared(
        "one-to-one",
        {
            SORTING: partial(by_sorting.one_to_one, lists, random_seed),
            DIVEA: partial(assign, ranking, one_to_one=True, random_seed=random_seed),
        },
        options.rounds,
        table,
    )
    pairs = assigning[DIVEA].results[0].by_row(len(ranking))
    if not np.array_equal(pairs, assigning[SORTING].results[0]):
        figures.fail("the assigned pairs differ")
    figures.add("sources with a target", float((pairs >= 0).mean()))
    figures.add("average: times as fast", averaging[SORTING].times(averaging[DIVEA]))
    figures.add("one-to-one: times as fast", assigning[SORTING].times(assigning[DIVEA]))
    slow, fast = (
        [first.seconds + second.seconds for first, second in zip(*steps, strict=True)]
        for steps in (
            (averaging[name].measurements, assigning[name].measurements) for name in (SORTING, DIVEA)
        )
    )
    figures.add("both: times as fast", Spread.of(old / new for old, new in zip(slow, fast, strict=True)))
    return figures


def compared(
    step: str, works: dict[str, Callable[[], Any]], rounds: int, table: Table
) -> dict[str, Rounds[Any]]:
    """Measure both methods of a step in turns, and add them to the table."""
    found = in_turns({name: partial(measure, work) for name, work in works.items()}, rounds)
    for name, measured in found.items():
        cpu_seconds = Spread.of(one.cpu_seconds for one in measured.measurements)
        table.add(
            {
                "step": step,
                "method": name,
                "time": measured.seconds,
                "CPU time": cpu_seconds,
                "peak memory": measured.memory,
            }
        )
    return found


def ranked_lists(shape: tuple[int, int], random_seed: int, iteration: int) -> Matches:
    """The lists of one iteration; the same targets are popular in all of them."""
    sources, width = shape
    popularity = np.random.default_rng(random_seed).random(sources) / 4
    target, score = np.empty(shape, dtype=np.int32), np.empty(shape, dtype=np.float32)

    def fill(block: slice) -> None:
        rng = np.random.default_rng([random_seed, iteration, block.start])
        own = np.arange(block.start, block.stop)[:, None]
        away = rng.random((len(own), 2 * width)).argsort(axis=1)[:, :width] - width
        listed = (own + away) % sources
        similarity = np.exp(-np.abs(away) / width) / 2 + popularity[listed]
        similarity += 0.1 * rng.normal(size=listed.shape)
        similarity = np.where(own % 4 == 0, np.round(similarity * 64) / 64, similarity)
        order = (-similarity).argsort(axis=1)
        target[block] = np.take_along_axis(listed, order, axis=1)
        score[block] = np.take_along_axis(similarity, order, axis=1)
        is_empty = np.arange(width) >= np.where(own % 50 == 0, own // 50 % width, width)
        target[block][is_empty], score[block][is_empty] = -1, -np.inf

    for_row_blocks(fill, sources, BLOCK)
    ids = np.arange(sources, dtype=np.int32)
    return Matches(ids, target, score, np.zeros(sources, dtype=bool))


def cut(lists: Matches, random_seed: int) -> Iterator[Matches]:
    """The lists in blocks, as subtasks give them: the ids of a block are spread over all ids."""
    order = np.random.default_rng([random_seed, 1]).permutation(len(lists))
    for first in range(0, len(lists), SUBTASK):
        own = np.sort(order[first : first + SUBTASK])
        yield Matches(lists.source[own], lists.target[own], lists.score[own], lists.mutual[own])


def is_same(ranking: Ranking, others: Matches) -> bool:
    """Whether lists in blocks are the same as others, bit for bit."""
    lists = ranking.lists.merged()
    return (
        np.array_equal(lists.source, others.source)
        and np.array_equal(lists.target, others.target)
        and np.array_equal(lists.score.view(np.int32), others.score.view(np.int32))
        and np.array_equal(ranking.mutual, others.mutual)
    )
