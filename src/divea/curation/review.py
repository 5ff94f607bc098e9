"""Which pairs of a run a person should judge first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from divea.curation.sheet import check_request, sheet_table
from divea.curation.worth import choose
from divea.errors import InputError
from divea.formats.sheets import write_sheet
from divea.io import usable_path
from divea.runs.finished import FinishedRun, RankedLists

Numbers = npt.NDArray[np.float64]


def review(
    run: FinishedRun,
    lists: RankedLists,
    path: str | Path,
    pairs: int = 200,
    *,
    for_spreadsheet: bool = False,
) -> pa.Table:
    """Write the assigned pairs of a run that are worth a person's time, the most valuable first.

    The worth of a pair is the doubt about it, times what a verdict says about others: see
    `divea.curation.worth`.

    Parameters
    ----------
    lists
        The ranked lists of the run.
    path
        The sheet: a .tsv, .csv or .sssom.tsv file.
    pairs
        The most pairs to write.
    for_spreadsheet
        Write an apostrophe before texts that a spreadsheet would take for formulas.
    """
    path = usable_path(path)
    check_request("pairs", pairs, path, run.path)
    if not len(lists.assigned):
        raise InputError("the run assigned no pairs, so there is nothing to review", path=run.path)
    task, settings = run.task, run.manifest.settings
    doubt = np.zeros(task.source.num_entities)
    doubt[lists.assigned.source] = doubts(lists)
    chosen = choose(task.source, doubt, pairs, known=task.seeds.source, random_seed=settings.random_seed)
    row = np.searchsorted(lists.assigned.source, chosen)
    wanted = settings.features.names
    table = sheet_table(
        task,
        chosen,
        lists.assigned.target[row],
        names=(wanted.source, wanted.target),
        matched=lists.assigned,
        confidence=lists.confidence[row],
        lists=lists.matches,
    )
    write_sheet(table, path, for_spreadsheet=for_spreadsheet)
    return table


def doubts(lists: RankedLists) -> Numbers:
    """The doubt about each assigned pair, from 0 to 1: the probability that it is wrong.

    Without a confidence, it is 1 minus the margin to the next candidate.
    """
    if np.isnan(lists.confidence).all():
        return 1 - margins(lists)
    return 1 - np.nan_to_num(lists.confidence, nan=0.5)


def margins(lists: RankedLists) -> Numbers:
    """The score of each assigned pair minus the score of the best other candidate, from 0 to 1."""
    if not len(lists.assigned):
        return np.zeros(0)
    # Lists are sorted by source.
    scores = lists.matches.score[np.searchsorted(lists.matches.source, lists.assigned.source), :2]
    runner_up = scores[:, 1] if scores.shape[1] > 1 else np.zeros(len(scores), np.float32)
    rival = np.where(lists.rank == 1, np.where(np.isfinite(runner_up), runner_up, 0), scores[:, 0])
    return np.clip(lists.score.astype(np.float64) - rival, 0, 1)
