"""The template of worker processes: a process with all libraries loaded, of which every worker is a fork.

A fork shares the memory of the process that it comes from until one of them changes it. Libraries are
therefore in memory once, however many workers there are, and a worker starts within milliseconds. The
template itself computes nothing and uses no GPU, because GPU contexts and busy threads do not survive a fork.

`Template` starts the process and asks it for workers; `main` is its program.
"""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NoReturn

from divea.errors import InputError, printable
from divea.executors.worker import serve

ANSWER_SECONDS = 120.0
"""Time that a template has for an answer. The first one waits for the libraries."""

WORKER_NAME = "divea-worker"
"""The name of worker processes in lists of processes; their command line is that of the template."""

_MOST_BYTES = 64
"""Bytes of a request or a reply."""

_RUNNING = b"running"


class Template:
    """A template process. It is started when the first worker is wanted, and again if it was lost.

    Parameters
    ----------
    log
        An open file for what the process prints, for example why it cannot load a library.
    """

    def __init__(self, log: BinaryIO):
        self._log = log
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def start(self) -> None:
        """Start the process, which loads the libraries while this one goes on."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Multiprocessing would run the user's own script again in every worker.
        command = [sys.executable, "-P", "-m", "divea.executors.template"]
        with theirs:
            # The standard streams may be closed, and their numbers taken by the socket.
            passed = fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, 3)
            try:
                self._process = subprocess.Popen(
                    [*command, str(passed)],
                    pass_fds=[passed],
                    stdin=subprocess.DEVNULL,
                    stdout=self._log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                )
            finally:
                os.close(passed)
        ours.settimeout(ANSWER_SECONDS)
        self._control = ours

    def fork(self, number: int, connection: int, stdin: int, output: int) -> Fork:
        """A new worker process. Raises InputError if it cannot be made; another call may succeed.

        Parameters
        ----------
        number
            The number of the worker, which decides its GPU.
        connection
            The descriptor of a socket, through which the worker gets its jobs.
        stdin
            A descriptor for the worker's standard input; the worker ends when it closes.
        output
            A descriptor for what the worker prints.
        """
        if self._control is None:
            self.start()
        parent = self._process
        assert parent is not None
        reply = self._ask(parent, f"fork {number}", (connection, stdin, output))
        if reply.isdigit():
            return Fork(self, parent, int(reply))
        printed = tail(self._log).strip().splitlines() or ["no message"]
        reason = reply.decode(errors="replace") or printed[-1]
        raise InputError(f"worker processes cannot be started: {printable(reason[:200])}")

    def status(self, worker: Fork) -> int | None:
        """The exit status of a worker, as subprocess gives it; None while it runs."""
        reply = self._ask(worker.parent, f"status {worker.pid}")
        if reply == _RUNNING:
            return None
        if reply:
            return int(reply)
        # Without the template that it comes from, it is unknown how the worker ended.
        return None if worker.is_there() else -signal.SIGKILL

    def _ask(self, process: subprocess.Popen[bytes], request: str, descriptors: Sequence[int] = ()) -> bytes:
        """The reply to a request; empty if the template process was lost, or replaced by another one."""
        with self._lock:
            if self._control is None or process is not self._process:
                return b""
            reply = b""
            try:
                with suppress(OSError):
                    socket.send_fds(self._control, [request.encode()], descriptors)
                    reply = self._control.recv(_MOST_BYTES)
            finally:
                if not reply:
                    # A late reply would be taken for the reply to the next request.
                    self._end()
            return reply

    def close(self) -> None:
        """End the process. Its workers keep running."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._process is not None and self._control is not None:
            self._control.close()
            self._process.kill()
            self._process.wait()
        self._process = self._control = None


class Fork:
    """A worker process.

    The template collects the exit status of a worker only when it is asked for it. Until then, no other
    process can get the worker's number, so a signal never reaches the wrong process. If the template itself
    is lost, the time at which a process started tells the worker from another one with its number.
    """

    def __init__(self, template: Template, parent: subprocess.Popen[bytes], pid: int):
        self._template, self.parent, self.pid = template, parent, pid
        self._lock = threading.RLock()
        self._started = _start_of(pid)
        self.returncode: int | None = None
        """The exit status, as subprocess gives it; None until the process is known to have ended."""

    def poll(self) -> int | None:
        """The exit status; None while the process runs."""
        with self._lock:
            if self.returncode is None:
                self.returncode = self._template.status(self)
            return self.returncode

    def is_there(self) -> bool:
        """Whether the process exists, by what the system says about its number."""
        return state_of(self.pid) not in ("", "Z") and _start_of(self.pid) == self._started

    def wait(self, seconds: float = float("inf")) -> bool:
        """Wait until the process has ended; False if it has not ended in time."""
        end, pause = time.monotonic() + seconds, 0.0005
        while self.poll() is None:
            if time.monotonic() > end:
                return False
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        return True

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        with self._lock:
            if self.poll() is None:
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process at once."""
        self.send_signal(signal.SIGKILL)


def state_of(process: int) -> str:
    """The state of a process as the system writes it, such as T for stopped; empty if it does not exist."""
    return (_facts_about(process)[:1] or [""])[0]


def _start_of(process: int) -> str:
    """When a process was started, as the system writes it; empty if it does not exist."""
    return (_facts_about(process)[19:20] or [""])[0]


def _facts_about(process: int) -> list[str]:
    """What the system says about a process, from its state on; nothing if it does not exist."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def tail(log: BinaryIO, most: int = 4000) -> str:
    """The end of what was written to an open file."""
    size = os.fstat(log.fileno()).st_size
    return os.pread(log.fileno(), most, max(size - most, 0)).decode(errors="replace")


def main(descriptor: int) -> None:
    """Load the libraries, and answer requests until the socket closes."""
    # Ctrl-C reaches the whole process group; the parent handles it and ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import divea.executors.attempt  # noqa: F401 (what takes memory and time to load)

    control = socket.socket(fileno=descriptor)
    # Otherwise the garbage collector would write to every object that workers share.
    gc.collect()
    gc.freeze()
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, _MOST_BYTES, maxfds=3)
        if not request:
            return
        what, number = request.split()
        if what == b"status":
            ended, status = os.waitpid(int(number), os.WNOHANG)
            control.send(str(os.waitstatus_to_exitcode(status)).encode() if ended else _RUNNING)
            continue
        control.send(_forked(control, int(number), descriptors)[:_MOST_BYTES])


def _forked(control: socket.socket, number: int, descriptors: Sequence[int]) -> bytes:
    """The number of a new worker process, or why there is none."""
    try:
        process = os.fork()
        if not process:
            control.close()
            _become_worker(number, *descriptors)
        return str(process).encode()
    except OSError as error:
        return (error.strerror or "no process could be made").encode()
    finally:
        for own in descriptors:
            os.close(own)


def _become_worker(number: int, connection: int, stdin: int, output: int) -> NoReturn:
    """Run jobs as a worker, and end this process."""
    code = 1
    try:
        Path("/proc/self/comm").write_text(WORKER_NAME)
        for own, stream in ((stdin, 0), (output, 1), (output, 2)):
            os.dup2(own, stream)
        os.close(stdin)
        os.close(output)
        serve(connection, number)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]))
