"""The program of the process that starts a Ray cluster for a run, and keeps it until the run ends.

`ray.init` may wait for ever if a process of Ray is lost while Ray starts, and no signal interrupts it. It is
therefore called here, in a process that can be killed. All processes of the cluster are in the session of
this one, and end with it.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

LOOPBACK = "127.0.0.1"

KILL_SECONDS = 10.0
"""Time after which killed processes that have still not ended are left to the system."""


def main(cpus: int | None) -> None:
    """Start a cluster, print its address or why it did not start, and wait until the parent ends."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Standard output is for the address alone.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import ray

    try:
        ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.WARNING,
            _node_ip_address=LOOPBACK,
        )
        text = f"address {ray.get_runtime_context().gcs_address}"
    except Exception as error:  # Ray raises errors of any kind
        lines = str(error).strip().splitlines() or [type(error).__name__]
        text = f"failed {lines[0]}"
    answer.write(f"{text}\n")
    answer.close()
    threading.Event().wait()


def _end_with_parent() -> None:
    """End the cluster when standard input closes, which happens when the parent ends, however it ends."""
    sys.stdin.read()
    kill_session(os.getpid())


def kill_session(leader: int) -> None:
    """Kill all processes of a session, the leader last if it is this process.

    Ray's workers have process groups of their own, and orphaned workers are not below any of its processes.
    """
    end = time.monotonic() + KILL_SECONDS
    while (found := _of_session(leader)) and time.monotonic() < end:
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.02)
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _of_session(leader: int) -> list[int]:
    """The other processes of a session, without those that have ended; none where there is no /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state not in "ZX":
                found.append(int(folder.name))
    return [process for process in found if process != os.getpid()]


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else None)
