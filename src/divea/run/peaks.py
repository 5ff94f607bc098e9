"""What a process has taken at most: of the host's memory, and of a GPU's."""

from __future__ import annotations

import resource
import sys
from pathlib import Path


def peak_memory() -> int:
    """The most bytes of host memory that this process has held."""
    status = Path("/proc/self/status")
    if status.exists():
        # Unlike getrusage, Linux starts this one anew with each program.
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def peak_gpu_memory(device: str) -> int:
    """The most bytes that torch has held of a GPU's memory, unused parts of its blocks included."""
    if device == "cpu":
        return 0
    import torch

    return int(torch.cuda.max_memory_reserved(device))
