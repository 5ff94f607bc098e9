"""Division of a task into subtasks that fit a size limit: ours, and the rivals, under one interface."""

from divea.division.check import check_division
from divea.division.cps import CPS
from divea.division.divea import DivEA
from divea.division.evidence import EvidenceSettings
from divea.division.files import load_division, write_division
from divea.division.joint import Joint
from divea.division.resolver import STRATEGIES, Strategy, division_strategy
from divea.division.sbp import SBP
from divea.division.subtask import Division, Feedback, Shares, Subtask
from divea.division.whole import Whole

__all__ = [
    "CPS",
    "SBP",
    "STRATEGIES",
    "DivEA",
    "Division",
    "EvidenceSettings",
    "Feedback",
    "Joint",
    "Shares",
    "Strategy",
    "Subtask",
    "Whole",
    "check_division",
    "division_strategy",
    "load_division",
    "write_division",
]
