"""The progressive loop (Algorithm 1 of the paper): divide, solve, learn, and repeat.

Every iteration divides the task with what the previous one learned and has the subtasks solved. The result
becomes pseudo-seeds, which the next iteration's models learn from, and similarity weights, which keep
promising candidates in. All but the last iteration may run without some of the seeds, on which confidence is
calibrated; the last one has them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from divea.config import ModelSettings, Settings
from divea.division import Division, Feedback, Subtask, make_strategy
from divea.division.discovery import similarity_weights
from divea.graphs import AlignmentTask, Links
from divea.loop.confidence import Assignment, Calibration, calibrate, hold_back, pair_features
from divea.loop.merge import assign, average, merge
from divea.loop.pseudo_seeds import choose_pseudo_seeds, without_anchors
from divea.loop.solve import Solved
from divea.types import Ids, Matches


@dataclass(frozen=True)
class Work:
    """The subtasks that an iteration wants solved."""

    iteration: int
    task: AlignmentTask
    """The task with the seeds that this iteration may see."""
    subtasks: tuple[Subtask, ...]
    pseudo_seeds: Links
    """Those that the previous iteration chose."""
    notes: tuple[str, ...] = ()
    """What the division decided, for the user."""


Solver = Callable[[Work], Iterable[Solved]]
"""Solves all subtasks of an iteration and returns the results in their order."""


@dataclass(frozen=True)
class Iteration:
    """What an iteration found, for observers."""

    number: int
    division: Division
    pseudo_seeds: Links
    """Those chosen for the next iteration; none in the last one."""
    matches: Matches = field(repr=False)


Observer = Callable[[Iteration], None]


@dataclass(frozen=True)
class Outcome:
    """The result of the loop, in ids."""

    matches: Matches
    """The ranked targets of every unmatched source."""
    assigned: Ids
    """The target assigned to each source, -1 for none."""
    confidence: npt.NDArray[np.float64]
    """The probability that an assigned pair is correct, at its place in the ranked list; NaN at all other
    places, and everywhere if confidence could not be calibrated."""
    calibration: Calibration | None
    subtask_of_row: Ids
    """The subtask of the last iteration that each row of the matches comes from."""
    iterations: int
    division: Division
    """The division of the last iteration."""


def run_loop(
    task: AlignmentTask, settings: Settings, solve: Solver, observe: Observer | None = None
) -> Outcome:
    """Align a task; the same task, settings and solver give the same outcome."""
    strategy = make_strategy(task, settings)
    visible, held_back = task, Links.from_pairs([])
    if settings.calibrates:
        visible, held_back = hold_back(task, settings.confidence.held_back, settings.random_seed)
    pseudo_seeds = Links.from_pairs([])
    similarity: csr_array | None = None
    division: Division | None = None
    calibration: Calibration | None = None
    history = _History(settings)

    for number in range(settings.iterations):
        is_last = number == settings.iterations - 1
        if is_last:
            # Seeds that were held back are seeds again.
            visible, pseudo_seeds = task, without_anchors(pseudo_seeds, task.seeds)
        feedback = None if division is None else Feedback(division, pseudo_seeds, similarity)
        division = strategy.divide(visible, feedback)
        solved = list(solve(Work(number, visible, division.subtasks, pseudo_seeds, division.notes)))
        latest, subtask_of_row = merge([result.matches for result in solved])
        history.add(latest, settings.model_at(number))
        matches = history.averaged(visible)
        pseudo_seeds = Links.from_pairs([])
        if not is_last:
            pseudo_seeds = choose_pseudo_seeds(
                matches, threshold=settings.matching.threshold, random_seed=settings.random_seed
            )
            similarity = _updated_similarity(similarity, division, solved, task, settings)
        if settings.calibrates and number == settings.iterations - 2:
            assignment = _assignment(matches, settings)
            calibration = calibrate(pair_features(assignment, matches, visible), assignment, held_back)
        if observe is not None:
            observe(Iteration(number, division, pseudo_seeds, matches))

    assert division is not None
    assignment = _assignment(matches, settings)
    confidence = np.full(matches.score.shape, np.nan)
    if calibration is not None:
        features = pair_features(assignment, matches, task)
        confidence[assignment.row, assignment.rank] = calibration(features)
    assigned = assignment.by_row(len(matches))
    return Outcome(matches, assigned, confidence, calibration, subtask_of_row, settings.iterations, division)


class _History:
    """The matches of the latest iterations that had the same model: scores of two models do not compare."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._model: ModelSettings | None = None
        self._matches: list[Matches] = []

    def add(self, matches: Matches, model: ModelSettings) -> None:
        if self._model is None or not model.is_same_model(self._model):
            self._matches.clear()
        self._model = model
        self._matches = [*self._matches, matches][-self._settings.matching.average :]

    def averaged(self, visible: AlignmentTask) -> Matches:
        """The mean scores, as ranked lists of the latest iteration's sources."""
        latest = self._matches[-1]
        if len(self._matches) == 1:
            return latest
        settings = self._settings
        return average(
            self._matches, latest.source, visible.seeds.target, settings.output.top, settings.random_seed
        )


def _updated_similarity(
    similarity: csr_array | None,
    division: Division,
    solved: list[Solved],
    task: AlignmentTask,
    settings: Settings,
) -> csr_array | None:
    """The similarity weights (Eq. 4) after an iteration; None if the division does not use them."""
    if not settings.weighs_similarity:
        return None
    if similarity is None:
        similarity = csr_array((len(division), task.target.num_entities))
    return similarity_weights(
        similarity,
        [subtask.candidates for subtask in division.subtasks],
        [result.top_sums for result in solved],
        settings.division.alpha,
    )


def _assignment(matches: Matches, settings: Settings) -> Assignment:
    one_to_one, random_seed = settings.output.one_to_one, settings.random_seed
    return Assignment.of(matches, assign(matches, one_to_one=one_to_one, random_seed=random_seed))
