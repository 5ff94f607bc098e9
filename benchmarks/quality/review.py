"""Whether a review pays: verdicts on the pairs of `divea review` against as many random seeds.

A run of structure alone writes a sheet. Gold plays the reviewer, who knows the counterpart of every source
entity in gold: a right pair is accepted, and for a wrong one the true target is named. If only the target is
in gold, the pair is rejected; if neither end is, the row stays empty, as gold cannot judge it. The task is
aligned again with the sheet, and for comparison with as many random test links as seeds. The run is also
refined with the sheet, which repeats only a part of the work. All results are compared on the same links:
those that are in no sheet and in none of the random draws.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.common import DBP15K, DataSet, Figures, Needs, Value, add_data, add_device, add_settings, say
from benchmarks.common.curation import Labelled, aligned, filled_in, hits_at_1, random_links, without_sources
from divea.api import Alignment
from divea.graphs import AlignmentTask, Links
from divea.io import read_lines
from divea.runs.layout import LOG

NEEDS = Needs("DBP15K", "CPU or GPU", "10 min (CPU)")


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data(parser, DBP15K, default=("zh-en",))
    add_device(parser)
    parser.add_argument("--pairs", type=int, default=200, help="pairs of a sheet")
    parser.add_argument("--seeds", type=int, default=5, help="random draws that the review is compared with")
    parser.add_argument(
        "--percent", type=int, default=20, help="percentage of the links that are seeds: 5, 20 or 30"
    )
    parser.add_argument("--split", type=int, default=0, help="split of the data set")
    parser.add_argument("--subtasks", type=int, default=1)
    add_settings(parser, "iterations=2")


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    columns = (
        "data",
        "labels",
        "accepted",
        "corrected",
        "rejected",
        "not judged",
        "hits@1 of the rest",
        "gain",
        "seconds",
        "solved again",
    )
    table = figures.table("review", dict.fromkeys(columns, ""))
    for name in options.sets:
        data = DataSet(name, options.data, options.percent, options.split)
        task = data.task()
        for row in compare(task, data.test_links(task), options):
            table.add({"data": name, **row})
    return figures


def compare(task: AlignmentTask, test: Links, options: argparse.Namespace) -> list[dict[str, Value]]:
    """A row for the run before, for the reviewed one, and for each random draw."""
    with tempfile.TemporaryDirectory() as folder:
        before = aligned(task, Path(folder) / "run", options)
        sheet = Path(folder) / "sheet.tsv"
        reviewed = filled_in(before.review(sheet, options.pairs), sheet, test, task)
        draws = [random_links(test, options.pairs, number) for number in range(options.seeds)]
        labelled = np.concatenate([reviewed.sources, *(draw.source for draw in draws)])
        rest = without_sources(test, labelled)
        base = hits_at_1(before, rest)
        rows: list[dict[str, Value]] = [
            {"labels": "none", "hits@1 of the rest": base, "gain": 0.0, "seconds": _seconds(before)}
        ]
        after = aligned(task, Path(folder) / "reviewed", options, [sheet])
        say(f"reviewed: {hits_at_1(after, rest):.4f}, before {base:.4f}; {reviewed.counts}")
        _refuse_rejected(after, reviewed)
        seconds = {"seconds": _seconds(after)}
        rows.append({"labels": "review", **reviewed.counts, **_gain(hits_at_1(after, rest), base), **seconds})
        refined = before.refine(sheet, out=Path(folder) / "refined", device=options.device, progress=False)
        say(f"refined: {hits_at_1(refined, rest):.4f}")
        _refuse_rejected(refined, reviewed)
        cost = {"seconds": _seconds(refined), "solved again": _solved(refined)}
        rows.append({"labels": "refined", **_gain(hits_at_1(refined, rest), base), **cost})
        found = []
        for number, draw in enumerate(draws):
            again = AlignmentTask(task.source, task.target, task.seeds.union(draw))
            found.append(hits_at_1(aligned(again, Path(folder) / f"random{number}", options), rest))
            say(f"random draw {number + 1}: {found[-1]:.4f}")
        if found:
            mean = float(np.mean(found))
            rows.append(
                {"labels": f"random, mean of {len(found)}", "accepted": options.pairs, **_gain(mean, base)}
            )
    return rows


def _gain(hits: float, base: float) -> dict[str, Value]:
    return {"hits@1 of the rest": hits, "gain": hits - base}


def _seconds(alignment: Alignment) -> float:
    """The time from the start of a run to its tables."""
    times = [event["time"] for event in read_lines(alignment.path / LOG)]
    return float(times[-1] - times[0])


def _solved(alignment: Alignment) -> int:
    """The number of subtasks that a run solved."""
    return sum(
        len(event["subtasks"]) for event in read_lines(alignment.path / LOG) if event["event"] == "solved"
    )


def _refuse_rejected(after: Alignment, reviewed: Labelled) -> None:
    """Raise AssertionError if a rejected pair came back."""
    ranked = after.ranked
    pairs = set(zip(ranked["source"].to_pylist(), ranked["target"].to_pylist(), strict=True))
    assert not pairs & reviewed.rejected_labels, "a rejected pair came back"
