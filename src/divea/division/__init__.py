"""Division of a task into subtasks that fit a size limit: DivEA's, ours and the rivals', under one
interface.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from divea.lazy import lazy_exports

if TYPE_CHECKING:
    from divea.division.check import check_division
    from divea.division.divea import DivEA, RandomGroups
    from divea.division.files import load_division, open_groups, write_division
    from divea.division.joint import Joint
    from divea.division.rivals import CPS, ISBP, SBP
    from divea.division.strategy import Strategy, Whole, make_strategy
    from divea.division.subtask import Division, Feedback, Shares, Subtask

__all__ = [
    "CPS",
    "ISBP",
    "SBP",
    "DivEA",
    "Division",
    "Feedback",
    "Joint",
    "RandomGroups",
    "Shares",
    "Strategy",
    "Subtask",
    "Whole",
    "check_division",
    "load_division",
    "make_strategy",
    "open_groups",
    "write_division",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "CPS": "divea.division.rivals",
        "ISBP": "divea.division.rivals",
        "SBP": "divea.division.rivals",
        "DivEA": "divea.division.divea",
        "Division": "divea.division.subtask",
        "Feedback": "divea.division.subtask",
        "Joint": "divea.division.joint",
        "RandomGroups": "divea.division.divea",
        "Shares": "divea.division.subtask",
        "Strategy": "divea.division.strategy",
        "Subtask": "divea.division.subtask",
        "Whole": "divea.division.strategy",
        "check_division": "divea.division.check",
        "load_division": "divea.division.files",
        "make_strategy": "divea.division.strategy",
        "open_groups": "divea.division.files",
        "write_division": "divea.division.files",
    },
)
