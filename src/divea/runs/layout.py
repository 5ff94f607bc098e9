"""The files of a run directory.

RUN/manifest.json                  everything that decides the result, and what each stage cost
RUN/task/                          the graphs and seeds as memory-mapped arrays
RUN/journal.jsonl                  the committed files, with their checksums
RUN/iteration-0/division/          the division of an iteration
RUN/iteration-0/subtask-00000.npz  the result of a subtask: arrays only
RUN/iteration-0/learned.npz        what the next iteration starts from
RUN/fold-1/iteration-0/...         the same for cross-validation, which ends with
RUN/fold-1/judged.npz              the pairs that hidden seeds judge
RUN/calibration.json               what the confidence was learned from, and the precision to expect
RUN/evidence.arrow                 what the confidence of each assigned pair was computed from
RUN/features.json                  the weights of the features, and what was learned about properties
RUN/features/encoder.npz           vectors that are expensive to compute
RUN/division/                      the division of the last iteration
RUN/mappings.parquet, .tsv         at most one target per source
RUN/ranked.parquet                 every ranked list
RUN/metrics.json                   figures of an experiment (`divea reproduce`)
RUN/log.jsonl                      what happened and when
RUN/lock                           held by the process that works on the run; its text is the signature

Nothing here is pickled, and no name that a file holds is used as a path. Files with other names are never
read, replaced or removed.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from divea.errors import InputError
from divea.io import require_regular

MANIFEST, JOURNAL, LOG, LOCK = "manifest.json", "journal.jsonl", "log.jsonl", "lock"
TASK, DIVISION = "task", "division"
MAPPINGS, MAPPINGS_TSV, RANKED, METRICS = "mappings.parquet", "mappings.tsv", "ranked.parquet", "metrics.json"
CALIBRATION, FEATURES, EVIDENCE = "calibration.json", "features.json", "evidence.arrow"
TABLES = (MAPPINGS, MAPPINGS_TSV, RANKED, CALIBRATION, FEATURES, EVIDENCE)

FORMAT = {"format": "divea run", "version": 2}
"""The fields that identify the manifest of a run."""

SIGNATURE = b"This folder is a run of divea.\n"
"""The text of the lock file: it tells a run from any other folder, even before there is a manifest."""

_RESULTS = re.compile(
    r"(fold-\d+/)?iteration-\d+/(subtask-\d+\.npz|learned\.npz|division)|fold-\d+/judged\.npz|"
    r"division|features/[\w-]+\.npz|(mappings|ranked|calibration|features|evidence)\.\w+"
)
_FILES_OF_FOLDERS = {
    TASK: re.compile(
        r"task\.json|(seeds|rejected)\.npy|(source|target)/((entities|relations|attributes|predicates)\.arrow|triples\.npy)"
    ),
    DIVISION: re.compile(r"division\.json|arrays/\w+\.npy"),
}


def iteration_folder(iteration: int, fold: int = 0) -> str:
    """The folder of an iteration of the main loop, or of the loop of a fold.

    >>> iteration_folder(0), iteration_folder(2, fold=1)
    ('iteration-0', 'fold-1/iteration-2')
    """
    return f"{f'fold-{fold}/' if fold else ''}iteration-{iteration}"


def result_file(iteration: int, subtask: int, fold: int = 0) -> str:
    """The file of a subtask's result.

    >>> result_file(0, 3)
    'iteration-0/subtask-00003.npz'
    """
    return f"{iteration_folder(iteration, fold)}/subtask-{subtask:05}.npz"


def learned_file(iteration: int, fold: int = 0) -> str:
    """The file of what an iteration learned.

    >>> learned_file(0)
    'iteration-0/learned.npz'
    """
    return f"{iteration_folder(iteration, fold)}/learned.npz"


def judged_file(fold: int) -> str:
    """The file of the pairs that the hidden seeds of a fold judge.

    >>> judged_file(1)
    'fold-1/judged.npz'
    """
    return f"fold-{fold}/judged.npz"


def feature_file(name: str) -> str:
    """The file of a feature that is kept with the run.

    >>> feature_file("encoder")
    'features/encoder.npz'
    """
    return f"features/{name}.npz"


def is_result(name: str) -> bool:
    """Whether a committed file is a result, a checkpoint or a table of the alignment."""
    return _RESULTS.fullmatch(name) is not None


def is_of_iteration(name: str) -> bool:
    """Whether a committed file belongs to an iteration or a fold: a finished run does not need it.

    >>> is_of_iteration("iteration-0/learned.npz"), is_of_iteration("division")
    (True, False)
    """
    return name.startswith(("iteration-", "fold-"))


def files_of(place: Path, folder: str) -> list[Path]:
    """The files in a task or division folder whose names are those that divea gives, in order of their paths.

    Parameters
    ----------
    place
        Where the folder is.
    folder
        Its path in a run, which ends in `TASK` or `DIVISION`.
    """
    pattern = _FILES_OF_FOLDERS[folder.rpartition("/")[2]]
    return sorted(path for path in place.rglob("*") if pattern.fullmatch(path.relative_to(place).as_posix()))


def is_division(name: str) -> bool:
    """Whether a committed file is a division, which is a folder.

    >>> is_division("division"), is_division("iteration-0/division"), is_division("ranked.parquet")
    (True, True, False)
    """
    return name.rpartition("/")[2] == DIVISION


def is_run(path: Path) -> bool:
    """Whether a folder is a run, damaged or not: by the signature, or by the format of the manifest."""
    if _start(path / LOCK, len(SIGNATURE)) == SIGNATURE:
        return True
    try:
        require_regular(path / MANIFEST)
        content = json.loads((path / MANIFEST).read_bytes())
    except (OSError, InputError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("format") == FORMAT["format"]


def _start(path: Path, count: int) -> bytes | None:
    """The first bytes of a regular file; None if it cannot be read."""
    try:
        require_regular(path)
        with path.open("rb") as file:
            return file.read(count)
    except (OSError, InputError):
        return None
