"""Limits on memory: what the user allows, and how it is enforced. Also the system's limit on open files.

Allocating more than a limit raises an exception; nothing is killed.
"""

from __future__ import annotations

import ctypes
import gc
import re
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from divea.errors import InputError
from divea.wording import worded

_M_MMAP_THRESHOLD = -3  # from malloc.h


@dataclass(frozen=True)
class Limits:
    """What a run may use.

    >>> Limits.of(memory="2GiB").memory
    2147483648
    """

    device: str = "auto"
    """auto, cpu or cuda."""
    memory: int | None = None
    """Bytes of host memory, for all processes of the run together: jobs then run one at a time."""
    gpu_memory: int | None = None
    """Bytes of GPU memory."""
    subtasks_per_job: int | None = None
    """The most subtasks that a GPU solves together; None: as many as fit."""

    @classmethod
    def of(
        cls, device: str = "auto", memory: int | str | None = None, gpu_memory: int | str | None = None
    ) -> Limits:
        """Limits with sizes in bytes or as people write them."""
        return cls(device, _bytes("memory", memory), _bytes("gpu_memory", gpu_memory))

    def require_effect(self, device: str) -> None:
        """Raise InputError if there is a limit on the memory of a GPU, and the device is none."""
        if self.gpu_memory is not None and device != "cuda":
            option = worded(command="--gpu-memory", python="gpu_memory")
            raise InputError(f"{option} has no effect: the device is {device}")


def _bytes(name: str, size: int | str | None) -> int | None:
    found = parse_memory(size) if isinstance(size, str) else size
    if isinstance(found, int) and abs(found) > 1 << 50:
        raise InputError(f"{name}: expected at least 1 MiB and at most 1 PiB")
    if found is not None and (isinstance(found, bool) or not isinstance(found, int) or found < 1 << 20):
        raise InputError(f"{name}: expected at least 1 MiB, written as 4GiB or in bytes; found {size!r}")
    return found


def parse_memory(text: str) -> int:
    """Bytes from a size as people write it.

    >>> parse_memory("4GiB"), parse_memory("500 MB")
    (4294967296, 500000000)
    """
    match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,15})?)\s*([kmgt]?)(i?)b?\s*", text, re.IGNORECASE)
    if match is None:
        raise InputError(f"not a memory size: {text!r}; write 4GiB or 500MB")
    number, prefix, binary = match.groups()
    power = " kmgt".index(prefix.lower() or " ")
    return int(float(number) * (1024 if binary else 1000) ** power)


def allow_many_files() -> None:
    """Let this process, and those that it starts, open as many files as the system allows.

    Mapped results stay open: three iterations of 400 subtasks take more than the usual 1024.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Some systems refuse their own highest limit.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextmanager
def enforced(device: str, memory: int | None) -> Iterator[None]:
    """Within the block, allocating more than `memory` bytes on top of what is held raises an exception."""
    if memory is None:
        yield
    elif device == "cpu":
        with _host_limit(memory):
            yield
    else:
        with _gpu_limit(device, memory):
            yield


@contextmanager
def _gpu_limit(device: str, memory: int) -> Iterator[None]:
    import torch

    gpu = torch.device(device).index  # None for the current one
    total = torch.cuda.get_device_properties(gpu).total_memory
    # Blocks that torch keeps in reserve count towards the limit, and may be of the wrong size.
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(min(memory / total, 1.0), gpu)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, gpu)


@contextmanager
def _host_limit(memory: int) -> Iterator[None]:
    if sys.platform != "linux":  # only Linux counts allocations against RLIMIT_DATA
        yield
        return
    status = Path("/proc/self/status").read_text()
    held = int(next(line for line in status.splitlines() if line.startswith("VmData:")).split()[1]) * 1024
    before = resource.getrlimit(resource.RLIMIT_DATA)
    ceiling = held + memory
    if before[1] != resource.RLIM_INFINITY:
        ceiling = min(ceiling, before[1])
    resource.setrlimit(resource.RLIMIT_DATA, (ceiling, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def is_out_of_memory(error: Exception) -> bool:
    """Whether an exception means that memory ran out; torch has no class of its own for the host's."""
    import torch

    kinds = (MemoryError, torch.cuda.OutOfMemoryError)
    return isinstance(error, kinds) or "can't allocate memory" in str(error)


def release_memory(device: str) -> None:
    """Free what a failed attempt left behind."""
    gc.collect()
    if device != "cpu":
        import torch

        torch.cuda.empty_cache()


def return_all_freed() -> None:
    """Make the C library return all freed memory to the system, also what lies between other blocks."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def return_freed_blocks() -> None:
    """Make the C library return freed blocks of 4 MiB and more to the system at once.

    glibc otherwise learns to keep blocks of up to 32 MiB: 230 of 1950 MiB with label propagation on the
    whole of zh-en. Other C libraries do not have this habit.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 4 << 20)
