"""How long a training step of one and of eight subtasks takes, and how long it keeps the GPU busy.

python benchmarks/step_profile.py ../shared/data/dbp15k/zh_en --model rrea gcn-align dual-amn
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from unittest import mock

import torch
from stacked_subtasks import cut
from torch.profiler import ProfilerActivity, profile

from divea.formats import read_task
from divea.models import dual_amn, gcn_align, resolve_model, rrea, training

WARM_UP, TIMED, PROFILED = 5, 30, 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", nargs="+", default=["rrea"])
    parser.add_argument("--kernels", type=int, default=8, help="how many kernels to list")
    arguments = parser.parse_args()
    whole = read_task(arguments.folder, seeds=arguments.folder / "splits/20/0/sup_ent_ids")
    subtasks = [cut(whole, seed) for seed in range(8)]
    for name in arguments.model:
        for count in (1, 8):
            print(f"{name}, {count} together:", end=" ")
            watched = mock.patch.multiple
            with watched(rrea, train=watch), watched(gcn_align, train=watch), watched(dual_amn, train=watch):
                resolve_model(name).embed_many(subtasks[:count], seeds=list(range(count)), device="cuda")
            print(f"{LAST['step']:.2f} ms a step, GPU busy {sum(LAST['busy'].values()):.2f} ms")
            for kernel, milliseconds in LAST["busy"].most_common(arguments.kernels):
                print(f"  {milliseconds:7.3f} ms  {kernel[:120]}")


LAST: dict = {}


def watch(optimiser: torch.optim.Optimizer, loss, steps: int) -> None:
    """In place of training: some steps by the clock, then some under the profiler."""
    training.train(optimiser, loss, WARM_UP)
    torch.cuda.synchronize()
    start = time.perf_counter()
    training.train(optimiser, loss, TIMED)
    torch.cuda.synchronize()
    LAST["step"] = (time.perf_counter() - start) / TIMED * 1e3
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        training.train(optimiser, loss, PROFILED)
        torch.cuda.synchronize()
    LAST["busy"] = Counter()
    for event in recorded.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            LAST["busy"][event.name] += event.time_range.elapsed_us() / PROFILED / 1e3


if __name__ == "__main__":
    main()
