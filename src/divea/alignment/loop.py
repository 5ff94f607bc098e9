"""The progressive loop (Algorithm 1 of the paper): divide, solve, learn, and again.

In every iteration the division is made in view of what the one before learned; the subtasks are solved;
what came out is turned into pseudo-seeds, which the next iteration's models learn from, and into weights
that keep promising candidates in. All but the last iteration may run without a part of the seeds, on
which confidence is calibrated; the last one has them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from divea.alignment.confidence import Calibration, Given, calibrate, hold_back, signs_of
from divea.alignment.merge import assign, average, merge
from divea.alignment.pseudo_seeds import choose_pseudo_seeds, without_anchors
from divea.alignment.settings import Settings
from divea.alignment.solve import Solved
from divea.division import Division, Feedback, Strategy, Subtask, division_strategy
from divea.division.discovery import similarity_weights
from divea.graphs import AlignmentTask, Links
from divea.graphs.labels import Ids
from divea.matching import Matches


@dataclass(frozen=True)
class Work:
    """What an iteration asks to be solved. The settings say by which model."""

    iteration: int
    task: AlignmentTask
    subtasks: tuple[Subtask, ...]
    pseudo_seeds: Links


Solver = Callable[[Work], Iterable[Solved]]
"""Solves all subtasks of an iteration, and gives the results in their order."""


@dataclass(frozen=True)
class Iteration:
    """What an iteration found, for whoever watches."""

    number: int
    division: Division
    pseudo_seeds: Links
    matches: Matches = field(repr=False)


Watcher = Callable[[Iteration], None]


@dataclass(frozen=True)
class Outcome:
    """The result of the loop, in ids."""

    matches: Matches
    """Every unmatched source with its ranked list of targets."""
    assigned: Ids
    """The target given to each source, -1 for none."""
    confidence: npt.NDArray[np.float64]
    """The probability that the given pair of a source is right, at its place in the list; NaN elsewhere, and
    everywhere if it could not be calibrated."""
    calibration: Calibration | None
    subtask: Ids
    iteration: int
    division: Division


def run_loop(
    task: AlignmentTask, settings: Settings, solver: Solver, watch: Watcher | None = None
) -> Outcome:
    """Align a task; the same task, settings and solver give the same outcome."""
    strategy = strategy_of(task, settings)
    held = Links.from_pairs([])
    known = task
    if settings.calibrates:
        known, held = hold_back(task, settings.held_back, settings.seed)
    pseudo_seeds, feedback = Links.from_pairs([]), None
    weights: csr_array | None = None
    calibration: Calibration | None = None
    history: list[Matches] = []
    for number in range(settings.iterations):
        is_last = number == settings.iterations - 1
        if is_last:
            known, pseudo_seeds = task, without_anchors(pseudo_seeds, task.seeds)
        if feedback is not None:
            feedback = Feedback(feedback.previous, pseudo_seeds, weights)
        division = strategy.divide(known, feedback)
        trusted = Links.from_pairs([]) if settings.supervised else pseudo_seeds
        solved = list(solver(Work(number, known, division.subtasks, trusted)))
        latest, subtask = merge([item.matches for item in solved])
        if number and settings.model_at(number) != settings.model_at(number - 1):
            history.clear()
        history.append(latest)
        matches = latest
        if settings.average > 1 and len(history) > 1:
            recent = history[-settings.average :]
            matches = average(recent, latest.source, known.seeds.target, settings.top, settings.seed)
        if not is_last:
            pseudo_seeds = choose_pseudo_seeds(matches, threshold=settings.threshold, seed=settings.seed)
            if settings.weighs_candidates:
                weights = similarity_weights(
                    weights if weights is not None else csr_array((len(division), task.target.num_entities)),
                    [part.candidates for part in division.subtasks],
                    [item.top_sums for item in solved],
                    settings.alpha,
                )
            feedback = Feedback(division, pseudo_seeds, weights)
        if settings.calibrates and number == settings.iterations - 2:
            given = Given.of(matches, assign(matches, globally=settings.one_to_one, seed=settings.seed))
            signs = signs_of(given, matches, known)
            calibration = calibrate(signs, given.source, given.target, held)
        if watch is not None:
            watch(Iteration(number, division, pseudo_seeds, matches))
    assigned = assign(matches, globally=settings.one_to_one, seed=settings.seed)
    confidence = np.full(matches.score.shape, np.nan)
    if calibration is not None:
        given = Given.of(matches, assigned)
        confidence[given.row, given.place] = calibration(signs_of(given, matches, task))
    return Outcome(matches, assigned, confidence, calibration, subtask, number + 1, division)


def strategy_of(task: AlignmentTask, settings: Settings) -> Strategy:
    """The division that the settings name; one subtask is the whole graph."""
    if settings.subtasks == 1:
        return division_strategy("whole", 1)
    entities = task.source.num_entities + task.target.num_entities
    size = settings.size or entities // settings.subtasks
    more = settings.division_options
    return division_strategy(settings.division, settings.subtasks, size, seed=settings.seed, **more)
