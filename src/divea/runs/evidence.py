"""What the confidence of each assigned pair was computed from, so that it can be explained later.

It is a table of numbers, mapped from disk: explaining one pair reads a few pages of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from divea.errors import InputError
from divea.graphs import AlignmentTask
from divea.io import require_regular
from divea.types import Ids

if TYPE_CHECKING:
    from divea.loop.loop import Outcome

_IDS = pa.schema([("source", pa.int32()), ("target", pa.int32()), ("confidence", pa.float64())])
_REGRESSION = b"regression"

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Regression:
    """The logistic regression that gave the confidence: one term for each column, and an intercept."""

    columns: tuple[str, ...]
    mean: Numbers
    deviation: Numbers
    weights: Numbers
    intercept: float

    def terms(self, values: Numbers) -> Numbers:
        """What each column adds to the log odds of a pair."""
        return (values - self.mean) / self.deviation * self.weights


@dataclass(frozen=True)
class Evidence:
    """The assigned pairs of a run, sorted by source, with what their confidence was computed from."""

    source: Ids
    target: Ids
    confidence: Numbers
    """NaN if it could not be calibrated."""
    values: tuple[npt.NDArray[np.float32], ...]
    """The columns of the regression."""
    regression: Regression | None

    def row(self, source: int) -> int | None:
        """The row of a source entity; None if no target is assigned to it."""
        place = int(np.searchsorted(self.source, source))
        return place if place < len(self.source) and self.source[place] == source else None

    def values_of(self, row: int) -> Numbers:
        """The columns of one pair."""
        return np.array([column[row] for column in self.values], dtype=np.float64)


def write_evidence(outcome: Outcome, path: Path) -> None:
    """Write the evidence of an outcome as an Arrow file. The same outcome gives the same bytes."""
    assignment, calibration = outcome.assignment, outcome.calibration
    columns = [assignment.source, assignment.target, outcome.confidence]
    schema, regression = _IDS, None
    if calibration is not None:
        columns += list(outcome.features.astype(np.float32).T)
        schema = pa.schema([*_IDS, *((name, pa.float32()) for name in outcome.columns)])
        regression = {
            "mean": calibration.mean.tolist(),
            "deviation": calibration.deviation.tolist(),
            "weights": calibration.weights.tolist(),
            "intercept": calibration.intercept,
        }
    schema = schema.with_metadata({_REGRESSION: json.dumps(regression).encode()})
    table = pa.table([np.ascontiguousarray(column) for column in columns], schema=schema)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_table(table)


def read_evidence(path: Path, task: AlignmentTask) -> Evidence:
    """The evidence of a run, mapped from disk. Raises InputError if it does not belong to the task."""
    require_regular(path)
    try:
        with pa.memory_map(str(path)) as file:
            table = pa.ipc.open_file(file).read_all().combine_chunks()
        schema = table.schema
        if schema.names[:3] != _IDS.names or schema.types[:3] != _IDS.types:
            raise ValueError
        source, target, confidence, *values = (column.to_numpy() for column in table.columns)
        regression = _regression(tuple(schema.names[3:]), (schema.metadata or {})[_REGRESSION])
        if not _is_valid(source, target, task) or any(column.dtype != np.float32 for column in values):
            raise ValueError
    except (pa.ArrowInvalid, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError("holds no evidence of this run", path=path) from error
    return Evidence(source, target, confidence, tuple(values), regression)


def _is_valid(source: Ids, target: Ids, task: AlignmentTask) -> bool:
    sides = (source, task.source.num_entities), (target, task.target.num_entities)
    inside = all(len(ids) == 0 or (ids.min() >= 0 and ids.max() < size) for ids, size in sides)
    return inside and bool((np.diff(source) > 0).all())


def _regression(columns: tuple[str, ...], text: bytes) -> Regression | None:
    found = json.loads(text)
    if found is None:
        return None
    mean, deviation, weights = (
        np.array(found[name], dtype=np.float64) for name in ("mean", "deviation", "weights")
    )
    if not mean.shape == deviation.shape == weights.shape == (len(columns),) or not (deviation > 0).all():
        raise ValueError
    return Regression(columns, mean, deviation, weights, float(found["intercept"]))
