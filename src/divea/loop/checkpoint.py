"""Checkpoints: what a loop passes on from one iteration to the next, so that it can continue from there."""

from __future__ import annotations

from dataclasses import dataclass, field

from scipy.sparse import csr_array

from divea.division import Division
from divea.graphs import AlignmentTask, Links
from divea.loop.confidence import Calibration, Judged
from divea.loop.lists import Lists


@dataclass(frozen=True)
class Checkpoint:
    """The state of a loop after an iteration."""

    iteration: int
    division: Division
    pseudo_seeds: Links
    """The pairs chosen for the next iteration."""
    similarity: csr_array | None
    """The similarity weights (Eq. 4); None if the division does not use them."""
    weights: dict[str, float]
    """The weights of the features."""
    scale: float
    """The factor by which features count more because structure is weak; 1 if it is not."""
    calibration: Calibration | None
    """None before the iteration that calibrates."""
    lists: tuple[Lists, ...] = field(default=(), repr=False)
    """The ranked lists of the latest iterations that the next one averages over, in order."""


class Checkpoints:
    """Stores checkpoints. This class stores none; `RunCheckpoints` overrides every method.

    `fold` is the fold of the cross-validation, from 1; 0 is the main loop.
    """

    def latest(self, fold: int, task: AlignmentTask) -> Checkpoint | None:
        """The checkpoint of the latest iteration, if there is one. `task` is what its iterations saw."""
        return None

    def keep(self, fold: int, checkpoint: Checkpoint) -> None:
        """Keep the state after an iteration."""

    def division(self, fold: int, iteration: int, task: AlignmentTask) -> Division | None:
        """The division that was kept for an iteration after the latest checkpoint, if there is one."""
        return None

    def keep_division(self, fold: int, iteration: int, division: Division) -> None:
        """Keep the division of an iteration before it is solved."""

    def judged(self, fold: int) -> Judged | None:
        """The judged pairs of a fold; None if the fold has not finished."""
        return None

    def keep_judged(self, fold: int, judged: Judged) -> None:
        """Keep the judged pairs of a finished fold."""


NO_CHECKPOINTS = Checkpoints()
