"""Fixtures of all tests of runs."""

import os

import pytest

from tests.runs.tiny import write_inputs


@pytest.fixture(scope="module", autouse=True)
def without_fsync():
    """Does not wait for the disk, which takes half of the time of a tiny run.

    The tests of bad disks run other processes, whose library counts the calls and does not wait either.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The command that aligns the tiny task, without --out."""
    return write_inputs(tmp_path_factory.mktemp("inputs"))
