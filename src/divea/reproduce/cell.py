"""A cell: one run of one method on one split of one data set. Experiments are lists of cells."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from divea.division.resolver import SIZED


@dataclass(frozen=True)
class Cell:
    """What to run, and the words that it is known by in tables."""

    pair: str
    """Folder of the data set, `zh_en`."""
    percent: int
    split: int
    method: str
    """As tables call it, `CPS (semi)`."""
    scale: str
    """Whose subtask size DivEA has: `cps` or `sbp`. Rivals have the sizes that come out of them."""
    model: str
    subtasks: int
    settings: dict[str, Any] = field(default_factory=dict)
    """Of `divea.alignment.settings.Settings`, all but the model's name, N, S and the seed."""
    stacked: bool = True
    """Whether subtasks are trained together where they fit; one at a time to measure a single one."""
    validation: float = 0.0
    """Share of the seeds that play the part of the test links, which then stay unread."""

    @property
    def sized(self) -> bool:
        """Whether DivEA has to be told a subtask size."""
        return self.settings.get("division") in SIZED and self.subtasks > 1

    @property
    def key(self) -> str:
        """All that decides the result, and no word more: recipes that need the same run share it."""
        found = asdict(self)
        del found["method"]
        if not self.sized:
            del found["scale"]
        return json.dumps(found, sort_keys=True)

    def __str__(self) -> str:
        return f"{self.pair} {self.percent}/{self.split} {self.method} + {self.model}, N = {self.subtasks}"
