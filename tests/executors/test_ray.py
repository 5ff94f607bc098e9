"""Ray: two nodes on one machine give the same bytes, even if a node is lost."""

import logging
import os
import sys
import threading
from dataclasses import replace

import pytest

ray = pytest.importorskip("ray")

from ray.cluster_utils import Cluster  # noqa: E402
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: E402

from divea.api import align  # noqa: E402
from divea.errors import InputError  # noqa: E402
from divea.executors import Failed, check_executor  # noqa: E402
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


def test_a_job_that_kills_its_worker_is_tried_again(executor, folder, jobs, expected, odd, tmp_path):
    assert run_jobs(executor, folder, [odd(jobs[0], "dies"), *jobs[1:]]) == expected
    assert len(tries(tmp_path)) == 2


@pytest.mark.parametrize(("model", "processes"), [("raises", 1), ("dies", 3)])
def test_a_job_that_always_fails_fails_alone(
    executor, folder, jobs, expected, odd, tmp_path, model, processes
):
    bad = odd(jobs[0], model, times=100)
    results = {result.position: result for result in executor.run(folder, [bad, *jobs[1:]])}
    assert isinstance(results[0], Failed)
    assert results[0].log
    assert len({found.process for found in tries(tmp_path)}) >= processes
    assert [result_bytes(results[position].solved) for position in (1, 2, 3)] == expected[1:]


def test_a_job_that_hangs_is_stopped_and_tried_again(cluster, folder, jobs, expected, odd, tmp_path):
    assert run_jobs(Ray(timeout=10), folder, [odd(jobs[0], "hangs"), *jobs[1:]]) == expected
    assert len(tries(tmp_path)) == 2


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

    def needs(job, *, in_pieces):
        found = Ray.needs(executor, job, in_pieces=in_pieces)
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
    assert sum(found["Alive"] for found in ray.nodes()) == 2
