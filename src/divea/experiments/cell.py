"""A cell: one run of one method on one split of one data set. Experiments are lists of cells."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from divea.config.effects import SIZED_DIVISIONS
from divea.io import checksum


@dataclass(frozen=True)
class Cell:
    """What to run, and the names that it has in tables."""

    pair: str
    """Folder of the data set, `zh_en`."""
    percent: int
    """Percentage of the links that are seeds."""
    split: int
    method: str
    """The method's name in tables, `CPS (semi)`."""
    scale: str
    """The rival whose mean subtask size DivEA uses as S: `cps` or `sbp`. Rivals have no size limit."""
    model: str
    subtasks: int
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings as nested values, without the model's name, N, S and the random seed."""
    stacked: bool = True
    """Whether a GPU trains subtasks together if they fit; False trains one at a time, to measure it."""
    validation: float = 0.0
    """Share of the seeds that take the place of the test links, which are then not read."""

    @property
    def is_sized(self) -> bool:
        """Whether the division keeps a size limit."""
        return self.settings["division"]["name"] in SIZED_DIVISIONS and self.subtasks > 1

    @property
    def uses_names(self) -> bool:
        """Whether the names of entities are used."""
        return "names" in self.settings["features"]["name"].split("+")

    @property
    def key(self) -> str:
        """A checksum of everything that decides the result and of nothing else, so that recipes share the
        runs of equal cells.
        """
        found = asdict(self)
        del found["method"]
        if not self.is_sized:
            del found["scale"]
        return checksum(json.dumps(found, sort_keys=True))[:16]

    def __str__(self) -> str:
        return f"{self.pair} {self.percent}/{self.split} {self.method} + {self.model}, N = {self.subtasks}"
