"""Clusters of our own, as far as they can be tested without Ray."""

import os
import resource
import subprocess

import pytest

from divea.errors import InputError
from divea.executors import ray_cluster
from divea.executors.ray_cluster import OwnCluster


@pytest.fixture
def many_files():
    """More open files than select() can handle."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < 2048:
        pytest.skip("the system allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, before[1]))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    yield
    for descriptor in opened:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def cluster_that(program):
    """A cluster whose keeper is a shell program."""
    cluster = OwnCluster.__new__(OwnCluster)
    cluster._keeper = subprocess.Popen(
        ["sh", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    return cluster


def test_an_address_is_read_although_many_files_are_open(many_files):
    cluster = cluster_that("echo address 127.0.0.1:6379")
    assert cluster._keeper.stdout.fileno() > 1023
    try:
        assert cluster.address() == "127.0.0.1:6379"
    finally:
        cluster.end()


def test_a_cluster_that_does_not_start_is_told(monkeypatch):
    monkeypatch.setattr(ray_cluster, "START_SECONDS", 0.1)
    cluster = cluster_that("sleep 60")
    try:
        with pytest.raises(InputError, match="did not start a cluster"):
            cluster.address()
    finally:
        cluster.end()
