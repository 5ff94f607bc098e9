"""A small data set in the layout of DBP15K, with splits, and made-up figures of cells."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from divea.experiments.cell import Cell
from divea.formats import write_task
from divea.graphs import AlignmentTask, Links
from divea.graphs.synth import SynthConfig, synthesise

PAIR = "ab_cd"
SPLITS = {(5, 0): 0.05, (20, 0): 0.2, (20, 1): 0.2, (30, 0): 0.3}
"""(percentage of seeds, split) -> share of the links that are seeds."""


def write_data(folder: Path, entities: int = 120) -> Path:
    """Write the data set into a folder, and return the folder."""
    made = synthesise(SynthConfig(entities=entities))
    links = Links.from_pairs(np.concatenate([made.task.seeds.pairs, made.gold.pairs]))
    write_task(AlignmentTask(made.task.source, made.task.target, links), folder / PAIR, "jape")
    all_links = folder / PAIR / "sup_ent_ids"
    lines = all_links.read_text().splitlines(keepends=True)
    all_links.unlink()
    for (percent, split), share in SPLITS.items():
        own = split_of(folder, percent, split)
        own.mkdir(parents=True)
        drawn = np.random.default_rng([percent, split]).permutation(lines)
        count = round(share * len(lines))
        (own / "sup_ent_ids").write_text("".join(drawn[:count]))
        (own / "ref_ent_ids").write_text("".join(drawn[count:]))
    return folder


def write_names(data: Path) -> Path:
    """Name the entities: those of the right graph by their IRIs, those of the left one in a file.

    Linked entities have the same name. Returns the file.
    """
    folder = data / PAIR
    links = dict(line.split() for path in split_of(data).iterdir() for line in path.read_text().splitlines())
    left, right = (_labels_of(folder / f"ent_ids_{side}") for side in (1, 2))
    rng = np.random.default_rng(0)
    name_of = {number: "".join(rng.choice(list("abcdefghiklmnopr"), 12)) for number in (*left, *right)}
    iris = (f"{number}\thttp://b.example/resource/{name_of[number]}\n" for number in right)
    (folder / "ent_ids_2").write_text("".join(iris))
    names = (f"{label}\t{name_of[links.get(number, number)]}\n" for number, label in left.items())
    file = folder / "names_1.tsv"
    file.write_text("entity\tname\n" + "".join(names))
    return file


def _labels_of(path: Path) -> dict[str, str]:
    """The label of each entity, by its id in the file."""
    lines = (line.split("\t") for line in path.read_text().splitlines())
    return dict(lines)


def split_of(data: Path, percent: int = 20, split: int = 0) -> Path:
    """The folder of a split: its seeds are in sup_ent_ids, its test links in ref_ent_ids."""
    return data / PAIR / "splits" / str(percent) / str(split)


def made_up_metrics(cells: Sequence[Cell], ours: str = "DivEA") -> dict[str, dict[str, Any]]:
    """Figures that differ from cell to cell: our method is .1 ahead, with a little noise."""
    metrics = {}
    for cell in cells:
        rng = np.random.default_rng([cell.split, len(cell.method), cell.subtasks])
        iterations = []
        for number in range(cell.settings["iterations"]):
            hits = 0.4 + 0.1 * (cell.method == ours) + 0.01 * number + 0.01 * rng.random()
            names = ("H@1", "H@5", "H@10", "MRR", "coverage", "together")
            figures = dict(zip(names, np.linspace(hits, 1, 6).tolist(), strict=True))
            iterations.append({**figures, "largest": 9000 // cell.subtasks, "subtasks": cell.subtasks})
        seconds = dict.fromkeys(("seconds", "division_seconds", "solving_seconds", "subtask_seconds"), 10.0)
        metrics[cell.key] = {"iterations": iterations, "memory_mib": 100.0, **seconds}
    return metrics
