"""How well a preset aligns a data set: figures after every iteration, and what its confidence is worth.

    python benchmarks/alignment.py ../shared/data/dbp15k/zh_en --split 20/0 -n 5 -s 7792 --device cuda
    python benchmarks/alignment.py ../shared/data/contea/zh_en -n 10 --device cuda

Open protocol: every source entity without a seed is matched, against every candidate of its subtask.
With --validation a fifth of the seeds plays the part of the test links, which stay unread. One JSON line
for each iteration and one for the outcome.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import torch

from divea.alignment.confidence import Given, hold_back
from divea.alignment.loop import Iteration, Work, run_loop
from divea.alignment.settings import Settings
from divea.evaluation import RankMetrics, coverage, judge, listed_ranks, read_gold
from divea.formats import read_task
from divea.graphs import AlignmentTask, Links
from divea.run.jobs import jobs_of, solve_job


def read(folder: Path, split: str | None) -> tuple[AlignmentTask, Links]:
    """The task and its test links, in whichever layout."""
    if split is not None:
        place = folder / "splits" / split
        task = read_task(folder, place / "sup_ent_ids")
        return task, read_gold(place / "ref_ent_ids", task, folder)
    if (folder / "test.parquet").exists():
        task = read_task(folder)
        return task, read_gold(folder / "test.parquet", task, folder)
    fold = folder / "721_5fold" / "1"
    task = read_task(folder, fold / "train_links")
    return task, read_gold(fold / "test_links", task, folder)


def figures(matches, gold: Links) -> dict[str, float]:
    ranks = RankMetrics.of(listed_ranks(matches, gold))
    found = {"hits@1": ranks.h1, "hits@5": ranks.h5, "hits@10": ranks.h10, "mrr": ranks.mrr}
    return {name: round(value, 4) for name, value in found.items()}


def at_confidence(outcome, gold: Links, least: float) -> dict[str, float]:
    """Precision and recall of the pairs given at a confidence."""
    given = Given.of(outcome.matches, outcome.assigned)
    sure = outcome.confidence[given.row, given.place] >= least
    judged = judge(Links(given.source[sure], given.target[sure]), gold)
    return {
        "confidence": round(least, 4),
        "given": judged.given,
        "precision by ends": round(judged.end_precision, 4),
        "precision by pairs": round(judged.judged_precision, 4),
        "recall": round(judged.recall, 4),
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--split", help="of DBP15K, as 20/0")
    parser.add_argument("--preset", default="best")
    parser.add_argument("-n", "--subtasks", type=int, default=5)
    parser.add_argument("-s", "--size", type=int)
    parser.add_argument("--set", default="{}", help="changes to the preset, as JSON")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", type=int, default=20, help="GiB for subtasks trained together")
    parser.add_argument("--validation", action="store_true")
    return parser.parse_args()


def main() -> None:
    options = parse()
    changes = {"subtasks": options.subtasks, "size": options.size, "seed": options.seed}
    settings = Settings.preset(options.preset, **changes, **json.loads(options.set))
    task, gold = read(options.folder, options.split)
    if options.validation:
        task, gold = hold_back(task, 0.2, seed=7)
    began = time.perf_counter()
    spent = {"solving": 0.0}
    about = {"data": options.folder.name, "split": options.split, "subtasks": options.subtasks}

    def solver(work: Work):
        start = time.perf_counter()
        jobs = jobs_of(
            work,
            settings,
            device=options.device,
            memory=options.memory << 30,
            threads=torch.get_num_threads(),
        )
        found = [solved for job in jobs for solved in solve_job(work.task, job)]
        spent["solving"] += time.perf_counter() - start
        return found

    def watch(item: Iteration) -> None:
        line = {**about, "iteration": item.number, "model": settings.model_at(item.number)[0]}
        line |= {"coverage": round(coverage(item.division, gold).share, 4), **figures(item.matches, gold)}
        line |= {
            "pseudo_seeds": len(item.pseudo_seeds),
            "largest": max(p.size for p in item.division.subtasks),
        }
        print(json.dumps(line | {"seconds": round(time.perf_counter() - began, 1)}), flush=True)

    outcome = run_loop(task, settings, solver, watch)
    last = {**about, "seed": options.seed, "coverage": round(coverage(outcome.division, gold).share, 4)}
    last |= figures(outcome.matches, gold)
    one_to_one = replace(
        outcome.matches, target=outcome.assigned[:, None], score=outcome.matches.score[:, :1]
    )
    last["one_to_one"] = figures(one_to_one, gold)["hits@1"]
    if outcome.calibration is not None:
        chosen = outcome.calibration.confidence_for(0.95)
        last["for precision .95"] = at_confidence(outcome, gold, chosen)
        last["at .5"] = at_confidence(outcome, gold, 0.5)
    last |= {"seconds": round(time.perf_counter() - began, 1), "solving": round(spent["solving"], 1)}
    if options.device != "cpu":
        last["gpu_mib"] = torch.cuda.max_memory_allocated() >> 20
    print(json.dumps({"outcome": last}), flush=True)


if __name__ == "__main__":
    main()
