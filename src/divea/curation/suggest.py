"""Which entities a person should label next: with a run, or with nothing but two graphs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from divea.curation.review import doubts
from divea.curation.sheet import check_request, sheet_table
from divea.curation.worth import choose
from divea.errors import InputError
from divea.formats import read_task
from divea.formats.sheets import sheet_suffix, sources_in, write_sheet
from divea.graphs import AlignmentTask
from divea.graphs.ids import marked
from divea.io import usable_path
from divea.runs.finished import FinishedRun, RankedLists, open_finished, read_ranked_lists
from divea.runs.layout import is_run


def suggest(
    task: AlignmentTask | str | Path,
    path: str | Path,
    entities: int = 50,
    *,
    asked: Sequence[str | Path] = (),
    for_spreadsheet: bool = False,
    random_seed: int | None = None,
) -> pa.Table:
    """Write a sheet of the source entities whose counterparts are most worth knowing, the best first.

    Returns the table that was written. A person fills in the column verdict with the label of the
    counterpart (or with accept, if the sheet already has the right target), and the sheet goes into
    `align(task, reviewed=path)`.

    Parameters
    ----------
    task
        A task, the folder of one, or a run directory. With a run, its doubt counts as well, and the sheet has
        its candidates.
    path
        The sheet: a .tsv or .csv file; with a run also .sssom.tsv.
    entities
        The most entities to write.
    asked
        Earlier sheets; their entities are left out, including those that nobody could label.
    for_spreadsheet
        Write an apostrophe before texts that a spreadsheet would take for formulas.
    random_seed
        Decides between entities of equal worth, 0 by default. A run has its own random seed.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from divea.graphs.planted import planted_pair
    >>> with TemporaryDirectory() as folder:
    ...     len(suggest(planted_pair(seeds=0).task, f"{folder}/sheet.tsv", 5))
    5
    """
    path = usable_path(path)
    if not isinstance(task, AlignmentTask):
        folder = usable_path(task)
        if is_run(folder):
            if random_seed is not None:
                raise InputError("a run has its own random seed: give no other", path=folder)
            run = open_finished(folder)
            return suggest_for_run(
                run, read_ranked_lists(run), path, entities, asked=asked, for_spreadsheet=for_spreadsheet
            )
        task = read_task(folder)
    return suggest_for_task(
        task, path, entities, asked=asked, for_spreadsheet=for_spreadsheet, random_seed=random_seed or 0
    )


def suggest_for_task(
    task: AlignmentTask,
    path: Path,
    entities: int,
    *,
    asked: Sequence[str | Path] = (),
    for_spreadsheet: bool = False,
    random_seed: int = 0,
) -> pa.Table:
    """Write a sheet of entities chosen by structure alone: by how far their labels would reach."""
    check_request("entities", entities, path, None)
    if sheet_suffix(path) == ".sssom.tsv":
        raise InputError("a .sssom.tsv file cannot hold entities without a target; use .tsv", path=path)
    own = (~marked(task.seeds.source, task.source.num_entities)).astype(np.float64)
    own[sources_in(asked, task.source)] = 0
    if not own.any():
        raise InputError("every source entity is a seed or was asked about, so nothing is left to label")
    chosen = choose(task.source, own, entities, known=task.seeds.source, random_seed=random_seed)
    table = sheet_table(task, chosen, np.full(len(chosen), -1, dtype=np.int32))
    write_sheet(table, path, for_spreadsheet=for_spreadsheet)
    return table


def suggest_for_run(
    run: FinishedRun,
    lists: RankedLists,
    path: Path,
    entities: int,
    *,
    asked: Sequence[str | Path] = (),
    for_spreadsheet: bool = False,
) -> pa.Table:
    """Write a sheet of entities chosen by structure and by doubt, with the candidates of the run."""
    check_request("entities", entities, path, run.path)
    task, settings = run.task, run.manifest.settings
    size = task.source.num_entities
    own, target, confidence = np.zeros(size), np.full(size, -1, dtype=np.int32), np.full(size, np.nan)
    # An entity that no target was assigned to is in full doubt; the sheet shows its best candidate.
    has_candidates = lists.matches.best >= 0
    listed = lists.matches.source[has_candidates]
    own[listed], target[listed] = 1, lists.matches.best[has_candidates]
    assigned = lists.assigned.source
    own[assigned], target[assigned] = doubts(lists), lists.assigned.target
    confidence[assigned] = lists.confidence
    own[sources_in(asked, task.source)] = 0
    if not own.any():
        raise InputError("the run is in doubt about nothing that was not asked about", path=run.path)
    chosen = choose(task.source, own, entities, known=task.seeds.source, random_seed=settings.random_seed)
    wanted = settings.features.names
    table = sheet_table(
        task,
        chosen,
        target[chosen],
        names=(wanted.source, wanted.target),
        matched=lists.assigned,
        confidence=confidence[chosen],
        lists=lists.matches,
    )
    write_sheet(table, path, for_spreadsheet=for_spreadsheet)
    return table
