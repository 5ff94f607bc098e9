"""Settings of the executor: they decide the speed of a run, never its result."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field, field_validator, model_validator

from divea.config.group import NamedGroup
from divea.registry import EXECUTORS


class ExecutorSettings(NamedGroup):
    """Which executor solves the subtasks, and with how many workers.

    >>> ExecutorSettings(name="local", workers=4).workers
    4
    """

    named: ClassVar[str] = "executor"

    name: str = "auto"
    """inline (threads of this process), local (worker processes) or ray; auto: local for large tasks."""
    workers: int | None = Field(default=None, ge=1, le=100_000)
    """Number of worker processes; null: one per core, or up to two per GPU."""
    address: str | None = None
    """Address of a Ray cluster, auto or host:port; null: start a cluster on this machine."""
    timeout: float | None = Field(default=None, gt=0, le=31_536_000)
    """Seconds after which a job counts as failed; null: never."""
    gpu_share: float = Field(default=1.0, gt=0, le=1)
    """Share of a GPU that a job takes on a Ray cluster: with .25, four jobs share one."""

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        known = ["auto", *EXECUTORS.names()]
        if name not in known:
            raise ValueError(f"unknown executor {name!r}; choose from {', '.join(known)}")
        return name

    @field_validator("address")
    @classmethod
    def _host_and_port(cls, address: str | None) -> str | None:
        if address is None or address == "auto":
            return address
        found = re.fullmatch(r"(?:[^\s:/\[\]]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})", address)
        if found is None or not 1024 <= int(found[1]) <= 65535:
            raise ValueError(f"expected auto, or host:port with a port from 1024 to 65535; found {address!r}")
        return address

    @model_validator(mode="after")
    def _every_setting_counts(self) -> ExecutorSettings:
        for name, reason in self._without_effect():
            if name in self.model_fields_set and getattr(self, name) is not None:
                raise ValueError(f"{name} has no effect: {reason}")
        return self

    def _without_effect(self) -> Iterator[tuple[str, str]]:
        if self.name in ("auto", "inline", "local"):
            for name in ("address", "gpu_share"):
                yield name, f"the executor is {self.name!r}, and it is for 'ray'"
        if self.name == "inline":
            yield "workers", "the executor 'inline' is this process alone"
            yield "timeout", "the executor 'inline' cannot stop a job"
