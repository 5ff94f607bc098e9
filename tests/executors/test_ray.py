"""Ray: two nodes on one machine give the same bytes, even if a node is lost."""

import logging
import os
import socket
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

ray = pytest.importorskip("ray")

from ray.cluster_utils import Cluster  # noqa: E402
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: E402

from divea.api import align  # noqa: E402
from divea.errors import InputError  # noqa: E402
from divea.executors import Failed, FailureKind, base, check_executor  # noqa: E402
from divea.executors import ray as ray_module  # noqa: E402
from divea.executors.ray import Ray  # noqa: E402
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
    cluster, folder, jobs, expected, odd, tmp_path, monkeypatch, model
):
    monkeypatch.setattr(ray_module, "KILL_SECONDS", 1.0)
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
from dataclasses import replace
from pathlib import Path
from divea.executors.ray import Ray
from tests.executors.small import run_jobs, small_jobs

executor = Ray(workers=1)
job = replace(small_jobs()[0], threads=3, memory=1 << 40)  # more than this machine has
run_jobs(executor, Path(sys.argv[1]), [job])

def sockets(process):
    return {os.readlink(file) for file in Path("/proc", process, "fd").iterdir() if file.is_symlink()}

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
from divea.executors import ray
ray.CONNECT_SECONDS = 3.0
ray.CHECK_SECONDS = 1.0
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
        ("silent", "executor.address: no Ray cluster answers at 127.0.0.1:"),
    ],
)
def test_an_address_without_a_cluster_is_refused_in_time(address, message):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        found = in_new_process(CONNECT, f"127.0.0.1:{port}" if address == "silent" else address)
    assert found.stdout.startswith(message), found.stderr
    assert found.stdout.count("\n") == 1


LOST_HEAD = """
import os, signal, sys
from pathlib import Path
from divea.errors import InputError
from divea.executors import ray
from tests.executors.small import small_jobs
ray.CHECK_SECONDS = 0.2
executor = ray.Ray(workers=1)
results = executor.run(Path(sys.argv[1]), small_jobs())
next(results)
children = Path("/proc/self/task", str(os.getpid()), "children").read_text().split()
for child in children:
    if Path("/proc", child, "comm").read_text().strip() in ("gcs_server", "raylet"):
        os.kill(int(child), signal.SIGKILL)
try:
    list(results)
except InputError as error:
    print(error)
executor.close()
"""


@pytest.mark.slow
def test_a_head_node_that_is_lost_is_told(folder):
    found = in_new_process(LOST_HEAD, folder)
    assert found.returncode == 0, found.stderr
    assert "is gone; what was solved is kept, and the same command continues the run" in found.stdout
