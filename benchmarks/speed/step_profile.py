"""How long a training step of one and of eight subtasks takes, and how long it keeps the GPU busy.

The subtasks are those of `stacked_subtasks`. The wall time of a step depends on how fast the host launches
kernels, the busy time much less. The kernels that take longest are listed.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from unittest import mock

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.common import (
    DataSet,
    Figures,
    Needs,
    Spread,
    Value,
    add_data,
    add_models,
    add_rounds,
    clock,
    make_models,
)
from benchmarks.speed.stacked_subtasks import embed, subtask
from divea.errors import InputError
from divea.models import dual_amn, gcn_align, rrea, training

NEEDS = Needs("DBP15K", "GPU", "2 min")

COUNTS = (1, 8)
WARM_UP, TIMED, PROFILED = 5, 30, 4


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data(parser, ["zh-en"])
    add_models(parser, ["rrea", "dual-amn", "gcn-align"])
    parser.add_argument("--kernels", type=int, default=8, help="how many kernels to list")
    add_rounds(parser, 3)


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    steps = figures.table("training step", {"model": "", "subtasks": "", "step": "ms", "GPU busy": "ms"})
    kernels = figures.table("kernels of a step", {"model": "", "subtasks": "", "kernel": "", "time": "ms"})
    whole = DataSet("zh-en", options.data).task()
    subtasks = [subtask(whole, number) for number in range(max(COUNTS))]
    for name, model in make_models(options.models, options.set).items():
        for count in COUNTS:
            watch = ProfiledTraining(options.rounds)
            with ExitStack() as stack:
                for module in (rrea, gcn_align, dual_amn):
                    stack.enter_context(mock.patch.object(module, "train", watch))
                embed(model, subtasks[:count], "cuda")
            if not watch.milliseconds:
                raise InputError(f"{name} is not trained in steps")
            about: dict[str, Value] = {"model": name, "subtasks": count}
            busy = sum(watch.busy.values())
            steps.add({**about, "step": Spread.of(watch.milliseconds), "GPU busy": busy})
            for kernel, milliseconds in watch.busy.most_common(options.kernels):
                kernels.add({**about, "kernel": kernel[:120], "time": milliseconds})
    return figures


class ProfiledTraining:
    """Takes the place of `train`: some steps by the clock, then some under the profiler."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.milliseconds: list[float] = []
        self.busy: Counter[str] = Counter()

    def __call__(
        self, optimiser: torch.optim.Optimizer, loss: Callable[[int], torch.Tensor], steps: int
    ) -> None:
        def train(steps: int) -> None:
            training.train(optimiser, loss, steps)

        train(WARM_UP)
        for _ in range(self.rounds):
            self.milliseconds.append(1000 * clock(lambda: train(TIMED), "cuda") / TIMED)
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
            train(PROFILED)
            torch.cuda.synchronize()
        for event in recorded.events():
            if event.device_type.name == "CUDA":
                self.busy[event.name] += event.time_range.elapsed_us() / PROFILED / 1000
