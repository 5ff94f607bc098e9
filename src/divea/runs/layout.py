"""The files of a run directory.

RUN/manifest.json                  everything that decides the result, and what each stage cost
RUN/task/                          the graphs and seeds as memory-mapped arrays
RUN/journal.jsonl                  the committed files, with their checksums
RUN/iteration-0/subtask-00000.npz  the result of a subtask: arrays only
RUN/division/                      the division of the last iteration
RUN/mappings.parquet, .tsv         at most one target per source
RUN/ranked.parquet                 every ranked list
RUN/metrics.json                   figures of an experiment (`divea reproduce`)
RUN/log.jsonl                      what happened and when
RUN/lock                           held by the process that works on the run

Nothing here is pickled, and no name that a file holds is used as a path.
"""

from __future__ import annotations

import re
from pathlib import Path

MANIFEST, JOURNAL, LOG, LOCK = "manifest.json", "journal.jsonl", "log.jsonl", "lock"
TASK, DIVISION = "task", "division"
MAPPINGS, MAPPINGS_TSV, RANKED, METRICS = "mappings.parquet", "mappings.tsv", "ranked.parquet", "metrics.json"

_RESULTS = re.compile(r"iteration-\d+/subtask-\d+\.npz|division|(mappings|ranked)\.\w+")


def result_file(iteration: int, subtask: int) -> str:
    """The file of a subtask's result.

    >>> result_file(0, 3)
    'iteration-0/subtask-00003.npz'
    """
    return f"iteration-{iteration}/subtask-{subtask:05}.npz"


def is_result(name: str) -> bool:
    """Whether a committed file is a result or a table of the alignment."""
    return _RESULTS.fullmatch(name) is not None


def is_run(path: Path) -> bool:
    """Whether a folder is a run, damaged or not."""
    return (path / MANIFEST).is_file() or (path / JOURNAL).is_file()
