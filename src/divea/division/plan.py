"""How many subtasks of what size fit a memory budget, and how long it will take.

A subtask costs a model  fixed + a entities + b triples,  in bytes and in seconds. The table holds what
`benchmarks/cost_model.py` measured; a model or device that was not measured is refused, not guessed.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from divea.division.shares import CONTEXT_SHARES
from divea.errors import InputError
from divea.graphs import AlignmentTask

SAFETY = 0.9
"""Share of the budget that a plan uses; the rest is for what the fit misses."""

EDGES_KEPT = 0.9
"""Share of a graph's triples per entity that a subtask keeps; 2M and DBP15K lie between .85 and .95."""

SECONDS_PER_ENTITY = 1.0e-5
"""Of the division itself, per entity of both graphs, CPU seconds; benchmarks/divide.py at 2M."""


@dataclass(frozen=True)
class Linear:
    """fixed + entities x n + triples x m."""

    fixed: float
    entities: float
    triples: float

    def at(self, entities: float, triples: float) -> float:
        return self.fixed + self.entities * entities + self.triples * triples


@dataclass(frozen=True)
class Cost:
    """What a subtask costs a model on a device."""

    memory: Linear
    seconds: Linear


COSTS = {
    ("rrea", "cpu"): Cost(Linear(8.91e7, 3.57e4, 0), Linear(43.9, 0, 0.0154)),
    ("gcn-align", "cpu"): Cost(Linear(7.79e7, 0, 5.32e3), Linear(0, 0, 4.64e-3)),
    ("dual-amn", "cpu"): Cost(Linear(8.56e7, 1.40e4, 2.96e4), Linear(0, 0, 2.86e-3)),
    ("label-propagation", "cpu"): Cost(Linear(1.50e8, 4.83e4, 0), Linear(0.275, 1.92e-3, 0)),
    ("rrea", "cuda"): Cost(Linear(7.56e7, 1.21e4, 3.87e3), Linear(11.6, 0, 0)),
    ("gcn-align", "cuda"): Cost(Linear(8.62e5, 3.93e3, 509), Linear(4.89, 0, 5.15e-5)),
    ("dual-amn", "cuda"): Cost(Linear(6.77e7, 4.12e4, 0), Linear(0.995, 0, 1.39e-6)),
    ("label-propagation", "cuda"): Cost(Linear(5.64e7, 4.96e4, 801), Linear(0.182, 0, 2.59e-6)),
}
"""Measured with default options, on one CPU core and on one NVIDIA H200, which small subtasks do not fill;
docs/division.md says how well each fits."""


@dataclass(frozen=True)
class Plan:
    """N subtasks of at most S entities, what each needs, and the time of one iteration."""

    parts: int
    size: int
    memory: float
    division_seconds: float
    model_seconds: float


def make_plan(task: AlignmentTask, memory: int, *, model: str = "rrea", device: str = "cpu") -> Plan:
    """The fewest and largest subtasks whose predicted memory stays within the budget."""
    cost = COSTS.get((model, device))
    if cost is None:
        known = ", ".join(f"{name} on {place}" for name, place in COSTS)
        raise InputError(f"no measured costs of {model!r} on {device!r}; there are {known}")
    entities = task.source.num_entities + task.target.num_entities
    density = EDGES_KEPT * (task.source.num_triples + task.target.num_triples) / max(entities, 1)
    per_entity = cost.memory.entities + cost.memory.triples * density
    size = int((SAFETY * memory - cost.memory.fixed) / per_entity)
    if size < 2:
        least = (cost.memory.fixed + 2 * per_entity) / SAFETY / 2**20
        raise InputError(f"{model} on {device} takes {least:.0f} MiB for the smallest subtask")
    size = min(size, entities)
    parts = 1 if size == entities else parts_for(task, size)
    triples = size * density
    seconds = parts * cost.seconds.at(size, triples)
    return Plan(parts, size, cost.memory.at(size, triples), SECONDS_PER_ENTITY * entities, seconds)


def parts_for(task: AlignmentTask, size: int) -> int:
    """How many subtasks of at most `size` entities hold all that is to be matched, context included."""
    # Unmatched entities take what a typical source context leaves of the source's half.
    context = CONTEXT_SHARES[len(CONTEXT_SHARES) // 2]
    room = size * (0.5 - context / 2)
    return max(math.ceil(len(task.unmatched_source) / room), 2)


def parse_memory(text: str) -> int:
    """Bytes from a size as people write it.

    >>> parse_memory("4GiB"), parse_memory("500 MB")
    (4294967296, 500000000)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", text, re.IGNORECASE)
    if match is None:
        raise InputError(f"not a memory size: {text!r}; write 4GiB or 500MB")
    number, prefix, binary = match.groups()
    power = " kmgt".index(prefix.lower() or " ")
    return int(float(number) * (1024 if binary else 1000) ** power)
