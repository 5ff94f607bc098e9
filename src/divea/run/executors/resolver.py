"""Executors by name, for the command line, the API and docs alike."""

from __future__ import annotations

from divea.errors import InputError
from divea.run.executors.interface import Executor

NAMES = ("inline", "local", "ray")


def make_executor(
    name: str,
    *,
    workers: int | None = None,
    address: str | None = None,
    gpu_share: float = 1.0,
    timeout: float | None = None,
) -> Executor:
    """The executor of that name; each takes of the settings what concerns it.

    >>> make_executor("inline")
    Inline()
    """
    if name not in NAMES:
        raise InputError(f"unknown executor {name!r}; choose from {', '.join(NAMES)}")
    if workers is not None and workers < 1:
        raise InputError(f"workers must be at least 1, not {workers}")
    if name == "local":
        from divea.run.executors.local import Local

        return Local(workers, timeout=timeout)
    if name == "ray":
        from divea.run.executors.ray import Ray

        return Ray(address, workers=workers, gpu_share=gpu_share, timeout=timeout)
    from divea.run.executors.inline import Inline

    return Inline()
