"""Executors: they run the jobs of a run, in this process, in worker processes or on a cluster."""

from divea.config.executor import ExecutorSettings
from divea.executors.base import Done, Executor, Failed, FailureKind, Steps, choose_executor, make_executor
from divea.executors.check import check_executor
from divea.executors.job import Job, make_jobs

__all__ = [
    "Done",
    "Executor",
    "ExecutorSettings",
    "Failed",
    "FailureKind",
    "Job",
    "Steps",
    "check_executor",
    "choose_executor",
    "make_executor",
    "make_jobs",
]
