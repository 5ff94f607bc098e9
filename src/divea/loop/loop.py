"""The progressive loop (Algorithm 1 of the paper): divide, solve, learn, and repeat.

Every iteration divides the task, using what the previous one learned, and solves the subtasks. The result
becomes pseudo-seeds, which the next iteration's models learn from, and similarity weights, which keep
promising candidates in their subtasks.

Confidence is calibrated on seeds that the loop does not see. With many seeds, all iterations but the last run
without some of them. With few seeds, cross-validation first repeats the loop without each fold of the seeds;
the main loop then uses all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from divea.config import ModelSettings, Settings
from divea.division import Division, Feedback, Strategy, Subtask, make_strategy
from divea.division.discovery import similarity_weights
from divea.errors import CalibrationError, InputError
from divea.graphs import AlignmentTask, Links
from divea.graphs.features import Features, total_scores
from divea.loop import decoys
from divea.loop.assignment import Assignment, assign
from divea.loop.average import average
from divea.loop.checkpoint import NO_CHECKPOINTS, Checkpoint, Checkpoints
from divea.loop.confidence import (
    COLUMNS,
    FEWEST_PAIRS,
    Calibration,
    Judged,
    Numbers,
    calibrate,
    folds,
    hold_back,
    judge,
    pair_features,
)
from divea.loop.decoys import calibrate_without_seeds
from divea.loop.features import HERE, Computing, LoopFeatures, starting_pairs
from divea.loop.lists import IN_MEMORY, NO_LISTS, Blocks, Lists, Ranking, rank
from divea.loop.pseudo_seeds import choose_pseudo_seeds, without_anchors
from divea.types import Matches, Scores, Solved


@dataclass(frozen=True)
class Work:
    """The subtasks that an iteration wants solved."""

    iteration: int
    task: AlignmentTask
    """The task with the seeds that this iteration may see."""
    subtasks: tuple[Subtask, ...]
    pseudo_seeds: Links
    """The pairs that the previous iteration chose; in the first one, those that features are sure of."""
    features: Features = ()
    """The features of all entities, with their weights."""
    notes: tuple[str, ...] = ()
    """What the division decided, for the user."""
    fold: int = 0
    """The fold of the cross-validation, from 1; 0 for the main loop."""


Solver = Callable[[Work], Iterable[Solved]]
"""Solves all subtasks of an iteration and returns the results in their order."""

Divider = Callable[[Strategy, AlignmentTask, Feedback | None], Division]
"""Has a strategy divide a task, here or in another process."""


def divide_here(strategy: Strategy, task: AlignmentTask, feedback: Feedback | None) -> Division:
    """The division of a task, made in this process."""
    return strategy.divide(task, feedback)


@dataclass(frozen=True)
class Iteration:
    """What an iteration found, for observers."""

    number: int
    division: Division
    pseudo_seeds: Links
    """The pairs chosen for the next iteration; none after the last one."""
    lists: Lists = field(repr=False)
    """The ranked lists, averaged with those of earlier iterations."""

    @property
    def matches(self) -> Matches:
        """The ranked lists, in one array."""
        return self.lists.merged()


Observer = Callable[[Iteration], None]


@dataclass(frozen=True)
class Runtime:
    """What a loop runs on. None of it changes the result."""

    solve: Solver
    """Solves the subtasks of each iteration."""
    divide: Divider = divide_here
    """Divides the task in each iteration."""
    computing: Computing = HERE
    """The device and the memory for computing features, and what stores them."""
    checkpoints: Checkpoints = NO_CHECKPOINTS
    """Stores the state after each iteration. The loop continues from the latest one."""
    blocks: Blocks = IN_MEMORY
    """Processes ranked lists, and says where to store them. The caller removes the lists of the outcome."""


@dataclass(frozen=True)
class Outcome:
    """The result of the loop, in entity ids."""

    ranking: Ranking = field(repr=False)
    """The ranked targets of every unmatched source."""
    assignment: Assignment
    """The assigned pairs."""
    confidence: npt.NDArray[np.float64]
    """The probability that each assigned pair is correct; NaN if confidence could not be calibrated."""
    calibration: Calibration | None
    features: npt.NDArray[np.float64] = field(repr=False)
    """What the confidence of each assigned pair was computed from."""
    columns: tuple[str, ...]
    """The names of the columns of `features`."""
    iterations: int
    division: Division
    """The division of the last iteration."""
    learned: dict[str, Any] = field(default_factory=dict)
    """What was learned about the features, as plain JSON types."""
    without_seeds: bool = False
    """Whether the calibration comes from sure pairs and decoys instead of seeds."""

    @property
    def matches(self) -> Matches:
        """The ranked lists, in one array."""
        return self.ranking.lists.merged()


def run_loop(
    task: AlignmentTask, settings: Settings, runtime: Runtime, observe: Observer | None = None
) -> Outcome:
    """Align a task; the same task and settings give the same outcome.

    Raises CalibrationError if the settings have a confidence threshold and confidence cannot be calibrated.

    Parameters
    ----------
    observe
        Called with what each iteration found.
    """
    checkpoints = runtime.checkpoints
    calibration, features_before = _cross_validated(task, settings, runtime)
    visible, held_back = task, Links.from_pairs([])
    if settings.calibrates:
        visible, held_back = hold_back(task, settings.confidence.held_back, settings.random_seed)
    loop = _Loop(task, settings, runtime, before=features_before)
    del features_before  # it also holds features of the last fold, which the loop does not share
    calibration = loop.continue_from(visible) or calibration
    for number in range(loop.number, settings.iterations):
        # In the last iteration, seeds that were held back are seeds again.
        is_last = number == settings.iterations - 1
        loop.iterate(*((task, Links.from_pairs([])) if is_last else (visible, held_back)))
        if settings.calibrates and number == settings.iterations - 2:
            calibration = _calibrated(loop.judged(visible, held_back), settings, len(task.seeds))
        if not is_last:
            checkpoints.keep(0, loop.checkpoint(calibration))
        if observe is not None:
            observe(Iteration(number, loop.division, loop.pseudo_seeds, loop.ranking.lists))

    assignment = loop.assignment()
    confidence = np.full(len(assignment), np.nan)
    features = loop.pair_features(assignment, task)
    # Pairs that are all correct do not show what wrong ones look like. If all are wrong, seeds are right.
    without_seeds = False
    if loop.features and (calibration is None or calibration.judged.is_correct.all()):
        found, columns = loop.calibrated_without_seeds(task)
        if found is not None:
            without_seeds, calibration, features = True, found, columns
    if calibration is None and settings.confidence.has_threshold:
        raise CalibrationError(
            f"confidence cannot be calibrated: {len(task.seeds)} seeds are too few, and either too few pairs "
            "are certain from names and attribute values, or structure does not confirm them; add seeds, or "
            "leave the threshold out to get all pairs"
        )
    if calibration is not None:
        _require_columns(calibration.judged, features.shape[1])
        confidence = calibration(features)
    return Outcome(
        ranking=loop.ranking,
        assignment=assignment,
        confidence=confidence,
        calibration=calibration,
        features=features,
        columns=decoys.COLUMNS if without_seeds else (*COLUMNS, *loop.score_names),
        iterations=settings.iterations,
        division=loop.division,
        learned=loop.learned,
        without_seeds=without_seeds,
    )


def _cross_validated(
    task: AlignmentTask, settings: Settings, runtime: Runtime
) -> tuple[Calibration | None, LoopFeatures | None]:
    """A calibration on all seeds, each judged by a loop that did not see it, and the features of these loops.

    Both are None without folds.
    """
    if not settings.confidence.folds:
        return None, None
    checkpoints = runtime.checkpoints
    judged: list[Judged] = []
    features: LoopFeatures | None = None
    parts = folds(task, settings.confidence.folds, settings.random_seed)
    for fold, (visible, hidden) in enumerate(parts, start=1):
        found = checkpoints.judged(fold)
        if found is None:
            loop = _Loop(visible, settings, runtime, fold, features)
            features = loop.loop_features
            loop.continue_from(visible)
            while loop.number < settings.iterations:
                loop.iterate(visible, hidden)
                if loop.number < settings.iterations:
                    checkpoints.keep(fold, loop.checkpoint())
            found = loop.judged(visible, hidden)
            loop.remove_lists()
            checkpoints.keep_judged(fold, found)
        _require_columns(found, (judged or [found])[0].features.shape[1])
        judged.append(found)
    return _calibrated(Judged.join(judged), settings, len(task.seeds)), features


def _require_columns(judged: Judged, columns: int) -> None:
    """Raise InputError if judged pairs, perhaps from a checkpoint, have another number of columns."""
    if judged.features.shape[1] != columns:
        raise InputError("the checkpoints are those of another run: they have other columns")


def _calibrated(judged: Judged, settings: Settings, seeds: int) -> Calibration | None:
    calibration = calibrate(judged)
    if calibration is None and settings.confidence.has_threshold and not settings.features.used:
        raise CalibrationError(
            f"confidence cannot be calibrated: of {seeds} seeds, those that were hidden judge {len(judged)} "
            f"pairs, and {FEWEST_PAIRS} are needed; add seeds, or leave the threshold out to get all pairs"
        )
    return calibration


class _Loop:
    """The state of a loop: what each iteration passes on to the next.

    Parameters
    ----------
    fold
        The fold of the cross-validation, from 1; 0 for the main loop.
    before
        The features of another loop: see `LoopFeatures`.
    """

    def __init__(
        self,
        task: AlignmentTask,
        settings: Settings,
        runtime: Runtime,
        fold: int = 0,
        before: LoopFeatures | None = None,
    ):
        self._task, self._settings, self._runtime, self._fold = task, settings, runtime, fold
        self.loop_features = LoopFeatures(task, settings, runtime.computing, before)
        self._strategy = make_strategy(task, settings)
        self.number = 0
        """The number of the next iteration."""
        self._similarity: csr_array | None = None
        self._history = _History(settings)
        self._division: Division | None = None
        self.features: Features = ()
        """The features of the latest iteration."""
        self.pseudo_seeds = Links.from_pairs([])
        """The pairs chosen for the next iteration; none after the last one."""
        self._known = self.pseudo_seeds
        """The pseudo-seeds that the latest iteration learned from."""
        self.ranking = rank(NO_LISTS)
        """The ranked lists of the latest iteration, averaged with those before it."""

    def continue_from(self, visible: AlignmentTask) -> Calibration | None:
        """Continue after the latest checkpoint, if there is one, and return its calibration."""
        checkpoint = self._runtime.checkpoints.latest(self._fold, visible)
        if checkpoint is None:
            return None
        self.number = checkpoint.iteration + 1
        self._division, self.pseudo_seeds = checkpoint.division, checkpoint.pseudo_seeds
        self._similarity = checkpoint.similarity
        self.loop_features.restore(checkpoint.weights, checkpoint.scale)
        for number, lists in enumerate(checkpoint.lists, self.number - len(checkpoint.lists)):
            self._history.add(lists, self._settings.model_at(number))
        return checkpoint.calibration

    def checkpoint(self, calibration: Calibration | None = None) -> Checkpoint:
        """The state after the latest iteration, with the calibration of `run_loop` if there is one."""
        return Checkpoint(
            self.number - 1,
            self.division,
            self.pseudo_seeds,
            self._similarity,
            dict(self.loop_features.weights),
            self.loop_features.scale,
            calibration,
        )

    def iterate(self, visible: AlignmentTask, hidden: Links) -> None:
        """Divide, solve and learn once, with the seeds of `visible`; those of `hidden` only judge."""
        settings, number, checkpoints = self._settings, self.number, self._runtime.checkpoints
        self.number += 1
        self.remove_lists()
        pseudo_seeds = without_anchors(self.pseudo_seeds, visible.seeds)
        features = self.features = self.loop_features.at(visible, pseudo_seeds, hidden)
        if number == 0 and (features or not len(visible.seeds)):
            pseudo_seeds = without_anchors(starting_pairs(visible, features), visible.seeds)
        self._known = pseudo_seeds
        division = checkpoints.division(self._fold, number, visible)
        if division is None:
            division = self._divide(visible, pseudo_seeds)
            checkpoints.keep_division(self._fold, number, division)
        self._division = division
        notes = (*division.notes, *self.loop_features.notes)
        work = Work(number, visible, division.subtasks, pseudo_seeds, features, notes, self._fold)
        solved = list(self._runtime.solve(work))
        top_sums = [result.top_sums for result in solved]
        self._history.add(Lists.of([result.matches for result in solved]), settings.model_at(number))
        self.ranking = self._history.averaged(visible, self._runtime.blocks)
        self.pseudo_seeds = Links.from_pairs([])
        if self.number < settings.iterations:
            self.pseudo_seeds = choose_pseudo_seeds(
                self.ranking.first_pairs,
                threshold=settings.matching.threshold,
                random_seed=settings.random_seed,
            )
            self._similarity = _updated_similarity(self._similarity, division, top_sums, self._task, settings)

    def _divide(self, visible: AlignmentTask, pseudo_seeds: Links) -> Division:
        feedback = None
        if self._division is not None or len(pseudo_seeds):
            listed = total_scores(self.features)
            feedback = Feedback(self._division, pseudo_seeds, self._similarity, listed)
        return self._runtime.divide(self._strategy, visible, feedback)

    @property
    def division(self) -> Division:
        """The division of the latest iteration."""
        assert self._division is not None
        return self._division

    def remove_lists(self) -> None:
        """Remove the averaged lists of the latest iteration; the next iteration makes new ones."""
        self.ranking.lists.remove()
        self.ranking = rank(NO_LISTS)

    def assignment(self) -> Assignment:
        """The assigned pairs."""
        return assign(
            self.ranking,
            self._runtime.blocks,
            one_to_one=self._settings.output.one_to_one,
            random_seed=self._settings.random_seed,
        )

    @property
    def learned(self) -> dict[str, Any]:
        """What was learned about the features, as plain JSON types."""
        return self.loop_features.describe(self.features)

    def judged(self, visible: AlignmentTask, hidden: Links) -> Judged:
        """The assigned pairs that hidden seeds judge; the seeds of `visible` are known."""
        assignment = self.assignment()
        return judge(self.pair_features(assignment, visible), assignment, hidden)

    def pair_features(self, assignment: Assignment, visible: AlignmentTask) -> Numbers:
        """What the confidence of the assigned pairs is computed from."""
        return pair_features(assignment, visible, self.features, self.score_names)

    @property
    def score_names(self) -> tuple[str, ...]:
        """The names of all features that score pairs, including those that the latest iteration left out."""
        return self.loop_features.score_names

    def calibrated_without_seeds(self, task: AlignmentTask) -> tuple[Calibration | None, Numbers]:
        """A calibration on decoys, None if it is not possible, and the columns that it applies to."""
        structure = self.loop_features.structure(task, self._known)
        random_seed = self._settings.random_seed
        return calibrate_without_seeds(self.assignment(), task, self.features, structure, random_seed)


class _History:
    """The lists of the latest iterations with the same model: scores of two models are not comparable."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._model: ModelSettings | None = None
        self._lists: list[Lists] = []

    def add(self, lists: Lists, model: ModelSettings) -> None:
        if self._model is None or not model.is_same_model(self._model):
            self._lists.clear()
        self._model = model
        self._lists = [*self._lists, lists][-self._settings.matching.average :]

    def averaged(self, visible: AlignmentTask, blocks: Blocks) -> Ranking:
        """The mean scores, as ranked lists of the latest iteration's sources."""
        if len(self._lists) == 1:
            return rank(self._lists[0], blocks)
        settings = self._settings
        return average(self._lists, visible.seeds.target, settings.output.top, settings.random_seed, blocks)


def _updated_similarity(
    similarity: csr_array | None,
    division: Division,
    top_sums: list[Scores],
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
        top_sums,
        settings.division.alpha,
    )
