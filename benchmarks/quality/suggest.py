"""Whether suggested labels pay: rounds of `divea suggest` against as many random labels.

A task starts with a few seeds; `--starts` draws them several times. In every round a run suggests entities,
gold names their counterparts, and the next run knows them. An entity without a counterpart in gold is a
wasted question and counts as one. There are two comparisons: as many questions about random entities, some
of which are wasted too, and as many random links of gold, none of which is. Results are compared on the links
that nobody labelled, neither the suggestions nor any of the random draws.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.common import DBP15K, DataSet, Figures, Needs, Value, add_data, add_device, add_settings, say
from benchmarks.common.curation import (
    aligned,
    filled_in,
    hits_at_1,
    links_from,
    random_entities,
    random_links,
    without_sources,
)
from divea.api import Alignment
from divea.curation import suggest
from divea.graphs import AlignmentTask, Links

NEEDS = Needs("DBP15K", "CPU or GPU", "20 min (CPU)")


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data(parser, DBP15K, default=("zh-en",))
    add_device(parser)
    parser.add_argument(
        "--start", type=float, default=0.01, help="share of the links that are seeds at first"
    )
    parser.add_argument("--labels", type=int, default=50, help="labels of a round")
    parser.add_argument("--rounds", type=int, default=6, help="rounds of suggestions")
    parser.add_argument(
        "--starts", type=int, nargs="+", default=[0, 1, 2, 3, 4], help="random seeds of the first seeds"
    )
    parser.add_argument(
        "--seeds", type=int, default=1, help="random draws of each kind for each start, to compare with"
    )
    parser.add_argument("--subtasks", type=int, default=1)
    add_settings(parser, "iterations=2")


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    columns = ("data", "start", "labels", "seeds", "wasted", "hits@1 of the rest", "gain")
    table = figures.table("suggest", dict.fromkeys(columns, ""))
    for name in options.sets:
        data = DataSet(name, options.data)
        whole = data.task()
        gold = whole.seeds.union(data.test_links(whole))
        for start in options.starts:
            for row in compare(whole, gold, start, options):
                table.add({"data": name, "start": start, **row})
    return figures


def compare(
    whole: AlignmentTask, gold: Links, number: int, options: argparse.Namespace
) -> list[dict[str, Value]]:
    """A row for the start, for the suggestions, and for the mean of each kind of random draws.

    Parameters
    ----------
    number
        The random seed of the first seeds.
    """
    seeds = random_links(gold, round(options.start * len(gold)), number)
    test, task = gold.without(seeds), AlignmentTask(whole.source, whole.target, seeds)
    count = options.labels * options.rounds
    with tempfile.TemporaryDirectory() as folder:
        before = aligned(task, Path(folder) / "run", options)
        last, asked, wasted = in_rounds(before, test, Path(folder), options)
        draws = {
            "random entities": [
                random_entities(task, count, _draw(number, draw)) for draw in range(options.seeds)
            ],
            "random links": [
                random_links(test, count, _draw(number, draw)).source for draw in range(options.seeds)
            ],
        }
        drawn = [sources for kind in draws.values() for sources in kind]
        rest = without_sources(test, np.concatenate([asked, *drawn]))
        start, found = hits_at_1(before, rest), hits_at_1(last, rest)
        rows = [
            _row("none", len(seeds), start, start),
            {**_row("suggested", len(last.task.seeds), found, start), "wasted": wasted},
        ]
        for kind, sources in draws.items():
            hits, known = [], []
            for place, drawn_now in enumerate(sources):
                again = AlignmentTask(task.source, task.target, seeds.union(links_from(test, drawn_now)))
                out = Path(folder) / f"{kind} {place}"
                hits.append(hits_at_1(aligned(again, out, options), rest))
                known.append(len(again.seeds))
                say(f"{kind}, draw {place + 1}: {hits[-1]:.4f}, suggested {found:.4f}")
            if hits:
                row = _row(f"{kind}, mean of {len(hits)}", float(np.mean(known)), float(np.mean(hits)), start)
                rows.append({**row, "wasted": count + len(seeds) - float(np.mean(known))})
    return rows


def _draw(start: int, draw: int) -> int:
    """The number of a random draw: every start has its own."""
    return 100 * (start + 1) + draw


def _row(labels: str, seeds: float, hits: float, start: float) -> dict[str, Value]:
    return {"labels": labels, "seeds": seeds, "hits@1 of the rest": hits, "gain": hits - start}


def in_rounds(
    alignment: Alignment, gold: Links, folder: Path, options: argparse.Namespace
) -> tuple[Alignment, np.ndarray, int]:
    """The run after all rounds, the entities that were suggested, and how many had no counterpart."""
    asked = np.zeros(0, dtype=np.int32)
    sheets: list[Path] = []
    wasted = 0
    for number in range(options.rounds):
        sheet = folder / f"labels{number}.tsv"
        table = suggest(alignment.path, sheet, options.labels, asked=sheets)
        sheets.append(sheet)
        labelled = filled_in(table, sheet, gold, alignment.task)
        asked = np.concatenate([asked, labelled.sources])
        wasted += len(table) - len(labelled.accepted)
        if len(labelled.accepted):
            alignment = aligned(alignment.task, folder / f"round{number}", options, [sheet])
        say(f"round {number + 1}: {wasted} wasted, hits@1 of all links {hits_at_1(alignment, gold):.4f}")
    return alignment, asked, wasted
