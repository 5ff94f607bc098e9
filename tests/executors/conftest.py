"""A small task in a folder, jobs on it, and odd models offered the way other packages offer theirs."""

from dataclasses import replace
from pathlib import Path

import pytest

from divea.graphs.storage import save_task
from divea.run.executors.inline import Inline
from tests.models.planted import planted
from tests.run.parent import jobs_in

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def task():
    return planted(seed=4, entities=120, triples=500, seeds=30)[0]


@pytest.fixture(scope="session")
def folder(task, tmp_path_factory):
    place = tmp_path_factory.mktemp("run") / "task"
    save_task(task, place)
    return place


@pytest.fixture(scope="session")
def jobs(folder):
    return jobs_in(folder)


@pytest.fixture(scope="session")
def expected(folder, jobs):
    return solved(Inline(), folder, jobs)


@pytest.fixture(scope="module")
def offered(tmp_path_factory):
    """A folder on the path that offers the odd models by entry points."""
    place = tmp_path_factory.mktemp("plug-in")
    facts = place / "odd_models-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-models\nVersion: 1.0\n")
    names = {"raises": "Raises", "dies": "Dies", "hangs": "Hangs", "runs-out": "RunsOut"}
    lines = [f"{name} = tests.run.odd_models:{kind}" for name, kind in names.items()]
    (facts / "entry_points.txt").write_text("\n".join(["[divea.models]", *lines]))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        patch.syspath_prepend(str(place))
        yield place


@pytest.fixture
def odd(offered, tmp_path):
    """Turns a job into one whose model goes wrong a number of times."""

    def change(job, model, times=1):
        return replace(job, model=model, options={"place": str(tmp_path), "times": times})

    return change


def bytes_of(results):
    return [
        [
            array.tobytes()
            for item in result
            for array in (item.matches.source, item.matches.target, item.matches.score, item.top_sums)
        ]
        for result in results
    ]


def solved(executor, folder, jobs):
    """The bytes of all results, in the order of the jobs."""
    results = {result.position: result for result in executor.run(folder, jobs)}
    assert sorted(results) == list(range(len(jobs)))
    return bytes_of([results[position].solved for position in range(len(jobs))])


def is_alive(process):
    """Whether a process runs: one that nobody has waited for yet is dead all the same."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def tries(place):
    return sorted(trace.name for trace in Path(place).iterdir())
