"""The local executor: worker processes on this machine.

Workers are forks of one process that has loaded the libraries (`template.py`), and map the graphs into
memory, so both are in memory only once for all workers. They receive jobs through sockets. A worker that dies
is replaced; a worker whose parent dies ends itself.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar

from divea.config.executor import ExecutorSettings
from divea.errors import InputError, printable
from divea.executors.base import Done, Executor, Failed, FailureKind, Steps, Tries, failed_piece
from divea.executors.job import Job, Rehearsal
from divea.executors.template import Fork, Template, state_of, tail
from divea.executors.worker import SHOW_AND_END, Call, JobOrder, Mapped, RehearsalOrder
from divea.loop.lists import Mapper
from divea.resources.machine import cores, gpus, oom_kills

Item = TypeVar("Item")
Result = TypeVar("Result")

START_SECONDS = 120.0
"""Time that a worker has to start, on top of its job's timeout."""

STARTS = 3
"""How often in a row a worker may fail to start."""

CALL_SECONDS = 60.0
"""The least time that a function call has, if there is a timeout; it usually takes less than a second."""

MOST_MAPPING = 8
"""The most workers that apply functions to pieces of the lists: more would only wait for memory."""

_CRASHES = frozenset(
    {
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGILL,
        signal.SIGFPE,
        signal.SIGABRT,
        signal.SIGTRAP,
        signal.SIGSYS,
    }
)
"""Signals that a process gets for an error of its own; all others come from outside."""


class Local(Executor):
    """Runs jobs in `workers` worker processes; by default, one per GPU or as many as there are cores for.

    A job that takes longer than `timeout` seconds fails. Workers start with the first jobs and stay for later
    ones until `close`. Functions are applied to pieces of ranked lists by one worker per core, up to
    `MOST_MAPPING`.
    """

    def __init__(self, workers: int | None = None, *, timeout: float | None = None):
        self.workers, self.timeout = workers, timeout
        self._workers: list[_Worker] = []
        self._template: Template | None = None
        self._is_called = False
        """Whether a call of `run` or of a mapper has results that were not read yet."""
        self._preparing: threading.Thread | None = None

    @classmethod
    def from_settings(cls, settings: ExecutorSettings) -> Self:
        return cls(settings.workers, timeout=settings.timeout)

    def prepare(self, task_folder: Path, threads: int = 1, rehearsal: Rehearsal | None = None) -> None:
        self._start_template()
        # A job that has to wait for a rehearsal could reach its timeout.
        if rehearsal is not None and self.timeout is None:
            arguments = task_folder.resolve(), rehearsal
            self._preparing = threading.Thread(target=self._rehearse, args=arguments, daemon=True)
            self._preparing.start()

    def _rehearse(self, task_folder: Path, rehearsal: Rehearsal) -> None:
        """Start workers, which waits for the template, and have those that will get jobs rehearse."""
        solving = max(gpus(), 1) if self.workers is None else self.workers
        count = max(solving, min(cores(), MOST_MAPPING))
        with suppress(InputError):  # the first call tries again, and says what is wrong
            self._start_workers(count, below=count)
        for worker in self._workers:
            worker.rehearse(RehearsalOrder(task_folder, rehearsal if worker.number < solving else None))

    def _start_template(self) -> Template:
        if self._template is None:
            self._template = Template(_unnamed_file())
            self._template.start()
        return self._template

    def _prepared(self) -> None:
        """Wait until another thread has prepared the workers."""
        if self._preparing is not None:
            self._preparing.join()
            self._preparing = None

    def run(self, task_folder: Path, jobs: Sequence[Job]) -> Iterator[Done | Failed]:
        if not jobs:
            return
        count = self._number_of_workers(jobs)
        waiting = deque(range(len(jobs)))
        tries = [Tries() for _ in jobs]
        with self._one_call():
            while waiting or self._busy:
                self._start_workers(min(count, len(self._busy) + len(waiting)), below=count)
                for worker in self._workers:
                    if worker.position is None and worker.number < count and waiting:
                        position = waiting.popleft()
                        in_pieces = tries[position].in_pieces
                        order = task_folder, jobs[position], in_pieces, self.results_folder
                        worker.send(position, JobOrder(position, *order), self.timeout)
                for worker in self._wait_for_messages():
                    result = worker.receive()
                    if isinstance(result, Steps):
                        if self.on_steps is not None:
                            self.on_steps(result)
                        continue
                    if worker.has_ended:
                        self._remove(worker)
                    if isinstance(result, Failed):
                        position = result.position
                        result = tries[position].add(result)
                        if result is None:
                            waiting.append(position)
                    if result is not None and not isinstance(result, Mapped):
                        yield result

    def mapper(self, task_folder: Path) -> Mapper:
        return self._map

    def _map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Apply a function to items in worker processes; results are yielded in order.

        Only a few items are sent ahead of the results that were taken, so that few results wait in memory.
        """
        count = min(cores(), len(items), MOST_MAPPING)
        timeout = None if self.timeout is None else max(self.timeout, CALL_SECONDS)
        if count < 2:
            yield from map(function, items)
            return
        waiting, results = deque(range(len(items))), dict[int, Result]()
        tries = [Tries() for _ in items]
        taken = 0
        with self._one_call():
            while taken < len(items):
                self._start_workers(count, below=count)
                for worker in self._workers:
                    ahead = bool(waiting) and waiting[0] < taken + 3 * count
                    if worker.position is None and worker.number < count and ahead:
                        worker.call(waiting.popleft(), function, items, timeout)
                for worker in self._wait_for_messages():
                    result = worker.receive()
                    if worker.has_ended:
                        self._remove(worker)
                    if isinstance(result, Failed):
                        failed = tries[result.position].add(result)
                        if failed is not None:
                            raise failed_piece(failed)
                        waiting.appendleft(result.position)
                    elif isinstance(result, Mapped):
                        if result.error is not None:
                            raise result.error
                        results[result.position] = result.value
                while taken in results:
                    yield results.pop(taken)
                    taken += 1

    @contextmanager
    def _one_call(self) -> Iterator[None]:
        """Keep the workers for one call of `run` or of a mapper at a time.

        A caller that stops reading results wants no more work done, so busy workers are ended then.
        """
        if self._is_called:
            raise RuntimeError("the results of the call before must be read, or its iterator closed")
        self._prepared()
        self._is_called = True
        try:
            yield
        finally:
            self._is_called = False
            for worker in self._busy:
                self._remove(worker)

    @property
    def _busy(self) -> list[_Worker]:
        return [worker for worker in self._workers if worker.position is not None]

    def _wait_for_messages(self) -> list[_Worker]:
        """The workers that have sent something, or have died; waits until there is one."""
        ready = wait([worker.connection for worker in self._busy])
        return [worker for worker in self._busy if worker.connection in ready]

    def _number_of_workers(self, jobs: Sequence[Job]) -> int:
        if self.workers is not None:
            return self.workers
        if jobs[0].device != "cpu":
            return max(gpus(), 1)
        return max(cores() // jobs[0].threads, 1)

    def _start_workers(self, count: int, *, below: int) -> None:
        """Start workers until `count` have a number below the limit. A new one takes over the number, and so
        the GPU, of one that died. Workers with higher numbers, from a call with a higher limit, stay idle.
        """
        template = self._start_template()
        taken = {worker.number for worker in self._workers}
        missing = count - sum(number < below for number in taken)
        free = [number for number in range(below) if number not in taken]
        for number in free[: max(missing, 0)]:
            self._workers.append(_started(number, template))

    def _remove(self, worker: _Worker) -> None:
        worker.end()
        self._workers.remove(worker)

    def close(self) -> None:
        self._prepared()
        for worker in self._workers:
            worker.end()
        self._workers = []
        if self._template is not None:
            self._template.close()
            self._template = None


class _Worker:
    """A process, the socket to it, and the job that it works on."""

    def __init__(self, number: int, template: Template):
        self.number = number
        self.position: int | None = None
        self._is_ready = False
        self._timeout: float | None = None
        self._oom_kills = 0
        self._function: Callable[[Any], object] | None = None
        """The function of the latest call, which the worker keeps."""
        self._log = _unnamed_file()
        ours, theirs = socket.socketpair()
        self.connection = Connection(ours.detach())
        # A pipe that closes when this process ends, however it ends.
        theirs_to_wait_for, self._held_open = os.pipe()
        try:
            self.process = template.fork(number, theirs.fileno(), theirs_to_wait_for, self._log.fileno())
        except BaseException:
            self._close()
            raise
        finally:
            theirs.close()
            os.close(theirs_to_wait_for)
        self._watchdog = _Watchdog(self.process, None)

    @property
    def has_ended(self) -> bool:
        """Whether the process is known to have ended."""
        return self.process.returncode is not None

    def call(
        self,
        position: int,
        function: Callable[[Item], object],
        items: Sequence[Item],
        timeout: float | None,
    ) -> None:
        """Send an item for the worker to apply a function to. The function is sent only once."""
        is_known, self._function = self._function is function, function
        self.send(position, Call(position, None if is_known else function, items[position]), timeout)

    def rehearse(self, order: RehearsalOrder) -> None:
        """Have the worker rehearse before its first job."""
        with suppress(OSError):  # it died: `receive` will say so
            self.connection.send(order)

    def send(self, position: int, order: JobOrder | Call, timeout: float | None) -> None:
        """Send a job or a function call."""
        self.position, self._timeout = position, timeout
        self._oom_kills = oom_kills()
        start = 0.0 if self._is_ready else START_SECONDS
        self._watchdog = _Watchdog(self.process, None if timeout is None else timeout + start)
        with suppress(OSError):  # it died while idle: `receive` will say so
            self.connection.send(order)

    def receive(self) -> Done | Failed | Steps | Mapped | None:
        """The result of the job or call, its progress, or None if the worker has just become ready."""
        try:
            result: Done | Failed | Steps | Mapped | None = self.connection.recv()
        except (EOFError, OSError):
            self.process.wait()
            return self._failure()
        if isinstance(result, Steps):
            return result
        self._watchdog.stop()
        if result is None:
            self._is_ready = True
            self._watchdog = _Watchdog(self.process, self._timeout)
        else:
            self.position = None
        return result

    def _failure(self) -> Failed:
        """Why the worker died."""
        position, self.position = self.position, None
        code = self.process.returncode
        assert position is not None and code is not None
        self._watchdog.stop()
        output = tail(self._log)
        kind, reason = FailureKind.LOST_WORKER, f"worker {_ending(code)}"
        if self._watchdog.found is not None:
            kind = self._watchdog.found
            reason = f"{kind}: the job took longer than {self._timeout:g} s"
        elif code == -signal.SIGKILL and oom_kills() > self._oom_kills:
            kind, reason = FailureKind.HOST_MEMORY, "the system ended the worker for lack of memory"
        elif code >= 0 or -code in _CRASHES:
            kind = FailureKind.ERROR
            last = (output.strip().splitlines() or [""])[-1][:200]
            reason = f"worker {_ending(code)}" + (f": {printable(last)}" if code >= 0 and last else "")
        return Failed(position, kind, reason, f"{reason}\n{output}")

    def end(self) -> None:
        self._watchdog.stop()
        self.process.kill()
        self.process.wait()
        self._close()

    def _close(self) -> None:
        """Close what this process holds; a worker that is still there ends itself then."""
        self.connection.close()
        self._log.close()
        os.close(self._held_open)


def _started(number: int, template: Template) -> _Worker:
    """A new worker, after a few tries if need be. Each has its own socket: a worker may exist although the
    template could not say so."""
    for _ in range(STARTS - 1):
        with suppress(InputError):
            return _Worker(number, template)
    return _Worker(number, template)


class _Watchdog:
    """Ends a worker from outside when its time is up, whatever state the worker is in.

    It has its own thread, because reading blocks if a worker was stopped in the middle of a message.
    """

    def __init__(self, process: Fork, seconds: float | None):
        self.found: FailureKind | None = None
        self._process = process
        self._lock = threading.Lock()
        self._is_over = False
        self._timer: threading.Timer | None = None
        if seconds is not None:
            self._timer = threading.Timer(seconds, self._end)
            self._timer.daemon = True
            self._timer.start()

    def _end(self) -> None:
        with self._lock:
            if self._is_over:
                return
            is_stopped = state_of(self._process.pid) == "T"
            self.found = FailureKind.STOPPED_WORKER if is_stopped else FailureKind.TIMEOUT
            if not is_stopped:
                self._process.send_signal(SHOW_AND_END)
                self._process.wait(1)
            self._process.kill()

    def stop(self) -> None:
        """Leave the worker alone from now on."""
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._is_over = True


def _unnamed_file() -> BinaryIO:
    """A temporary file that disappears with the last process that has it open; writing appends."""
    try:
        file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (it is open as long as the worker lives)
    except OSError as error:
        raise InputError(f"no place for temporary files: {error.strerror or error}; set TMPDIR") from error
    fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)
    return file


def _ending(exit_code: int) -> str:
    if exit_code >= 0:
        return f"ended with code {exit_code}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was ended by {names.get(-exit_code, f'signal {-exit_code}')}"
