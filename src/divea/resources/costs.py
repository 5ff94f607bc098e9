"""The cost model: what a subtask costs a model on a device, in bytes and in seconds.

Costs are `fixed + a entities + b triples`, fitted to what `benchmarks/calibration/cost_model.py` measured. A
model or device that was not measured has no costs: nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from divea.errors import InputError
from divea.graphs import AlignmentTask

EDGES_KEPT = 0.9
"""Share of a graph's triples per entity that a subtask keeps; between .85 and .95 on DBP15K and at 2M."""

DIVISION_SECONDS_PER_ENTITY = 1.0e-5
"""CPU seconds of a division per entity of both graphs; benchmarks/speed/divide.py at 2M."""


@dataclass(frozen=True)
class Linear:
    """fixed + entities x n + triples x m."""

    fixed: float
    entities: float
    triples: float

    @classmethod
    def sum(cls, parts: Iterable[Linear]) -> Linear:
        """The costs of all parts together."""
        columns = zip(*((part.fixed, part.entities, part.triples) for part in parts), strict=True)
        return cls(*map(sum, columns))

    def at(self, entities: float, triples: float) -> float:
        return self.fixed + self.entities * entities + self.triples * triples


@dataclass(frozen=True)
class Cost:
    """What a subtask costs."""

    memory: Linear
    seconds: Linear


COSTS = {
    ("rrea", "cpu"): Cost(Linear(8.97e7, 3.24e4, 1.89e3), Linear(0, 2.32e-2, 1.55e-3)),
    ("gcn-align", "cpu"): Cost(Linear(8.88e7, 1.95e4, 0), Linear(0.267, 6.46e-3, 8.36e-5)),
    ("dual-amn", "cpu"): Cost(Linear(1.10e8, 7.68e4, 851), Linear(0, 3.86e-3, 3.46e-4)),
    ("label-propagation", "cpu"): Cost(Linear(1.50e8, 4.83e4, 0), Linear(0, 1.59e-3, 1.10e-4)),
    ("rrea", "cuda"): Cost(Linear(7.56e7, 1.21e4, 3.87e3), Linear(11.6, 0, 0)),
    ("gcn-align", "cuda"): Cost(Linear(8.62e5, 3.93e3, 509), Linear(4.89, 0, 5.15e-5)),
    ("dual-amn", "cuda"): Cost(Linear(6.77e7, 4.12e4, 0), Linear(0.995, 0, 1.39e-6)),
    ("label-propagation", "cuda"): Cost(Linear(5.64e7, 4.96e4, 801), Linear(0.182, 0, 2.59e-6)),
}
"""Measured with the models' published options (label propagation: those of `--preset best`), on one CPU core
and on one NVIDIA H200, which small subtasks do not fill. Memory on the CPU has a margin of a tenth on top of
the fit, because a run with too little memory fails; that of label propagation is close to the highest value
measured. docs/notes/division.md says how good each fit is."""


def is_measured(model: str, device: str) -> bool:
    """Whether the costs of a model, or of all models of an ensemble, were measured on a device."""
    return all((name, device) in COSTS for name in model.split("+"))


def cost_of(model: str, device: str) -> Cost:
    """The measured costs of a model on a device; those of an ensemble are the sum over its models.

    >>> alone, both = cost_of("rrea", "cpu"), cost_of("rrea+dual-amn", "cpu")
    >>> both.memory.at(10_000, 40_000) > alone.memory.at(10_000, 40_000)
    True
    """
    if not is_measured(model, device):
        known = ", ".join(f"{name} on {place}" for name, place in COSTS)
        raise InputError(f"no measured costs of {model!r} on {device!r}; there are {known}")
    costs = [COSTS[name, device] for name in model.split("+")]
    return Cost(Linear.sum(cost.memory for cost in costs), Linear.sum(cost.seconds for cost in costs))


def triples_per_entity(task: AlignmentTask) -> float:
    """Triples per entity that a subtask of this task is expected to keep."""
    entities = task.source.num_entities + task.target.num_entities
    return EDGES_KEPT * (task.source.num_triples + task.target.num_triples) / max(entities, 1)
