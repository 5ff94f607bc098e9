"""Worker processes: the same bytes whatever happens to them, and nothing is left of them."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from divea.api import align
from divea.run.executors import check_executor
from divea.run.executors.local import Local
from divea.run.jobs import Done, Failed
from tests.run.conftest import ROOT, bytes_of, is_alive, solved, tries
from tests.run.tiny import PAIR, SETTINGS, tables


@pytest.fixture(scope="module")
def local(offered):
    """Two workers for all tests: what is left of those that went wrong must not matter."""
    executor = Local(2, timeout=6)
    yield executor
    executor.close()


def test_contract(local):
    check_executor(local)


@pytest.mark.parametrize("workers", [1, 4])
def test_any_number_of_workers(folder, jobs, expected, workers):
    executor = Local(workers)
    try:
        assert solved(executor, folder, jobs) == expected
    finally:
        executor.close()


def test_whole_runs_are_the_same(tmp_path):
    """Through the loop and the run directory to the tables."""
    found = []
    for name, workers in (("inline", None), ("local", 2), ("local", 4)):
        run = tmp_path / f"{name}-{workers}"
        align(PAIR.task, out=run, executor=name, workers=workers, device="cpu", **{**SETTINGS, "subtasks": 5})
        found.append(tables(run))
    assert found[0] == found[1] == found[2]


def by_position(results):
    return {result.position: result for result in results}


def test_a_worker_that_is_killed_is_replaced(local, folder, jobs, expected, odd, tmp_path):
    assert solved(local, folder, [odd(jobs[0], "dies"), *jobs[1:]]) == expected
    assert len(tries(tmp_path)) == 2, "the job was tried once more"


def test_a_worker_killed_from_outside(local, folder, jobs, expected, odd, tmp_path):
    def kill():
        wait_until(lambda: tries(tmp_path))  # the hanging job is at it
        os.kill(int(tries(tmp_path)[0].split("-")[2]), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    assert solved(local, folder, [odd(jobs[0], "hangs"), *jobs[1:]]) == expected
    killer.join()
    assert len(tries(tmp_path)) == 2


def test_a_job_that_kills_its_workers_is_divided_before_it_is_given_up(local, folder, jobs, odd):
    result = by_position(local.run(folder, [odd(jobs[0], "dies", 2)]))[0]
    assert isinstance(result, Done)
    assert "divided further" in result.notes[0]
    assert result.solved[0].matches.source.tolist() == jobs[0].subtasks[0].unmatched.tolist()


def test_a_job_that_always_dies_is_set_aside(local, folder, jobs, expected, odd):
    results = by_position(local.run(folder, [odd(jobs[0], "dies", 100), *jobs[1:]]))
    assert isinstance(results[0], Failed)
    assert results[0].log.count("was ended by SIGKILL") == 3
    assert bytes_of([results[place].solved for place in (1, 2, 3)]) == expected[1:]


def test_a_job_that_always_raises_is_set_aside(local, folder, jobs, expected, odd, tmp_path):
    results = by_position(local.run(folder, [odd(jobs[0], "raises", 100), *jobs[1:]]))
    assert results[0].log.count("RuntimeError: as odd as promised") == 3
    assert len({name.split("-")[1] for name in tries(tmp_path)}) == 3
    assert bytes_of([results[place].solved for place in (1, 2, 3)]) == expected[1:]


def test_a_hung_job_is_timed_out_and_tried_again(local, folder, jobs, expected, odd):
    assert solved(local, folder, [odd(jobs[0], "hangs"), *jobs[1:]]) == expected


def test_a_job_that_always_hangs_is_set_aside_with_the_place(local, folder, jobs, odd):
    (result,) = local.run(folder, [odd(jobs[0], "hangs", 100)])
    assert isinstance(result, Failed)
    assert "Timeout" in result.log
    assert "go_wrong" in result.log, "the log says where it hung"


@pytest.mark.parametrize(("end", "whole_group"), [(signal.SIGKILL, False), (signal.SIGINT, True)])
def test_no_orphans(folder, jobs, offered, tmp_path, end, whole_group):
    """The parent is killed, or Ctrl-C is pressed, while its workers are at it."""
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            from dataclasses import replace
            from pathlib import Path
            from divea.run.executors.local import Local
            from tests.run.parent import jobs_in

            # Without a guard against being run twice, as users write it.
            folder, place = map(Path, sys.argv[1:])
            options = {"place": str(place), "times": 100}
            jobs = [replace(job, model="hangs", options=options) for job in jobs_in(folder)]
            list(Local(2).run(folder, jobs))
            """
        )
    )
    place = tmp_path / "traces"
    place.mkdir()
    path = os.pathsep.join([str(offered), str(ROOT), str(ROOT / "src")])
    process = subprocess.Popen(
        [sys.executable, str(script), str(folder), str(place)],
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: len(tries(place)) >= 2)
    workers = [int(name.split("-")[2]) for name in tries(place)]
    assert all(map(is_alive, workers))
    if whole_group:
        os.killpg(process.pid, end)
    else:
        process.send_signal(end)
    process.wait(timeout=30)
    wait_until(lambda: not any(map(is_alive, workers)))


def wait_until(happened, seconds=90):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)
