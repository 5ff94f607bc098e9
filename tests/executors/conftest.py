"""A small task in a folder, jobs on it, and odd models that are installed like a plug-in."""

from functools import partial

import pytest

from divea.executors.inline import Inline
from divea.graphs import save_task
from tests.executors.odd_models import install_odd_models, odd_job
from tests.executors.small import TASK, run_jobs, small_jobs


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The folder of the small task."""
    path = tmp_path_factory.mktemp("run") / "task"
    save_task(TASK, path)
    return path


@pytest.fixture(scope="session")
def jobs():
    return small_jobs()


@pytest.fixture(scope="session")
def expected(folder, jobs):
    """The bytes of each job's results."""
    return run_jobs(Inline(), folder, jobs)


@pytest.fixture(scope="module")
def odd_models(tmp_path_factory):
    """Puts the odd models on the path, which worker processes inherit."""
    plugin = tmp_path_factory.mktemp("plug-in")
    install_odd_models(plugin)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(plugin))
        yield


@pytest.fixture
def odd(odd_models, tmp_path):
    """Gives a job a model that fails; its traces are in `tmp_path`."""
    return partial(odd_job, traces=tmp_path)
