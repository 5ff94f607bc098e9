"""Models that fail, which worker processes load like those of any plug-in package.

Each one fails as its name says and otherwise does what label propagation does.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

from divea.config import LabelPropagationOptions, ModelSettings
from divea.executors import Job
from divea.models.label_propagation import LabelPropagation
from tests.executors.small import SETTINGS

ENTRY_POINTS = """
[divea.models]
raises = tests.executors.odd_models:Raises
dies = tests.executors.odd_models:Dies
hangs = tests.executors.odd_models:Hangs
stops = tests.executors.odd_models:Stops
crashes = tests.executors.odd_models:Crashes
exits = tests.executors.odd_models:Exits
runs-out = tests.executors.odd_models:RunsOut
"""


def install_odd_models(folder: Path) -> None:
    """Write a package's metadata into a folder: if it is on the path, the models are found."""
    metadata = folder / "odd_models-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-models\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)


def odd_job(job: Job, model: str, traces: Path, times: int = 1) -> Job:
    """The job with an odd model, which fails this many times. Each try leaves a file in `traces`."""
    options = {"traces": str(traces), "times": times}
    return replace(job, model=ModelSettings.checked({"name": model, model: options}))


@dataclass(frozen=True)
class Try:
    """A try of a job with an odd model."""

    number: int
    process: int


def tries(traces: Path) -> list[Try]:
    """The tries that left a file, in order."""
    found = (path.name.split("-") for path in traces.glob("try-*"))
    return sorted((Try(int(number), int(process)) for _, number, process in found), key=lambda t: t.number)


@dataclass(frozen=True)
class OddOptions:
    traces: str = ""
    times: int = 1


class Odd(LabelPropagation):
    options_type = OddOptions

    def __init__(self, odd: OddOptions | None = None):
        small: LabelPropagationOptions = SETTINGS.model.options("label-propagation")
        super().__init__(small)
        self.odd = odd or OddOptions()

    def embed(self, task, *, random_seed=0, device="cpu"):
        traces = Path(self.odd.traces)
        earlier = len(tries(traces))
        (traces / f"try-{earlier}-{os.getpid()}").touch()
        if earlier < self.odd.times:
            self.fail()
        return super().embed(task, random_seed=random_seed, device=device)

    def fail(self):
        raise NotImplementedError


class Raises(Odd):
    def fail(self):
        raise RuntimeError("as odd as promised")


class Dies(Odd):
    def fail(self):
        os.kill(os.getpid(), signal.SIGKILL)


class Hangs(Odd):
    def fail(self):
        time.sleep(3600)


class Stops(Odd):
    def fail(self):
        os.kill(os.getpid(), signal.SIGSTOP)


class Crashes(Odd):
    def fail(self):
        os.kill(os.getpid(), signal.SIGSEGV)


class Exits(Odd):
    def fail(self):
        print("bye", flush=True)
        os._exit(7)


class RunsOut(Odd):
    """Allocates 64 GiB for tasks of more than `times` entities."""

    def embed(self, task, *, random_seed=0, device="cpu"):
        import torch

        if task.source.num_entities + task.target.num_entities > self.odd.times:
            torch.ones(1 << 34)
        return LabelPropagation.embed(self, task, random_seed=random_seed, device=device)
