"""Models that go wrong, offered to worker processes as a plug-in package (see `conftest.offered`).

Each does what label propagation does, after what its name says. `place` is a folder for its traces.
"""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from divea.models.label_propagation import LabelPropagation, LabelPropagationOptions

SMALL = LabelPropagationOptions(labels=32, heads=8, rounds=2)


@dataclass(frozen=True)
class OddOptions:
    place: str = ""
    times: int = 1


class Odd(LabelPropagation):
    options_type = OddOptions

    def __init__(self, odd=None):
        super().__init__(SMALL)
        self.odd = odd or OddOptions()

    def embed(self, task, *, seed=0, device="cpu"):
        traces = Path(self.odd.place)
        before = len(list(traces.glob("try-*")))
        (traces / f"try-{before}-{os.getpid()}").touch()
        if before < self.odd.times:
            self.go_wrong()
        return super().embed(task, seed=seed, device=device)


class Raises(Odd):
    def go_wrong(self):
        raise RuntimeError("as odd as promised")


class Dies(Odd):
    def go_wrong(self):
        os.kill(os.getpid(), signal.SIGKILL)


class Hangs(Odd):
    def go_wrong(self):
        time.sleep(3600)


class RunsOut(Odd):
    """Takes far more memory than there is for tasks above a number of entities."""

    def embed(self, task, *, seed=0, device="cpu"):
        import torch

        if task.source.num_entities + task.target.num_entities > self.odd.times:
            torch.ones(1 << 34)
        return LabelPropagation.embed(self, task, seed=seed, device=device)
