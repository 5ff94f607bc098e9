"""What this machine has (memory, cores, a GPU), and how much of it this process has used."""

from __future__ import annotations

import os
import platform
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Literal

from divea.errors import InputError

MEMORY_SHARE = 0.5
"""Share of the machine's memory that a run may take if no limit is given."""

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

_OOM_COUNTERS = {
    "": ("/sys/fs/cgroup", "memory.events"),
    "memory": ("/sys/fs/cgroup/memory", "memory.oom_control"),
}
"""Where the two versions of control groups count OOM kills, by the controllers in /proc/self/cgroup."""


def total_memory() -> int:
    """Bytes of host memory that this process may use: the machine's, or its container's."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in _CGROUP_LIMITS:
        try:
            text = Path(name).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return total


def oom_kills() -> int:
    """How many processes of this one's control group the system has ended for lack of memory so far.

    0 where the system does not count them.
    """
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return 0
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers not in _OOM_COUNTERS:
            continue
        folder, name = _OOM_COUNTERS[controllers]
        # In a container the group itself may be mounted, and not the root of all groups.
        for place in (f"{folder}{group}", folder):
            with suppress(OSError):
                counts = dict(row.split() for row in Path(place, name).read_text().splitlines())
                return int(counts.get("oom_kill", 0))
    return 0


def gpus() -> int:
    """The number of GPUs."""
    import torch

    return int(torch.cuda.device_count())


def gpu_memory() -> int:
    """Bytes of the first GPU."""
    import torch

    return int(torch.cuda.get_device_properties(0).total_memory)


def free_gpu_memory(device: str) -> int:
    """Bytes of a GPU that this process can still use, including those that torch holds in reserve."""
    import torch

    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0] + unused)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def resolve_device(name: str) -> Literal["cpu", "cuda"]:
    """The device to use: `auto` is the GPU if there is one, otherwise the CPU."""
    if name not in ("auto", "cpu", "cuda"):
        raise InputError(f"device: expected one of 'auto', 'cpu', 'cuda'; found {name!r}")
    if name == "cpu":
        return "cpu"
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if name == "cuda":
        raise InputError("device: torch finds no GPU here; use cpu")
    return "cpu"


def peak_memory() -> int:
    """The most bytes of host memory that this process has held."""
    status = Path("/proc/self/status")
    if status.exists():
        # Unlike getrusage, this does not include the peak of the process that started this one.
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def peak_gpu_memory(device: str) -> int:
    """The most bytes of GPU memory that torch has held, unused parts of its blocks included."""
    if device == "cpu":
        return 0
    import torch

    return int(torch.cuda.max_memory_reserved(device))


def processor(device: str) -> str:
    """The kind of processor that computes: results of another kind may differ in the last digits.

    The libraries choose their kernels by the maker of the CPU and by its instruction sets.
    """
    import torch

    kinds = [platform.machine(), _cpu_maker(), torch.backends.cpu.get_cpu_capability()]
    if device == "cuda":
        kinds.append(torch.cuda.get_device_name())
    return " ".join(kind for kind in kinds if kind)


def _cpu_maker() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except (OSError, ValueError):
        return ""
    return next((line.split(":")[1].strip() for line in lines if line.startswith("vendor_id")), "")
