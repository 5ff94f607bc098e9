"""Ray clusters: connects to an existing one, or starts one on this machine, each within a time limit.

Ray's own calls may wait for ever if a process of Ray is lost or stopped, and no signal interrupts them. What
can be tried in another process is tried there first; the rest runs in a thread that can be left behind.
"""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import wait
from typing import TypeVar

from divea.errors import InputError, printable
from divea.executors.ray_head import LOOPBACK, kill_session

T = TypeVar("T")

CONNECT_SECONDS = 30.0
"""Time that an existing cluster has to answer; Ray itself would try for minutes."""

START_SECONDS = 60.0
"""Time that a cluster of our own has to start, in each of `START_TRIES`; it usually takes about 5 s."""

START_TRIES = 2
"""How often a start is tried: a process of Ray that is lost meanwhile is no reason to give up at once."""

SHUTDOWN_SECONDS = 20.0
"""Time that Ray has to disconnect."""

CHECK_SECONDS = 5.0
"""Time that a head node has to answer, and the interval at which it is checked."""

_HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""What a client of HTTP/2, and so of gRPC, sends first; the server answers with its settings."""


def set_environment(has_cluster: bool) -> None:
    """Set the environment variables that Ray reads when it is imported."""
    # Ray reports usage to its makers unless told otherwise.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray ends this process if the head node is away for a minute; `Ray.check_cluster` raises an error.
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "3600")
    if not has_cluster:
        # Despite its name, this is what keeps Ray to the loopback interface, on every system.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        # Otherwise the first driver waits for workers that are started in advance, and waits for ever if one
        # of them is lost (https://github.com/ray-project/ray/issues/40131).
        os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
        if os.environ.setdefault("RAY_AUTH_MODE", "token") == "token":
            os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


class OwnCluster:
    """A Ray cluster on this machine, started by a process of its own; it ends with this process."""

    def __init__(self, cpus: int | None):
        command = [sys.executable, "-P", "-m", "divea.executors.ray_head"]
        self._keeper = subprocess.Popen(
            [*command, *([] if cpus is None else [str(cpus)])],
            stdin=subprocess.PIPE,  # closes when this process ends, however it ends
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def address(self) -> str:
        """The address of the cluster, once it has started. Raises InputError if it does not."""
        assert self._keeper.stdout is not None
        # select() refuses descriptors above 1023, and a run may have more files open.
        if not wait([self._keeper.stdout.fileno()], START_SECONDS):
            raise InputError(f"Ray did not start a cluster on this machine within {START_SECONDS:.0f} s")
        kind, _, text = self._keeper.stdout.readline().decode(errors="replace").strip().partition(" ")
        if kind == "address":
            return text
        reason = printable(text) or "a process of Ray was lost"
        raise InputError(f"Ray cannot start a cluster on this machine: {reason}")

    def end(self) -> None:
        """End all processes of the cluster. May be called twice."""
        if self._keeper.returncode is None:
            # No other session can have its number until it has been waited for.
            kill_session(self._keeper.pid)
            self._keeper.wait()
        for stream in (self._keeper.stdin, self._keeper.stdout):
            assert stream is not None
            stream.close()


def start_cluster(cpus: int | None) -> OwnCluster:
    """Start a cluster on this machine and connect to it. Raises InputError if that fails twice."""
    for tried in range(1, START_TRIES + 1):
        cluster = OwnCluster(cpus)
        try:
            address = cluster.address()
            break
        except BaseException as error:
            cluster.end()
            if tried == START_TRIES or not isinstance(error, InputError):
                raise
    try:
        host = address.rpartition(":")[0]
        if host != LOOPBACK:
            raise InputError(
                f"Ray was imported before divea, and its cluster would listen on {host}, not on {LOOPBACK} "
                "alone; call ray.init first, or do not import ray"
            )
        _init(address, "cannot connect to the Ray cluster that was started on this machine")
    except BaseException:
        cluster.end()
        raise
    return cluster


_PROBE = "import ray, sys; ray.init(sys.argv[1], log_to_driver=False)"


def connect(address: str) -> None:
    """Connect to an existing cluster. Raises InputError if it does not answer in time."""
    if address != "auto" and not answers(address):
        raise InputError(f"executor.address: nothing answers at {address}; is the Ray cluster running?")
    # A failed attempt may end the process, so another process tries it first.
    try:
        command = [sys.executable, "-c", _PROBE, address]
        tried = subprocess.run(command, capture_output=True, text=True, timeout=CONNECT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise InputError(
            f"executor.address: no Ray cluster answers at {address} within {CONNECT_SECONDS:.0f} s"
        ) from None
    if tried.returncode:
        reason = printable((tried.stderr.strip().splitlines() or ["no reason given"])[-1])
        if "Failed to connect to Ray cluster" in reason:
            reason += "; if it requires a token, set RAY_AUTH_MODE=token"
        raise InputError(f"executor.address: cannot connect to the Ray cluster at {address}: {reason}")
    _init(address, f"executor.address: cannot connect to the Ray cluster at {address}")


def _init(address: str, problem: str) -> None:
    """Connect this process to a cluster that another process could connect to."""
    import ray

    # At the level of warnings, Ray says that it handles no SIGTERM outside of the main thread.
    options = {"log_to_driver": False, "logging_level": logging.ERROR}
    _print_messages_of_nodes(False)
    try:
        within(CONNECT_SECONDS, lambda: ray.init(address=address, **options))
    except TimeoutError:
        give_up()
        raise InputError(f"{problem}: it does not answer within {CONNECT_SECONDS:.0f} s") from None
    except Exception as error:  # Ray raises errors of any kind
        reason = printable((str(error).strip().splitlines() or [type(error).__name__])[0])
        raise InputError(f"{problem}: {reason}") from error


def disconnect() -> None:
    """Disconnect this process from its cluster, or give that up if it takes too long."""
    import ray

    try:
        within(SHUTDOWN_SECONDS, ray.shutdown)
    except TimeoutError:
        give_up()
    _print_messages_of_nodes(True)


def _print_messages_of_nodes(is_on: bool) -> None:
    """Set whether Ray prints to standard output what nodes report, such as their death."""
    from ray._private import worker

    if hasattr(worker, "_worker_logs_enabled"):
        worker._worker_logs_enabled = is_on


def give_up() -> None:
    """Prepare this process to exit although a call of Ray was left behind.

    At exit, Ray would wait for its cluster, and Python would crash because of the thread in Ray. The process
    therefore ends without either, with the exit code of an InputError.
    """
    import ray

    atexit.unregister(ray.shutdown)
    atexit.unregister(_end_at_once)
    atexit.register(_end_at_once)


def _end_at_once() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(InputError.exit_code)


def within(seconds: float, call: Callable[[], T]) -> T:
    """The result of a function that cannot be interrupted, within a time limit.

    If it takes too long, it is left behind in its thread, and TimeoutError is raised.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def try_it() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=try_it, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError
    if errors:
        raise errors[0]
    return results[0]


def answers(address: str) -> bool:
    """Whether a server at host:port reacts to what is sent; a stopped process only accepts connections."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CHECK_SECONDS) as connection:
            connection.sendall(_HTTP2_GREETING)
            # A server that expects TLS closes the connection, which is a reaction too.
            connection.recv(1)
    except ConnectionResetError:
        return True
    except OSError:
        return False
    return True
