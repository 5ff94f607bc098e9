"""Executors: who does the jobs of a run, from this very process to a cluster."""

from divea.run.executors.check import check_executor
from divea.run.executors.interface import Executor
from divea.run.executors.resolver import NAMES, make_executor

__all__ = ["NAMES", "Executor", "check_executor", "make_executor"]
