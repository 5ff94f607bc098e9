"""Fixtures of all tests of runs."""

import os

import pytest


@pytest.fixture(scope="module", autouse=True)
def without_fsync():
    """Does not wait for the disk: that protects a run from a power failure, which no test brings about.

    Waiting takes half of the time of a tiny run. The tests of bad disks do wait.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield
