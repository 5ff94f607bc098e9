"""The settings of `propagate`, and what the likelihood of a degree adds, judged on held-out seeds alone.

    python benchmarks/propagation.py ../shared/data

A fifth of the seeds is held out in five folds; shown is the share of them whose target is among the
candidates of their part, with as many candidates as the part has members. N = 5. No test link is read.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from divea.division import discovery, locality
from divea.division.groups import group_source, members_of
from divea.formats import read_task
from divea.graphs import AlignmentTask, Links


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    data = parser.parse_args().data
    zh, fr = data / "dbp15k" / "zh_en", data / "dbp15k" / "fr_en"
    tasks = {
        "zh-en": read_task(zh, zh / "splits" / "20" / "0" / "sup_ent_ids"),
        "fr-en": read_task(fr, fr / "splits" / "20" / "0" / "sup_ent_ids"),
        "D-Y": read_task(data / "openea" / "D_Y_15K_V1"),
        "ContEA": read_task(data / "contea" / "zh_en"),
        "Debian": read_task(data / "debian" / "packages"),
    }
    for steps, damping in [(s, 0.5) for s in (2, 4, 6, 8, 12)] + [(6, 0.0), (6, 1.0)]:
        locality.STEPS, locality.HUB_DAMPING = steps, damping
        show(f"steps {steps}, hub damping {damping}", tasks)
    locality.STEPS, locality.HUB_DAMPING = 6, 0.5
    discovery.likelihood = lambda adjacency, seeds: np.ones(adjacency.shape[0], dtype=np.float32)
    show("steps 6, hub damping 0.5, every degree as likely", tasks)


def show(what: str, tasks: dict[str, AlignmentTask]) -> None:
    shares = ", ".join(f"{name} {held_out_coverage(task):.4f}" for name, task in tasks.items())
    print(f"{what}: {shares}", flush=True)


def held_out_coverage(task: AlignmentTask) -> float:
    fold = np.random.default_rng(0).integers(5, size=len(task.seeds))
    hits = 0
    for number in range(5):
        out = fold == number
        train = Links(task.seeds.source[~out], task.seeds.target[~out])
        held = Links(task.seeds.source[out], task.seeds.target[out])
        reduced = AlignmentTask(task.source, task.target, train)
        groups, _ = group_source(reduced, 5)
        counts = np.array([len(own) for own in members_of(groups, reduced.unmatched_source)])
        found = discovery.discover(task.target.adjacency, train, groups, counts, taken=train.target)
        for part, candidates in enumerate(found):
            mine = groups[held.source] == part
            hits += int(np.isin(held.target[mine], candidates).sum())
    return hits / len(task.seeds)


if __name__ == "__main__":
    main()
