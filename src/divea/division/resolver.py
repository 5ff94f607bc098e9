"""Names of division strategies, for the command line, configurations and docs alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from divea.division.cps import CPS
from divea.division.divea import DivEA
from divea.division.joint import Joint
from divea.division.sbp import SBP
from divea.division.subtask import Division, Feedback
from divea.division.whole import Whole
from divea.errors import InputError
from divea.graphs import AlignmentTask


class Strategy(Protocol):
    """Whatever divides a task; `check_division` holds the contract of what it yields."""

    def divide(self, task: AlignmentTask, feedback: Feedback | None = None) -> Division:
        """The subtasks, in view of what an earlier iteration learned."""


STRATEGIES: dict[str, Callable[..., Strategy]] = {
    "divea": lambda parts, size, seed=0, **more: DivEA(parts, size, seed, **more),
    "joint": lambda parts, size, seed=0, **more: Joint(DivEA(parts, size, seed, **more)),
    "random": lambda parts, size, seed=0, **more: DivEA(parts, size, seed, partitioner="random", **more),
    "cps": lambda parts, size=None, seed=0: CPS(parts, seed),
    "sbp": lambda parts, size=None, seed=0: SBP(parts, seed),
    "isbp": lambda parts, size=None, seed=0: SBP(parts, seed, iterative=True),
    "whole": lambda parts=1, size=None, seed=0: Whole(),
}

SIZED = ("divea", "joint", "random")
"""Those that keep a size limit, and have the settings of `DivEA`."""


def division_strategy(
    name: str, parts: int, size: int | None = None, *, seed: int = 0, **more: Any
) -> Strategy:
    """A strategy by name; `more` are settings of `DivEA`.

    >>> division_strategy("cps", 5)
    CPS(parts=5, seed=0)
    """
    if name not in STRATEGIES:
        raise InputError(f"unknown division {name!r}; choose from {', '.join(STRATEGIES)}")
    if size is None and name in SIZED:
        raise InputError(f"the division {name!r} needs a size limit S")
    if more and name not in SIZED:
        raise InputError(f"the division {name!r} has no setting {', '.join(more)}")
    return STRATEGIES[name](parts, size, seed=seed, **more)
