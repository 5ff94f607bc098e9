"""Worker processes: they give the same bytes whatever happens to them, and none is left behind."""

import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from divea.api import align
from divea.errors import InputError, SubtaskError
from divea.executors import Done, Failed, FailureKind, base, check_executor, make_jobs
from divea.executors import local as local_module
from divea.executors.job import Rehearsal
from divea.executors.local import Local, _started
from divea.executors.template import WORKER_NAME, Fork, Template
from divea.graphs.storage import StoredTask
from divea.models import make_model
from tests.executors.odd_models import tries
from tests.executors.processes import is_alive, wait_until
from tests.executors.small import SETTINGS as SMALL_SETTINGS
from tests.executors.small import TASK, result_bytes, run_jobs, small_work
from tests.runs.tiny import PAIR, SETTINGS, tables


@pytest.fixture(scope="module")
def local(odd_models):
    """Two workers for all tests, because starting a worker takes longer than any of them.

    The state that an earlier test leaves the workers in, some dead and some idle, must not matter.
    """
    executor = Local(2)
    yield executor
    executor.close()


def test_it_meets_the_contract(local):
    check_executor(local)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3, 4, 8])
def test_any_number_of_workers_gives_the_same_bytes(folder, jobs, expected, workers):
    executor = Local(workers)
    try:
        assert run_jobs(executor, folder, jobs) == expected
    finally:
        executor.close()


@pytest.mark.parametrize("workers", [[1], pytest.param([2, 4], marks=pytest.mark.slow)])
def test_whole_runs_are_the_same_with_any_number_of_workers(tmp_path, workers):
    changes = {**SETTINGS, "subtasks": 5}
    align(PAIR.task, out=tmp_path / "inline", executor="inline", device="cpu", **changes)
    for count in workers:
        run = tmp_path / f"local-{count}"
        align(PAIR.task, out=run, executor="local", workers=count, device="cpu", **changes)
        assert tables(run) == tables(tmp_path / "inline")


def results_by_position(executor, folder, jobs):
    return {result.position: result for result in executor.run(folder, jobs)}


def test_a_worker_that_is_killed_is_replaced(local, folder, jobs, expected, odd, tmp_path):
    assert run_jobs(local, folder, [odd(jobs[0], "dies"), *jobs[1:]]) == expected
    assert len(tries(tmp_path)) == 2


@pytest.mark.slow
def test_a_worker_that_is_killed_from_outside_is_replaced(local, folder, jobs, expected, odd, tmp_path):
    def kill():
        wait_until(lambda: tries(tmp_path))
        os.kill(tries(tmp_path)[0].process, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    assert run_jobs(local, folder, [odd(jobs[0], "hangs"), *jobs[1:]]) == expected
    killer.join()
    assert len(tries(tmp_path)) == 2


@pytest.mark.parametrize("kills", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_a_job_whose_worker_is_killed_many_times_gives_the_same_bytes(
    local, folder, jobs, expected, odd, tmp_path, kills
):
    """Workers that are lost are no reason to solve a job in another way."""
    results = results_by_position(local, folder, [odd(jobs[0], "dies", times=kills), *jobs[1:]])
    assert [result_bytes(results[position].solved) for position in range(4)] == expected
    assert not results[0].divided
    assert len(tries(tmp_path)) == kills + 1


@pytest.mark.slow
def test_a_job_that_always_dies_fails_alone(local, folder, jobs, expected, odd, monkeypatch):
    monkeypatch.setattr(base, "LOSSES", 5)
    results = results_by_position(local, folder, [odd(jobs[0], "dies", times=100), *jobs[1:]])
    assert isinstance(results[0], Failed)
    assert results[0].kind == FailureKind.LOST_WORKER
    assert results[0].reason == "worker was ended by SIGKILL (5 times)"
    assert results[0].log.count("was ended by SIGKILL") == 5
    assert [result_bytes(results[position].solved) for position in (1, 2, 3)] == expected[1:]


def test_a_job_that_always_raises_fails_alone(local, folder, jobs, expected, odd, tmp_path):
    results = results_by_position(local, folder, [odd(jobs[0], "raises", times=100), *jobs[1:]])
    assert isinstance(results[0], Failed)
    assert results[0].kind == FailureKind.ERROR
    assert results[0].reason == "RuntimeError: as odd as promised (3 times)"
    assert results[0].log.count("RuntimeError: as odd as promised") == 3
    assert [found.number for found in tries(tmp_path)] == [0, 1, 2]
    assert [result_bytes(results[position].solved) for position in (1, 2, 3)] == expected[1:]


@pytest.fixture
def impatient(local, folder, jobs, monkeypatch):
    """The two workers, warmed up so that they solve a job in far less than the timeout."""
    run_jobs(local, folder, jobs[:2])
    monkeypatch.setattr(local, "timeout", 1.0)
    return local


def test_a_job_that_hangs_is_stopped_and_tried_again(impatient, folder, jobs, expected, odd, tmp_path):
    assert run_jobs(impatient, folder, [odd(jobs[0], "hangs"), *jobs[1:]]) == expected
    assert len(tries(tmp_path)) == 2


def test_a_job_for_which_the_system_has_no_memory_is_divided(local, folder, jobs, odd, monkeypatch):
    """Two kills that the system counts as lack of memory, as its OOM killer does."""
    counts = itertools.count()
    monkeypatch.setattr(local_module, "oom_kills", lambda: next(counts))
    (result,) = local.run(folder, [odd(jobs[0], "dies", times=2)])
    assert isinstance(result, Done)
    assert result.divided
    assert "divided further" in result.notes[0]
    assert result.solved[0].matches.source.tolist() == jobs[0].subtasks[0].unmatched.tolist()


def test_a_job_that_always_hangs_fails_and_its_log_says_where(impatient, folder, jobs, odd):
    (result,) = impatient.run(folder, [odd(jobs[0], "hangs", times=100)])
    assert isinstance(result, Failed)
    assert result.kind == FailureKind.TIMEOUT
    assert result.reason == "timeout: the job took longer than 1 s (3 times)"
    assert result.log.count("timeout: the job took longer than 1 s") == 3
    assert "in fail" in result.log


def test_a_job_whose_worker_is_stopped_is_tried_again(impatient, folder, jobs, expected, odd, tmp_path):
    """A stopped worker does not run any watchdog itself."""
    assert run_jobs(impatient, folder, [odd(jobs[0], "stops"), *jobs[1:]]) == expected
    assert len(tries(tmp_path)) == 2


@pytest.mark.slow
def test_a_job_that_always_stops_its_worker_fails(impatient, folder, jobs, odd, monkeypatch):
    monkeypatch.setattr(base, "LOSSES", 2)
    (result,) = impatient.run(folder, [odd(jobs[0], "stops", times=100)])
    assert isinstance(result, Failed)
    assert result.kind == FailureKind.STOPPED_WORKER
    assert result.reason == "stopped worker: the job took longer than 1 s (2 times)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("crashes", "worker was ended by SIGSEGV (3 times)"),
        ("exits", "worker ended with code 7: bye (3 times)"),
    ],
)
def test_a_crash_is_an_error_of_the_job(local, folder, jobs, odd, tmp_path, model, reason):
    (result,) = local.run(folder, [odd(jobs[0], model, times=100)])
    assert isinstance(result, Failed)
    assert (result.kind, result.reason) == (FailureKind.ERROR, reason)
    assert len(tries(tmp_path)) == 3


@pytest.mark.slow
def test_nothing_is_left_in_the_folder_for_temporary_files(folder, jobs, odd, tmp_path, monkeypatch):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    executor = Local(1)
    try:
        results = executor.run(folder, jobs[:1])
        assert isinstance(next(iter(results)), Done)
        assert list(temporary.iterdir()) == []
    finally:
        executor.close()


def test_a_place_for_temporary_files_that_is_missing_is_told(folder, jobs, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(
        InputError, match="no place for temporary files: No such file or directory; set TMPDIR"
    ):
        list(Local(1).run(folder, jobs[:1]))


def test_libraries_are_in_memory_once(local, folder, jobs):
    run_jobs(local, folder, jobs)
    worker = Path(f"/proc/{local._workers[0].process.pid}")
    assert (worker / "comm").read_text().strip() == WORKER_NAME
    rows = (row.split(":") for row in (worker / "smaps_rollup").read_text().splitlines()[1:])
    kibibytes = {name: int(value.split()[0]) for name, value in rows}
    assert kibibytes["Pss"] < 0.7 * kibibytes["Rss"]


def test_a_template_that_is_killed_is_replaced(local, folder, jobs, expected, odd, tmp_path):
    """The worker that is alive works on, and those that it would be needed for come from a new one."""
    run_jobs(local, folder, jobs)
    os.kill(local._template._process.pid, signal.SIGKILL)
    assert run_jobs(local, folder, [odd(jobs[0], "dies", times=3), *jobs[1:]]) == expected
    assert len(tries(tmp_path)) == 4


def test_a_stopped_template_is_replaced(folder, jobs, expected, monkeypatch):
    executor = Local(1)
    try:
        executor.prepare(folder)
        os.kill(executor._template._process.pid, signal.SIGSTOP)
        executor._template._control.settimeout(0.5)
        assert run_jobs(executor, folder, jobs) == expected
    finally:
        executor.close()


def test_workers_of_a_lost_template_are_left_to_the_system(monkeypatch):
    """A new template knows nothing about them, and goes on."""
    with tempfile.TemporaryFile() as log:
        template = Template(log)
        old = _started(0, template)
        os.kill(template._process.pid, signal.SIGKILL)
        new = _started(1, template)
        made_by = template._process
        try:
            assert new.process.parent is made_by is not old.process.parent
            assert old.process.poll() is None
            os.kill(new.process.pid, signal.SIGSEGV)
            assert new.process.wait(10) and new.process.returncode == -signal.SIGSEGV
            old.process.kill()
            assert old.process.wait(10) and old.process.returncode == -signal.SIGKILL
            # Another process may have the number by now.
            monkeypatch.setattr(Fork, "is_there", lambda self: False)
            gone = Fork(template, old.process.parent, os.getpid())
            gone.kill()
            assert gone.returncode == -signal.SIGKILL
            assert template._process is made_by and made_by.poll() is None
        finally:
            new.end()
            old.end()
            template.close()


def test_a_process_with_the_number_of_a_worker_is_told_from_it(local, folder, jobs):
    run_jobs(local, folder, jobs)
    worker = local._workers[0].process
    assert worker.is_there()
    worker._started = "1"
    assert not worker.is_there()


def test_a_template_that_cannot_fork_is_asked_again_and_then_told(folder, jobs, monkeypatch, tmp_path):
    local = Local(1)
    monkeypatch.setattr(Template, "_ask", lambda *args: b"Resource temporarily unavailable")
    with pytest.raises(InputError, match="cannot be started: Resource temporarily unavailable"):
        list(local.run(folder, jobs[:1]))
    local.close()


def test_workers_that_cannot_start_are_told(folder, jobs, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(InputError, match="worker processes cannot be started"):
        list(Local(1).run(folder, jobs[:1]))


def killed_once(item):
    """Twice the number. The process that gets the last item first ends."""
    number, trace = item
    if number == 9 and not trace.exists():
        trace.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


def process_of(item):
    return os.getpid()


def test_functions_are_mapped_in_other_processes_and_survive_a_kill(local, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(local_module, "cores", lambda: 2)
    mapper = local.mapper(folder)
    items = [(number, tmp_path / "trace") for number in range(10)]
    assert list(mapper(killed_once, items)) == [2 * number for number in range(10)]
    assert (tmp_path / "trace").exists()
    assert os.getpid() not in mapper(process_of, items)


def test_workers_that_die_are_replaced_when_more_workers_map_than_solve(
    folder, jobs, expected, odd, monkeypatch
):
    """The idle workers of a map must not count as workers for jobs: nobody would take the jobs."""
    monkeypatch.setattr(local_module, "cores", lambda: 4)
    executor = Local(1)
    try:
        assert len(set(executor.mapper(folder)(process_of, range(40)))) > 1
        assert run_jobs(executor, folder, [odd(jobs[0], "dies", times=2), *jobs[1:]]) == expected
        assert list(executor.mapper(folder)(process_of, range(4)))
    finally:
        executor.close()


def test_a_mapped_function_that_always_ends_its_process_is_an_error(local, folder, monkeypatch):
    monkeypatch.setattr(local_module, "cores", lambda: 2)
    monkeypatch.setattr(base, "LOSSES", 2)
    with pytest.raises(SubtaskError, match="worker was ended by SIGKILL"):
        list(local.mapper(folder)(always_killed, [1, 2]))


def test_jobs_are_the_same_if_workers_estimate_their_memory(local, folder, monkeypatch):
    monkeypatch.setattr(local_module, "cores", lambda: 2)
    two = sum(make_model(SMALL_SETTINGS.model).memory(one.local(TASK)) for one in small_work().subtasks[:2])
    chosen = {"device": "cuda", "memory": two, "threads": 1}
    here = make_jobs(small_work(), SMALL_SETTINGS, **chosen)
    stored = StoredTask(TASK, folder)
    there = make_jobs(small_work(), SMALL_SETTINGS, **chosen, stored=stored, mapper=local.mapper(folder))
    assert [job.subtasks for job in there] == [job.subtasks for job in here]
    assert 1 < len(here) < 4


def test_a_second_map_is_refused_while_the_first_is_open(local, folder, monkeypatch):
    monkeypatch.setattr(local_module, "cores", lambda: 2)
    first = local.mapper(folder)(process_of, range(40))
    next(first)
    with pytest.raises(RuntimeError, match="must be read"):
        list(local.mapper(folder)(process_of, range(4)))
    first.close()
    assert len(list(local.mapper(folder)(process_of, range(4)))) == 4


class TwoArgumentsError(Exception):
    """An exception that pickle cannot make again."""

    def __init__(self, first, second):
        super().__init__("only one")


def raises(item):
    raise TwoArgumentsError(item, item)


def test_an_error_that_cannot_be_sent_arrives_as_text(local, folder, monkeypatch):
    monkeypatch.setattr(local_module, "cores", lambda: 2)
    with pytest.raises(RuntimeError, match="TwoArgumentsError: only one"):
        list(local.mapper(folder)(raises, [1, 2]))


def stopped(item):
    os.kill(os.getpid(), signal.SIGSTOP)


def test_a_mapped_function_that_stops_its_process_is_an_error_if_there_is_a_timeout(folder, monkeypatch):
    monkeypatch.setattr(local_module, "cores", lambda: 2)
    monkeypatch.setattr(local_module, "CALL_SECONDS", 1.0)
    monkeypatch.setattr(local_module, "START_SECONDS", 5.0)
    monkeypatch.setattr(base, "LOSSES", 2)
    local = Local(1, timeout=0.5)
    try:
        with pytest.raises(SubtaskError, match=r"longer than 1 s \(2 times\); the same"):
            list(local.mapper(folder)(stopped, [1, 2]))
    finally:
        local.close()


def always_killed(item):
    os.kill(os.getpid(), signal.SIGKILL)


# Without a guard against being imported, as many users write their scripts.
SCRIPT = """
import sys
from pathlib import Path
from divea.executors.local import Local
from divea.executors.template import WORKER_NAME
from divea.graphs.storage import StoredTask
from divea.models import make_model
from tests.executors.odd_models import odd_job
from tests.executors.small import small_jobs

folder, traces = map(Path, sys.argv[1:])
jobs = [odd_job(job, "hangs", traces, times=100) for job in small_jobs()]
executor = Local(2)
try:
    list(executor.run(folder, jobs))
except KeyboardInterrupt:
    list(executor.run(folder, jobs))
"""


def test_no_worker_is_left_after_ctrl_c_or_if_the_parent_is_killed(folder, odd_models, tmp_path):
    script, traces = tmp_path / "script.py", tmp_path / "traces"
    script.write_text(SCRIPT)
    traces.mkdir()
    parent = subprocess.Popen(
        [sys.executable, str(script), str(folder), str(traces)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)},
        start_new_session=True,
    )

    def working():
        """The workers that have reached the hanging model and are alive."""
        return [found.process for found in tries(traces) if is_alive(found.process)]

    try:
        wait_until(lambda: len(working()) == 2)
        interrupted = working()
        os.killpg(parent.pid, signal.SIGINT)  # Ctrl-C reaches the whole process group
        wait_until(lambda: not any(map(is_alive, interrupted)))
        wait_until(lambda: len(working()) == 2)  # the executor can be used again
        assert is_alive(parent.pid)
    finally:
        orphans = working()
        parent.kill()
        parent.wait(timeout=30)
    wait_until(lambda: not any(map(is_alive, orphans)))


CLOSED_STREAMS = """
import sys
from pathlib import Path
from divea.executors.local import Local
from divea.executors.template import WORKER_NAME
from divea.graphs.storage import StoredTask
from divea.models import make_model
from tests.executors.small import run_jobs, small_jobs

executor = Local(1)
run_jobs(executor, Path(sys.argv[1]), small_jobs()[:1])
executor.close()
Path(sys.argv[2]).touch()
"""


@pytest.mark.slow
def test_standard_streams_may_be_closed(folder, tmp_path):
    script, done = tmp_path / "script.py", tmp_path / "done"
    script.write_text(CLOSED_STREAMS)
    command = 'exec "$@" 0<&- 1>&- 2>&-'
    subprocess.run(
        ["sh", "-c", command, "sh", sys.executable, str(script), str(folder), str(done)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=120,
        check=True,
    )
    assert done.exists()


@dataclass(frozen=True)
class Leaves(Rehearsal):
    """A rehearsal that leaves a file with the number of its process."""

    folder: str = ""

    def __call__(self):
        (Path(self.folder) / str(os.getpid())).touch()
        raise RuntimeError("which does not matter")


def test_workers_rehearse_before_their_first_job(folder, jobs, expected, tmp_path):
    executor = Local(2)
    try:
        executor.prepare(folder, rehearsal=Leaves(jobs[0].model, jobs[0].matching, "cpu", str(tmp_path)))
        assert run_jobs(executor, folder, jobs) == expected
        numbers = {str(worker.process.pid) for worker in executor._workers}
        assert numbers == {path.name for path in tmp_path.iterdir()}
    finally:
        executor.close()
