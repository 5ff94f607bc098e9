"""Ray: two nodes on one machine, the same bytes, also when a node is lost."""

import logging
import os
import threading

import pytest

ray = pytest.importorskip("ray")

from ray.cluster_utils import Cluster  # noqa: E402

from divea.api import align  # noqa: E402
from divea.errors import InputError  # noqa: E402
from divea.run.executors import check_executor  # noqa: E402
from divea.run.executors.ray import Ray  # noqa: E402
from divea.run.jobs import Failed  # noqa: E402
from tests.run.conftest import ROOT, bytes_of, solved, tries  # noqa: E402
from tests.run.test_local import wait_until  # noqa: E402
from tests.run.tiny import PAIR, SETTINGS, tables  # noqa: E402

STORE = 80 << 20  # the least that Ray accepts, almost


@pytest.fixture(scope="module")
def cluster(offered):
    with pytest.MonkeyPatch.context() as patch:
        path = os.pathsep.join([str(offered), str(ROOT), str(ROOT / "src")])
        patch.setenv("PYTHONPATH", path)
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


def test_contract(executor):
    check_executor(executor)


def test_whole_runs_are_the_same(executor, tmp_path):
    """Through the loop and the run directory to the tables."""
    for name in ("inline", "ray"):
        align(PAIR.task, out=tmp_path / name, executor=name, device="cpu", **SETTINGS)
    assert tables(tmp_path / "inline") == tables(tmp_path / "ray")


def test_graphs_through_the_object_store(executor, folder, jobs, expected, monkeypatch, tmp_path):
    """Nodes that do not see the run directory."""
    monkeypatch.setattr(executor, "folder_on_nodes", lambda folder: tmp_path / "elsewhere")
    assert solved(executor, folder, jobs) == expected


def test_a_job_that_kills_its_worker_is_tried_again(executor, folder, jobs, expected, odd, tmp_path):
    assert solved(executor, folder, [odd(jobs[0], "dies"), *jobs[1:]]) == expected
    assert len(tries(tmp_path)) == 2


def test_a_job_that_always_goes_wrong_is_set_aside(executor, folder, jobs, expected, odd, tmp_path):
    for model in ("raises", "dies"):
        place = tmp_path / model
        place.mkdir()
        bad = odd(jobs[0], model, 100)
        bad.options["place"] = str(place)
        results = {result.position: result for result in executor.run(folder, [bad, *jobs[1:]])}
        assert isinstance(results[0], Failed)
        assert results[0].log
        assert len({name.split("-")[2] for name in tries(place)}) >= (1 if model == "raises" else 3)
        assert bytes_of([results[position].solved for position in (1, 2, 3)]) == expected[1:]


def test_a_hung_job_is_timed_out(cluster, folder, jobs, expected, odd):
    assert solved(Ray(timeout=10), folder, [odd(jobs[0], "hangs"), *jobs[1:]]) == expected


def test_a_cluster_without_room_is_said(executor, folder, jobs, odd):
    from dataclasses import replace

    with pytest.raises(InputError, match="no node of the Ray cluster has room"):
        list(executor.run(folder, [replace(jobs[0], threads=99)]))


def test_a_node_removed_in_the_middle(cluster, executor, folder, jobs, expected, odd, tmp_path):
    """A third node gets the job that hangs, and is lost with it."""
    node = cluster.add_node(num_cpus=1, object_store_memory=STORE, resources={"third": 1})
    cluster.wait_for_nodes()

    def needs(job, *, in_pieces):
        asked = Ray._needs(executor, job, in_pieces=in_pieces)
        # The first try of the hanging job goes to the node that will be lost.
        if job.model == "hangs" and not tries(tmp_path):
            asked["scheduling_strategy"] = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                node.node_id, soft=True
            )
        return asked

    def remove():
        wait_until(lambda: tries(tmp_path))
        cluster.remove_node(node, allow_graceful=False)

    executor._needs = needs
    remover = threading.Thread(target=remove)
    remover.start()
    assert solved(executor, folder, [odd(jobs[0], "hangs"), *jobs[1:]]) == expected
    remover.join()
    assert len(tries(tmp_path)) == 2
    assert sum(found["Alive"] for found in ray.nodes()) == 2
