"""Ray: two nodes on one machine give the same bytes, even if a node is lost."""

import contextlib
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

ray = pytest.importorskip("ray")

from ray.cluster_utils import Cluster  # noqa: E402
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: E402

from divea.api import align  # noqa: E402
from divea.division import Whole  # noqa: E402
from divea.errors import InputError  # noqa: E402
from divea.executors import (  # noqa: E402
    Failed,
    FailureKind,
    base,
    check_executor,
    ray_cluster,
)
from divea.executors.ray import Ray  # noqa: E402
from divea.graphs import Links, load_task  # noqa: E402
from divea.graphs.storage import open_stored  # noqa: E402
from divea.runs.solver import divider  # noqa: E402
from tests.executors.odd_models import tries  # noqa: E402
from tests.executors.processes import wait_until  # noqa: E402
from tests.executors.small import result_bytes, run_jobs  # noqa: E402
from tests.runs.tiny import PAIR, SETTINGS, tables  # noqa: E402

STORE = 80 << 20
"""Bytes of a node's object store, about the least that Ray accepts."""


@pytest.fixture(scope="module")
def cluster(odd_models):
    """Two nodes with one core each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        nodes = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False},
        )
        nodes.add_node(num_cpus=1, object_store_memory=STORE)
        ray.init(address=nodes.address, log_to_driver=False, logging_level=logging.ERROR)
        nodes.wait_for_nodes()
        yield nodes
        ray.shutdown()
        nodes.shutdown()


@pytest.fixture
def executor(cluster):
    return Ray(timeout=60)


def test_it_meets_the_contract(executor):
    check_executor(executor)


def test_whole_runs_are_the_same(executor, tmp_path):
    for name in ("inline", "ray"):
        align(PAIR.task, out=tmp_path / name, executor=name, device="cpu", **SETTINGS)
    assert tables(tmp_path / "inline") == tables(tmp_path / "ray")


def test_nodes_that_do_not_see_the_run_directory_receive_the_graphs(
    executor, folder, jobs, expected, monkeypatch, tmp_path
):
    monkeypatch.setattr(executor, "folder_on_nodes", lambda folder: tmp_path / "elsewhere")
    assert run_jobs(executor, folder, jobs) == expected


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_a_job_whose_worker_is_killed_gives_the_same_bytes(
    executor, folder, jobs, expected, odd, tmp_path, kills
):
    results = {
        result.position: result
        for result in executor.run(folder, [odd(jobs[0], "dies", times=kills), *jobs[1:]])
    }
    assert [result_bytes(results[position].solved) for position in range(4)] == expected
    assert not results[0].divided
    assert len(tries(tmp_path)) == kills + 1


@pytest.mark.parametrize(
    ("model", "kind", "count"), [("raises", FailureKind.ERROR, 3), ("dies", FailureKind.LOST_WORKER, 4)]
)
def test_a_job_that_always_fails_fails_alone(
    executor, folder, jobs, expected, odd, tmp_path, monkeypatch, model, kind, count
):
    monkeypatch.setattr(base, "LOSSES", 4)
    bad = odd(jobs[0], model, times=100)
    results = {result.position: result for result in executor.run(folder, [bad, *jobs[1:]])}
    assert isinstance(results[0], Failed)
    assert results[0].kind == kind
    assert results[0].reason.endswith(f"({count} times)")
    assert "\n" not in results[0].reason
    assert len(tries(tmp_path)) == count
    assert [result_bytes(results[position].solved) for position in (1, 2, 3)] == expected[1:]


@pytest.mark.parametrize("model", ["hangs", "stops"])
def test_a_job_that_hangs_or_is_stopped_is_ended_and_tried_again(
    cluster, folder, jobs, expected, odd, tmp_path, model
):
    assert run_jobs(Ray(timeout=10), folder, [odd(jobs[0], model), *jobs[1:]]) == expected
    assert len(tries(tmp_path)) == 2


def test_a_job_that_always_hangs_fails_and_its_log_says_where(cluster, folder, jobs, odd):
    (result,) = Ray(timeout=5).run(folder, [odd(jobs[0], "hangs", times=100)])
    assert isinstance(result, Failed)
    assert result.kind == FailureKind.TIMEOUT
    assert result.reason == "timeout: the job took longer than 5 s (3 times)"
    assert "in fail" in result.log


def test_a_cluster_without_room_for_a_job_is_refused(executor, folder, jobs):
    message = "no node of the Ray cluster has room for a job: it takes 99 CPU"
    with pytest.raises(InputError, match=message):
        list(executor.run(folder, [replace(jobs[0], threads=99)]))


def test_a_job_on_a_node_that_is_lost_is_tried_again(
    cluster, executor, folder, jobs, expected, tmp_path, odd, monkeypatch
):
    """A third node gets the job that hangs, and is lost with it."""
    node = cluster.add_node(num_cpus=1, object_store_memory=STORE, resources={"third": 1})
    cluster.wait_for_nodes()

    def needs(job):
        found = Ray.needs(executor, job)
        if job.model.name == "hangs" and not tries(tmp_path):
            found["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node.node_id, soft=True)
        return found

    def remove():
        wait_until(lambda: tries(tmp_path))
        cluster.remove_node(node, allow_graceful=False)

    monkeypatch.setattr(executor, "needs", needs)
    remover = threading.Thread(target=remove)
    remover.start()
    assert run_jobs(executor, folder, [odd(jobs[0], "hangs"), *jobs[1:]]) == expected
    remover.join()
    assert len(tries(tmp_path)) == 2
    wait_until(lambda: sum(found["Alive"] for found in ray.nodes()) == 2)


def process_of(item):
    time.sleep(0.05)
    return os.getpid()


def test_functions_are_mapped_on_the_nodes(executor, folder):
    processes = set(executor.mapper(folder)(process_of, range(20)))
    assert os.getpid() not in processes
    assert len(processes) > 1


def test_items_of_nodes_that_do_not_see_the_run_directory_stay_here(executor, folder, monkeypatch, tmp_path):
    monkeypatch.setattr(executor, "folder_on_nodes", lambda folder: tmp_path / "elsewhere")
    assert set(executor.mapper(folder)(process_of, range(4))) == {os.getpid()}


class Somewhere(Whole):
    """No division; a note says in which process it was made."""

    def divide(self, task, feedback=None):
        return replace(super().divide(task, feedback), notes=(str(os.getpid()), str(len(task.seeds))))


def test_a_task_is_divided_on_a_node(executor, folder):
    visible = replace(load_task(folder), seeds=Links.from_pairs([]))
    divide = divider(executor.mapper(folder), open_stored(folder))
    process, seeds = divide(Somewhere(), visible, None).notes
    assert process != str(os.getpid())
    assert seeds == "0"


def left_behind(item):
    """Twice the number; on one of the nodes, a trace and a call that never ends."""
    number, node, traces = item
    if ray.get_runtime_context().get_node_id() == node:
        (traces / str(os.getpid())).touch()
        time.sleep(3600)
    time.sleep(0.5)  # long enough for Ray to use all nodes
    return 2 * number


def test_items_on_a_node_that_is_lost_are_tried_again(cluster, executor, folder, tmp_path):
    node = cluster.add_node(num_cpus=1, object_store_memory=STORE)
    cluster.wait_for_nodes()

    def remove():
        wait_until(lambda: any(tmp_path.iterdir()))
        cluster.remove_node(node, allow_graceful=False)

    remover = threading.Thread(target=remove)
    remover.start()
    items = [(number, node.node_id, tmp_path) for number in range(12)]
    assert list(executor.mapper(folder)(left_behind, items)) == [2 * number for number in range(12)]
    remover.join()
    assert any(tmp_path.iterdir())
    wait_until(lambda: sum(found["Alive"] for found in ray.nodes()) == 2)


def in_new_process(script, *arguments):
    """Run a script in a process of its own, because Ray is set up when it is imported."""
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


OWN_CLUSTER = """
import os, sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from divea.executors.ray import Ray
from tests.executors.small import run_jobs, small_jobs

executor = Ray(workers=1)
executor.prepare(Path(sys.argv[1]), 3)
# The cluster starts with calls that take one thread each.
assert list(executor.mapper(Path(sys.argv[1]))(abs, [-1, 2])) == [1, 2]
job = replace(small_jobs()[0], threads=3, memory=1 << 40)  # more than this machine has
run_jobs(executor, Path(sys.argv[1]), [job])

def sockets(process):
    found = set()
    with suppress(FileNotFoundError):  # the process was there for a moment only
        for file in Path("/proc", process, "fd").iterdir():
            with suppress(FileNotFoundError):
                found.add(os.readlink(file))
    return found

def children(process):
    return Path("/proc", process, "task", process, "children").read_text().split()

rays = [str(os.getpid())]
for process in rays:
    rays += children(process)
opened = set().union(*map(sockets, rays))
for name in ("tcp", "tcp6"):
    for line in Path("/proc/net", name).read_text().splitlines()[1:]:
        address, state, inode = (line.split()[column] for column in (1, 3, 9))
        if state == "0A" and f"socket:[{inode}]" in opened:
            print(address.split(":")[0])
executor.close()
"""
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}


def test_a_cluster_of_its_own_has_room_for_any_job_and_listens_on_loopback_only(folder):
    found = in_new_process(OWN_CLUSTER, folder)
    assert found.returncode == 0, found.stderr
    assert {*found.stdout.split()} <= LOOPBACK
    assert len(found.stdout.split()) >= 3  # the head node, the node, and this process


CONNECT = """
import sys
from divea.errors import InputError
from divea.executors import ray, ray_cluster
ray_cluster.CONNECT_SECONDS = 3.0
ray_cluster.CHECK_SECONDS = 1.0
try:
    ray.Ray(sys.argv[1])
except InputError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "127.0.0.1:1025",
            "executor.address: nothing answers at 127.0.0.1:1025; is the Ray cluster running?",
        ),
        (
            "no-such-host.invalid:6379",
            "executor.address: nothing answers at no-such-host.invalid:6379; is the",
        ),
        ("silent", "executor.address: nothing answers at 127.0.0.1:"),
        ("greets", "executor.address: no Ray cluster answers at 127.0.0.1:"),
    ],
)
def test_an_address_without_a_cluster_is_refused_in_time(address, message):
    with socket.create_server(("127.0.0.1", 0)) as server:
        if address == "greets":
            threading.Thread(target=greet_and_be_silent, args=(server,), daemon=True).start()
        port = server.getsockname()[1]
        found = in_new_process(CONNECT, f"127.0.0.1:{port}" if address in ("silent", "greets") else address)
    assert found.stdout.startswith(message), found.stderr
    assert found.stdout.count("\n") == 1


def greet_and_be_silent(server):
    """Answer every connection with the first frame of HTTP/2, and with nothing more."""
    connections = []
    with contextlib.suppress(OSError):
        while True:
            connections.append(server.accept()[0])
            connections[-1].sendall(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))


def test_auto_without_a_cluster_is_refused(monkeypatch, tmp_path):
    # Ray looks for processes of a cluster on this machine; other tests have one.
    probe = "raise ConnectionError('Could not find any running Ray instance')"
    monkeypatch.setattr(ray_cluster, "_PROBE", probe)
    with pytest.raises(InputError, match="cannot connect to the Ray cluster at auto: ConnectionError: Could"):
        ray_cluster.connect("auto")


def test_a_refused_connection_hints_at_the_token(monkeypatch):
    monkeypatch.setattr(ray_cluster, "answers", lambda address: True)
    probe = "raise ConnectionError('Failed to connect to Ray cluster at 10.0.0.1:6379')"
    monkeypatch.setattr(ray_cluster, "_PROBE", probe)
    with pytest.raises(InputError, match=r"6379; if it requires a token, set RAY_AUTH_MODE=token$"):
        ray_cluster.connect("10.0.0.1:6379")


def test_a_stopped_server_does_not_answer_although_it_accepts_connections(monkeypatch):
    monkeypatch.setattr(ray_cluster, "CHECK_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not ray_cluster.answers(f"127.0.0.1:{server.getsockname()[1]}")


def test_a_server_that_hangs_up_answers():
    """So does the head node of a cluster with TLS, if it is greeted without."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=lambda: server.accept()[0].close()).start()
        assert ray_cluster.answers(f"127.0.0.1:{server.getsockname()[1]}")


def test_a_call_that_takes_too_long_is_left_behind():
    release = threading.Event()
    with pytest.raises(TimeoutError):
        ray_cluster.within(0.1, release.wait)
    release.set()
    ray_cluster.within(10, release.wait)
    with pytest.raises(ZeroDivisionError):
        ray_cluster.within(10, lambda: 1 / 0)


# A cluster that is disturbed while it starts. The limits are shorter than those of users.

DISTURBED = """
import os, signal, sys, threading, time
from pathlib import Path
from divea.errors import InputError
from divea.executors import ray, ray_cluster
from tests.executors.small import run_jobs, small_jobs

ray_cluster.START_SECONDS = float(sys.argv[4])
name, number, times = sys.argv[2], getattr(signal, sys.argv[3]), int(sys.argv[5])
seen = {}  # command lines, by process; those that lost their parent are kept
hit = []

def watch():
    while True:
        known = [os.getpid(), *seen]
        for process in known:
            try:
                found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
                known += [int(child) for child in found if int(child) not in known]
                seen[process] = Path(f"/proc/{process}/cmdline").read_bytes().decode()
                is_meant = seen[process].split("\\0")[0].endswith(name) and process not in hit
                if len(hit) < times and is_meant:
                    os.kill(process, number)
                    hit.append(process)
            except OSError:
                pass
        time.sleep(0.01)

threading.Thread(target=watch, daemon=True).start()
executor = ray.Ray(workers=1)
try:
    assert len(run_jobs(executor, Path(sys.argv[1]), small_jobs()[:1])) == 1
    print("solved")
except InputError as error:
    print(error)
executor.close()
assert len(hit) == times, "nothing was disturbed"
others = [process for process in list(seen) if process != os.getpid()]
for process in others:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        continue
    print("" if state == "Z" else f"{process} is left: {seen[process]}\\n", end="")
"""


@pytest.mark.parametrize(
    ("name", "number"), [("ray::IDLE", "SIGKILL"), ("gcs_server", "SIGKILL"), ("raylet/raylet", "SIGSTOP")]
)
def test_a_cluster_that_loses_a_process_while_it_starts_is_started_again(folder, name, number):
    found = in_new_process(DISTURBED, folder, name, number, 25, 1)
    assert (found.stdout, found.returncode) == ("solved\n", 0), found.stderr


def test_a_cluster_that_never_starts_is_one_error_and_leaves_no_process(folder):
    found = in_new_process(DISTURBED, folder, "gcs_server", "SIGSTOP", 6, 2)
    message = "Ray did not start a cluster on this machine within 6 s\n"
    assert (found.stdout, found.returncode) == (message, 0), found.stderr


def test_an_error_of_ray_at_the_start_is_one_line(monkeypatch):
    """Ray refuses a negative number of CPUs."""
    with pytest.raises(InputError, match=r"^Ray cannot start a cluster on this machine: [^\n]+$"):
        ray_cluster.start_cluster(-1)


LOST_HEAD = """
import os, signal, sys
from pathlib import Path
from divea.errors import InputError
from divea.executors import ray, ray_cluster
from tests.executors.small import small_jobs
ray.CHECK_SECONDS, ray_cluster.CHECK_SECONDS, ray_cluster.SHUTDOWN_SECONDS = 0.2, 1.0, 5.0
executor = ray.Ray(workers=1)
results = executor.run(Path(sys.argv[1]), small_jobs())
next(results)
found = [os.getpid()]
for process in found:
    try:
        found += map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())
        if Path(f"/proc/{process}/comm").read_text().strip() in sys.argv[3:]:
            os.kill(process, getattr(signal, sys.argv[2]))
    except OSError:
        pass
try:
    list(results)
except InputError as error:
    print(error)
executor.close()
sys.exit(2)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "names"),
    [
        ("SIGKILL", ["gcs_server", "raylet"]),
        ("SIGKILL", ["gcs_server"]),
        ("SIGKILL", ["raylet"]),
        ("SIGSTOP", ["gcs_server"]),
    ],
    ids=str,
)
def test_a_head_node_that_is_lost_is_told(folder, number, names):
    found = in_new_process(LOST_HEAD, folder, number, *names)
    assert found.returncode == 2, found.stderr
    assert "is gone; what was solved is kept, and the same call continues the run" in found.stdout
    assert found.stdout.count("\n") == 1
