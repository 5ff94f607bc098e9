"""Refining a run: more seeds or rejected pairs are added, and only what they change is solved again.

A refined run starts where the run before it started its last iteration: with the same division, pseudo-seeds,
lists of earlier iterations and calibration, less what contradicts the new pairs. A job of this iteration that
is the same as before already has its result. The others hold both ends of a new seed or rejected pair, an end
that must not be matched any more, or a pseudo-seed that has become impossible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from divea.division import Division, Subtask, load_division
from divea.errors import InputError
from divea.executors import Job
from divea.formats.make_task import links_of
from divea.formats.sheets import with_verdicts
from divea.formats.task_folders import resolve_links
from divea.graphs import AlignmentTask, Links
from divea.graphs.ids import contains
from divea.io import usable_path
from divea.loop.checkpoint import Checkpoint
from divea.loop.confidence import Judged, hold_back
from divea.loop.lists import Lists
from divea.runs.checkpoints import RunCheckpoints
from divea.runs.checksums import REJECTED
from divea.runs.directory import CommittedResults, RunDirectory
from divea.runs.layout import DIVISION, judged_file, learned_file
from divea.runs.log import Log
from divea.runs.manifest import Manifest
from divea.runs.opening import open_to_read, read_stored_task
from divea.types import Ids, Matches

_REMOVED = "cannot be refined, because its iterations were removed or are damaged; start a new run"


@dataclass(frozen=True)
class Before:
    """The runs that a refined run takes results from."""

    latest: RunDirectory
    """The run before: it has the division and the results of the last iteration."""
    first: RunDirectory
    """The first run of the chain, which refines no other: it has the checkpoints of earlier iterations."""

    def close(self) -> None:
        """Release the runs."""
        self.latest.close()
        self.first.close()

    def results(self, job: Job, run: RunDirectory) -> CommittedResults | None:
        """The results of a job of `run`, if the run before solved the same job."""
        rejected = run.task.rejected.without(self.latest.task.rejected)
        if any(_has_inside(subtask, rejected) for subtask in job.subtasks):
            return None
        return self.latest.results(job)


def open_before(path: Path) -> Before:
    """Open a finished run in order to refine it. Raises InputError if a part of it is missing."""
    latest = first = open_to_read(path)
    try:
        if not latest.is_finished():
            raise InputError("is not finished, and only a finished run can be refined", path=path)
        while first.manifest.folder_before is not None:
            folder = Path(first.manifest.folder_before)
            if not folder.is_dir():
                raise InputError(f"refined {folder}, which is not there any more; start a new run", path=path)
            if first is not latest:
                first.close()
            wanted, first = first.manifest.refines, open_to_read(folder)
            if first.manifest.identity != wanted:
                raise InputError(f"refined another run than the one in {folder}; start a new run", path=path)
        if any(first.valid_checksum(name) is None for name in _needed(first.manifest)):
            raise InputError(_REMOVED, path=first.path)
    except BaseException:
        latest.close()
        first.close()
        raise
    return Before(latest, first)


def _needed(manifest: Manifest) -> list[str]:
    """The files of iterations and folds that a run must have in order to be refined."""
    last = manifest.settings.iterations - 2
    folds = range(1, (manifest.settings.confidence.folds or 0) + 1)
    return [*([learned_file(last)] if last >= 0 else []), *map(judged_file, folds)]


def refining(manifest: Manifest, before: Manifest, folder: Path) -> Manifest:
    """The manifest of a run that refines the run of `before`, which is in `folder`.

    Raises InputError if anything but the seeds and the rejected pairs differs.
    """
    differences = [
        text
        for text in before.model_copy(update={"refines": None}).differences(manifest)
        if text not in ("the seeds", f"the {REJECTED}")
    ]
    if differences:
        what = f"cannot be refined, because something else changed ({'; '.join(differences)})"
        raise InputError(f"{what}; start a new run", path=folder)
    update = {
        "refines": before.identity,
        "folder_before": str(folder.absolute()),
        # Results of that run are taken over.
        "processors": before.processors,
    }
    return manifest.model_copy(update=update)


def with_more(
    run: Path, seeds: Any, sheets: Sequence[str | Path], *, skip_unknown_seeds: bool = False
) -> AlignmentTask:
    """The task of a run with more seeds and with the verdicts of sheets.

    Raises InputError if they add nothing, or contradict what the run knows.

    Parameters
    ----------
    seeds
        A file, or an object as in `divea.make_task`; None for none.
    skip_unknown_seeds
        Leave out seeds of unknown entities.
    """
    manifest = Manifest.load(run)
    task = read_stored_task(run, manifest)
    graphs = task.source, task.target
    if isinstance(seeds, str | Path):
        folder = manifest.folder if manifest.folder is not None and Path(manifest.folder).is_dir() else None
        links = resolve_links(usable_path(seeds), *graphs, folder=folder, skip_unknown=skip_unknown_seeds)
    else:
        links = links_of(seeds, *graphs, where="seeds", skip_unknown=skip_unknown_seeds)
    more = replace(task, seeds=task.seeds.union(links))
    if sheets:
        more = with_verdicts(more, sheets)
    if (len(more.seeds), len(more.rejected)) == (len(task.seeds), len(task.rejected)):
        raise InputError("nothing to refine: the run knows all of these seeds and verdicts", path=run)
    return more


class RefinedCheckpoints(RunCheckpoints):
    """The checkpoints of a refined run: those that it does not have itself come from the runs before it."""

    def __init__(self, run: RunDirectory, log: Log, failed: Sequence[object], before: Before):
        super().__init__(run, log, failed)
        self._before, self._checkpoints_before = before, RunCheckpoints(before.first, None, failed)

    def latest(self, fold: int, task: AlignmentTask) -> Checkpoint | None:
        settings, first = self._run.manifest.settings, self._before.first
        if fold or settings.iterations == 1:
            return super().latest(fold, task)
        visible = first.task
        if settings.calibrates:
            visible, _ = hold_back(first.task, settings.confidence.held_back, settings.random_seed)
        found = self._checkpoints_before.latest(fold, visible)
        if found is None or found.iteration != settings.iterations - 2:
            raise InputError(_REMOVED, path=first.path)
        return replace(
            found,
            pseudo_seeds=found.pseudo_seeds.without(self._run.task.rejected),
            lists=tuple(_without_rejected(lists, self._run.task) for lists in found.lists),
        )

    def division(self, fold: int, iteration: int, task: AlignmentTask) -> Division | None:
        found = super().division(fold, iteration, task)
        if found is not None or fold:
            return found
        division = load_division(self._before.latest.path / DIVISION, task)
        adapted = without_new_anchors(division, task)
        self.keep_division(fold, iteration, adapted)
        return adapted

    def judged(self, fold: int) -> Judged | None:
        return super().judged(fold) or self._checkpoints_before.judged(fold)


def without_new_anchors(division: Division, task: AlignmentTask) -> Division:
    """The division without unmatched entities and candidates that have become anchors of the task."""
    subtasks = (
        replace(
            subtask,
            unmatched=_without(subtask.unmatched, task.seeds.source),
            candidates=_without(subtask.candidates, task.seeds.target),
        )
        for subtask in division.subtasks
    )
    return replace(division, subtasks=tuple(subtasks))


def _without_rejected(lists: Lists, task: AlignmentTask) -> Lists:
    return replace(lists, blocks=tuple(without_pairs(block, task.rejected) for block in lists.blocks))


def without_pairs(matches: Matches, rejected: Links) -> Matches:
    """The ranked lists without some pairs; the rest of a list moves up.

    >>> lists = Matches(np.array([4]), np.array([[1, 2, 3]]), np.float32([[.9, .5, .1]]), np.array([True]))
    >>> without_pairs(lists, Links.from_pairs([(4, 1)])).target.tolist()
    [[2, 3, -1]]
    """
    is_rejected = _listed(matches, rejected)
    rows = np.flatnonzero(is_rejected.any(axis=1))
    if not len(rows):
        return matches
    target, score, mutual = matches.target.copy(), matches.score.copy(), matches.mutual.copy()
    # A list that loses its first target has a new best match, and whether that is mutual is unknown.
    mutual[rows[is_rejected[rows, 0]]] = False
    target[is_rejected], score[is_rejected] = -1, -np.inf
    order = np.argsort(is_rejected[rows], axis=1, kind="stable")
    target[rows] = np.take_along_axis(target[rows], order, axis=1)
    score[rows] = np.take_along_axis(score[rows], order, axis=1)
    return Matches(matches.source, target, score, mutual)


def _listed(matches: Matches, pairs: Links) -> np.ndarray:
    """Where the ranked lists hold one of the pairs."""
    found = np.zeros(matches.target.shape, dtype=bool)
    concerned = np.flatnonzero(np.isin(matches.source, pairs.source))
    keys = matches.source[concerned].astype(np.int64)[:, None] << 32 | matches.target[concerned]
    found[concerned] = np.isin(keys, pairs.source.astype(np.int64) << 32 | pairs.target)
    return found & (matches.target >= 0)


def _without(ids: Ids, anchors: Ids) -> Ids:
    return np.setdiff1d(ids, anchors, assume_unique=True)


def _has_inside(subtask: Subtask, pairs: Links) -> bool:
    """Whether a subtask holds both ends of one of the pairs."""
    in_source = contains(subtask.source_entities, pairs.source)
    return bool((in_source & contains(subtask.target_entities, pairs.target)).any())
