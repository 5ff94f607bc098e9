"""Measuring: wall time and peak memory, in rounds in which everything that is compared takes turns."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from benchmarks.common.progress import say
from divea.resources.machine import peak_memory

MIB = 1 << 20

Result = TypeVar("Result")


@dataclass(frozen=True)
class Measurement(Generic[Result]):
    """The cost of one piece of work."""

    seconds: float
    """Wall time."""
    cpu_seconds: float
    """CPU time of all threads of this process; other processes do not count."""
    memory: int
    """Peak bytes beyond what was held before: resident memory, or what torch allocates on a GPU."""
    process_memory: int
    """Peak bytes of resident memory of the whole process, from its start."""
    result: Result


def clock(work: Callable[[], object], device: str = "cpu", repeats: int = 1) -> float:
    """Wall seconds of one call, as the mean of `repeats` calls; waits for a GPU to finish."""
    _synchronise(device)
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    _synchronise(device)
    return (time.perf_counter() - start) / repeats


def measure(work: Callable[[], Result], device: str = "cpu") -> Measurement[Result]:
    """Time and memory of a call in this process.

    Memory is too low if the call can use blocks that earlier work has freed; see `measure_in_child`.
    """
    earlier_peak = peak_memory()
    before = _held(device)
    cpu_start, results = time.process_time(), list[Result]()
    seconds = clock(lambda: results.append(work()), device)
    cpu_seconds = time.process_time() - cpu_start
    process_memory = max(earlier_peak, peak_memory())
    return Measurement(seconds, cpu_seconds, _peak(device) - before, process_memory, results[0])


def measure_in_child(
    prepare: Callable[..., Callable[[], Result]], *arguments: Any, device: str = "cpu"
) -> Measurement[Result]:
    """Time and memory of a piece of work in a new process.

    Parameters
    ----------
    prepare
        A function of a module, not a lambda. It is called with the arguments in the new process, before the
        measurement starts, and returns the work to measure.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_prepare_and_measure, prepare, arguments, device).result()


def _prepare_and_measure(
    prepare: Callable[..., Callable[[], Result]], arguments: Sequence[Any], device: str
) -> Measurement[Result]:
    return measure(prepare(*arguments), device)


def _synchronise(device: str) -> None:
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def _held(device: str) -> int:
    """The bytes that are held now; the peak is counted from here on."""
    if device == "cuda":
        import torch

        _synchronise(device)  # also starts CUDA, which resetting does not
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    # On Linux this makes the peak what is held now. Elsewhere the earlier peak is used.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()


def _peak(device: str) -> int:
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated()
    return peak_memory()


@dataclass(frozen=True)
class Spread:
    """The median and the range of several measurements of the same figure.

    >>> Spread.of([3.0, 1.0, 2.0])
    Spread(median=2.0, low=1.0, high=3.0, rounds=3)
    """

    median: float
    low: float
    high: float
    rounds: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        found = list(values)
        return cls(statistics.median(found), min(found), max(found), len(found))


@dataclass(frozen=True)
class Rounds(Generic[Result]):
    """The measurements of one piece of work, one per round."""

    measurements: list[Measurement[Result]] = field(default_factory=list)

    @property
    def results(self) -> list[Result]:
        return [measurement.result for measurement in self.measurements]

    @property
    def seconds(self) -> Spread:
        return Spread.of(measurement.seconds for measurement in self.measurements)

    @property
    def memory(self) -> Spread:
        """Peak memory beyond what was held before, in MiB."""
        return Spread.of(measurement.memory / MIB for measurement in self.measurements)

    def times(self, other: Rounds[Any]) -> Spread:
        """How many times the seconds of another piece of work these are, round by round."""
        pairs = zip(self.measurements, other.measurements, strict=True)
        return Spread.of(own.seconds / theirs.seconds for own, theirs in pairs)


def in_turns(
    works: Mapping[str, Callable[[], Measurement[Result]]], rounds: int
) -> dict[str, Rounds[Result]]:
    """Measure every piece of work once per round, so that a slow moment of the machine slows all of them."""
    found: dict[str, Rounds[Result]] = {name: Rounds() for name in works}
    for number in range(rounds):
        for name, work in works.items():
            measurement = work()
            found[name].measurements.append(measurement)
            say(f"round {number + 1} of {rounds}: {name} {measurement.seconds:.3g} s")
    return found
