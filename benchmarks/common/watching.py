"""Watches other processes while they run: the memory of a process tree, and how busy the GPU is."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from divea.errors import InputError


@dataclass(frozen=True)
class Memory:
    """Bytes that the processes of a tree hold."""

    total: int = 0
    anonymous: int = 0
    """Without pages of files, which the system can take back."""


def exact_memory(process: int) -> Memory:
    """The memory of a process, where a page that n processes share counts as 1/n (PSS).

    The system goes through all pages of the process, which has to wait for it meanwhile: not for processes of
    many gigabytes.
    """
    with suppress(OSError):
        rows = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
        kibibytes = {name: int(value.split()[0]) for name, value in (row.split(":") for row in rows)}
        return Memory(1024 * kibibytes["Pss"], 1024 * kibibytes.get("Pss_Anon", 0))
    return Memory()


@dataclass
class Watched:
    """What was seen while a command ran; samples have the time of the clock."""

    seconds: float = 0.0
    memory: list[tuple[float, Memory]] = field(default_factory=list)
    gpu: list[tuple[float, int]] = field(default_factory=list)
    """The use of the GPU in percent; nothing where there is no `nvidia-smi`."""
    was_ended: bool = False
    """Whether the command took too long and was ended."""

    @property
    def peak(self) -> int:
        """The most bytes that the tree held."""
        return max((found.total for _, found in self.memory), default=0)


def watch(command: list[str], every: float = 0.05, most: float = float("inf")) -> Watched:
    """Run a command and watch it. Raises InputError if it fails.

    Parameters
    ----------
    every
        Seconds between two samples of the memory.
    most
        Seconds after which the command is ended.
    """
    watched, start = Watched(), time.perf_counter()
    with gpu_use() as watched.gpu:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while process.poll() is None:
            if time.perf_counter() - start > most:
                watched.was_ended = True
                process.kill()
                process.wait()
                break
            parts = [exact_memory(one) for one in {*_tree(process.pid)}]
            total, anonymous = sum(one.total for one in parts), sum(one.anonymous for one in parts)
            watched.memory.append((time.time(), Memory(total, anonymous)))
            with suppress(subprocess.TimeoutExpired):
                process.wait(every)
    watched.seconds = time.perf_counter() - start
    if process.returncode and not watched.was_ended:
        assert process.stderr is not None
        raise InputError(f"{' '.join(command)}: {process.stderr.read().decode()[-300:]}")
    return watched


@contextmanager
def gpu_use() -> Iterator[list[tuple[float, int]]]:
    """The use of the GPU in percent with the time of each sample, complete at the end of the block."""
    samples: list[tuple[float, int]] = []
    command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "--loop-ms=100"]
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except FileNotFoundError:
        yield samples
        return

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip().isdigit():
                samples.append((time.time(), int(line)))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield samples
    finally:
        process.terminate()
        process.wait()
        reader.join()


def _tree(process: int) -> list[int]:
    found = [process]
    with suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            for child in (thread / "children").read_text().split():
                found += _tree(int(child))
    return found
