"""What this machine has: memory, cores, a GPU."""

from __future__ import annotations

import os
from pathlib import Path

from divea.errors import InputError

SHARE = 0.5
"""Of the machine's memory that a run may take where nobody said how much."""

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def total_memory() -> int:
    """Bytes of host memory that this process may use at all: the machine's, or its container's."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in _CGROUP_LIMITS:
        try:
            text = Path(name).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return total


def gpu_memory() -> int:
    """Bytes of the first GPU."""
    import torch

    return int(torch.cuda.get_device_properties(0).total_memory)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def resolve_device(name: str) -> str:
    """`auto` is the GPU where there is one."""
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda"):
        raise InputError(f"unknown device {name!r}; choose from auto, cpu, cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("there is no GPU that torch can use here; --device cpu does without")
    return name
