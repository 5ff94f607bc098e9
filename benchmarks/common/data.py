"""Data: real sets in the data folder, held-out seeds, and synthetic pairs."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.common.progress import say
from divea.errors import InputError
from divea.formats import read_task
from divea.graphs import AlignmentTask, Links
from divea.loop.confidence import hold_back

DATA = Path(__file__).parents[3] / "shared" / "data"
PAIRS = Path(tempfile.gettempdir()) / "divea-pairs"

SETS = {
    "zh-en": "dbp15k/zh_en",
    "fr-en": "dbp15k/fr_en",
    "D-Y": "openea/D_Y_15K_V1",
    "ContEA": "contea/zh_en",
    "Debian": "debian/packages",
}
"""Real data sets: name -> folder in the data folder."""

DBP15K = ("zh-en", "fr-en")
"""The sets that have splits."""

_TEST_LINKS = ("test.parquet", "721_5fold/1/test_links")

SMALL_SIZES = {"zh-en": 7792, "fr-en": 7930}
"""S with N = 5: the mean size of CPS's subtasks, which is all entities divided by N."""

LARGE_SIZES = {"zh-en": 9421, "fr-en": 9594}
"""S with N = 5 in the paper's comparison with SBP."""


@dataclass(frozen=True)
class DataSet:
    """A real data set. DBP15K has several splits into seeds and test links, the other sets have one."""

    name: str
    data: Path
    percent: int = 20
    """Percentage of the links that are seeds."""
    split: int = 0

    @property
    def folder(self) -> Path:
        folder = self.data / SETS[self.name]
        if not folder.is_dir():
            raise InputError(
                f"the data set {self.name} is not here; --data names the data folder", path=folder
            )
        return folder

    def task(self) -> AlignmentTask:
        """The graphs and the seeds. Test links are not read."""
        return read_task(self.folder, self._split_folder / "sup_ent_ids" if self.name in DBP15K else None)

    def test_links(self, task: AlignmentTask) -> Links:
        """The test links, for benchmarks that say that they read them."""
        from divea.evaluation import read_gold

        files = [self._split_folder / "ref_ent_ids", *(self.folder / name for name in _TEST_LINKS)]
        return read_gold(next(file for file in files if file.exists()), task, self.folder)

    @property
    def _split_folder(self) -> Path:
        folder = self.folder / "splits" / str(self.percent) / str(self.split)
        if self.name in DBP15K and not folder.is_dir():
            raise InputError("the data set has no such split", path=folder)
        return folder


VALIDATION_SHARE = 0.2
"""Share of the seeds that are held out for validation."""


def held_out_seeds(task: AlignmentTask, split: int = 0) -> tuple[AlignmentTask, Links]:
    """The task without a fifth of its seeds, and those seeds, which take the place of the test links.

    They are the same seeds that `divea reproduce --validation 0.2` holds out.
    """
    return hold_back(task, VALIDATION_SHARE, split)


def validation_folds(task: AlignmentTask) -> Iterator[tuple[AlignmentTask, Links]]:
    """Five times the task without a fifth of its seeds, and those seeds; every seed is held out once."""
    folds = round(1 / VALIDATION_SHARE)
    fold = np.random.default_rng(0).integers(folds, size=len(task.seeds))
    source, target = task.seeds.source, task.seeds.target
    for number in range(folds):
        out = fold == number
        training, held_out = Links(source[~out], target[~out]), Links(source[out], target[out])
        yield AlignmentTask(task.source, task.target, training), held_out


def task_and_links(data_set: DataSet, links: str) -> tuple[AlignmentTask, Links]:
    """A task, and the links that results are compared with: "validation" or "test"."""
    task = data_set.task()
    if links == "validation":
        return held_out_seeds(task, data_set.split)
    return task, data_set.test_links(task)


def task_for(data_set: DataSet, links: str) -> AlignmentTask:
    """The task of `task_and_links` without the links; test links are not read."""
    task = data_set.task()
    return held_out_seeds(task, data_set.split)[0] if links == "validation" else task


def synthetic_pair(pairs: Path, entities: int, *, names: bool = False) -> Path:
    """The folder of a pair of `divea synth --random-seed 1`; generated once and kept.

    With names, it has attributes too, and no seeds.
    """
    folder = pairs / f"{'names' if names else 'synth'}{entities}"
    if not folder.is_dir():
        command = [sys.executable, "-m", "divea", "synth", str(folder), "--entities", str(entities)]
        command += ["--names", "--seed-share", "0"] if names else []
        say(f"generating {folder}")
        subprocess.run([*command, "--random-seed", "1"], check=True, stdout=subprocess.DEVNULL)
    return folder
