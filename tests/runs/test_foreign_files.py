"""Files that divea did not write are never changed, removed or waited for."""

import os
import shutil

import pytest

from divea.graphs import AlignmentTask, KnowledgeGraph, Links, save_task
from divea.runs.layout import JOURNAL, LOCK, LOG, MANIFEST, MAPPINGS_TSV, RANKED
from tests.command_line import divea
from tests.runs.tiny import tables, write_inputs


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run: the command that made it, its folder and its tables."""
    folder = tmp_path_factory.mktemp("foreign")
    command = write_inputs(folder)
    assert divea(*command, "--out", folder / "run").code == 0
    return command, folder / "run", tables(folder / "run")


@pytest.fixture
def run(finished, tmp_path):
    """A copy of the finished run."""
    return shutil.copytree(finished[1], tmp_path / "run")


def snapshot(folder):
    """The bytes of every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


FOLDERS = {
    "a web app": {
        "manifest.json": '{"name": "app"}',
        "task/thesis.txt": "mine",
        "division/sales.txt": "mine",
    },
    "a journal": {"journal.jsonl": '{"file": "a", "checksum": "b", "made_from": "c"}\n'},
    "a lock": {"lock": "123\n", "database": "mine"},
    "only a lock": {"lock": "123\n"},
    "an empty lock and a file": {"lock": "", "notes": "mine"},
    "tables": {"mappings.tsv": "mine", "ranked.parquet": "mine"},
    "a hidden file": {".my.partial.notes": "mine"},
    "a name like a temporary one": {".divea-partial-mine": "mine"},
}


@pytest.mark.parametrize("files", FOLDERS.values(), ids=FOLDERS)
def test_a_folder_that_is_no_run_is_refused_and_left_alone(finished, tmp_path, files):
    web = tmp_path / "web"
    for name, text in files.items():
        (web / name).parent.mkdir(parents=True, exist_ok=True)
        (web / name).write_text(text)
    before = snapshot(web)
    ended = divea(*finished[0], "--out", web)
    assert ended.code == 2 and "is no run of divea" in ended.err and ended.err.count("\n") == 1, ended.err
    assert snapshot(web) == before
    for command in (["align", "--out", web], ["status", web], ["evaluate", web, "--gold", web / "gold"]):
        ended = divea(*command)
        assert ended.code == 2 and ended.err.count("\n") == 1, ended.err
    assert snapshot(web) == before


OTHER_FILES = [
    "notes.txt",
    ".my.partial.notes",
    "task/thesis.txt",
    "task/source/a.arrow",
    "division/sales.txt",
]


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_other_files_in_a_run_stay_while_it_is_repaired(finished, run):
    command, _, expected = finished
    for name in OTHER_FILES:
        (run / name).write_text(f"my {name}")
    for damaged in ("task/seeds.npy", "division/arrays/groups.npy", "iteration-0/subtask-00000.npz"):
        flip(run / damaged)
    assert divea(*command, "--out", run).code == 0
    assert {name: (run / name).read_text() for name in OTHER_FILES} == {n: f"my {n}" for n in OTHER_FILES}
    found = tables(run)
    assert found.pop("division/sales.txt") == b"my division/sales.txt"
    assert found == expected


@pytest.mark.parametrize(
    "name", [MAPPINGS_TSV, RANKED, "division/division.json", "iteration-1/subtask-00001.npz"]
)
def test_a_file_that_is_not_in_the_journal_is_not_replaced(finished, tmp_path, name):
    command, other, expected = finished
    run = tmp_path / "run"
    run.mkdir()
    for start in (LOCK, MANIFEST):
        shutil.copy(other / start, run)
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).write_text("mine")
    ended = divea(*command, "--out", run)
    assert ended.code == 2 and "is not in the journal of this run; move it away" in ended.err, ended.err
    assert (run / name).read_text() == "mine"
    (run / name).unlink()
    assert divea(*command, "--out", run).code == 0
    assert tables(run) == expected


LINKS = [
    JOURNAL,
    LOG,
    LOCK,
    "profile.txt",
    "iteration-0",
    "division",
    "division/arrays",
    "task",
    MAPPINGS_TSV,
]


@pytest.mark.parametrize("name", LINKS)
def test_no_symbolic_link_is_written_through(finished, run, tmp_path, name):
    """The run is damaged, so that every file would be written again."""
    elsewhere = tmp_path / "elsewhere"
    if (run / name).is_dir():
        shutil.move(run / name, elsewhere)
    else:
        elsewhere.write_text("mine")
        (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(elsewhere)
    for damaged in (run / "iteration-0", run / "division", run / "task"):
        for path in damaged.rglob("*.npy"):
            flip(path)
    before = snapshot(elsewhere) if elsewhere.is_dir() else elsewhere.read_bytes()
    ended = divea(*finished[0], "--profile", "--out", run)
    assert "Traceback" not in ended.err and ended.code in (0, 2), ended.err
    assert (snapshot(elsewhere) if elsewhere.is_dir() else elsewhere.read_bytes()) == before
    if ended.code == 0:
        assert tables(run) == finished[2]
    else:
        assert ended.err.splitlines()[-1].startswith("divea: ")


@pytest.mark.parametrize("name", [JOURNAL, LOG, LOCK, MANIFEST, RANKED, "task/task.json", "task/seeds.npy"])
def test_pipes_in_a_run_block_no_command(finished, run, tmp_path, name):
    (run / name).unlink()
    os.mkfifo(run / name)
    for command in (
        [*finished[0], "--out", run],
        ["align", "--out", run],
        ["status", run],
        ["evaluate", run, "--gold", tmp_path / "none.tsv"],
    ):
        ended = divea(*command)
        assert "Traceback" not in ended.err and ended.code in (0, 2), (command[0], ended.err)


def test_labels_that_tsv_cannot_hold_are_noticed_before_the_table_is_written(tmp_path):
    """Such a run is finished without mappings.tsv, and says so each time."""
    triples = [(f"{i}\tx", "r", f"{(7 * i + 1) % 60}\tx") for i in range(60)]
    graph = KnowledgeGraph.from_triples(triples)
    labels = [triple[0] for triple in triples[:20]]
    save_task(AlignmentTask(graph, graph, Links.from_labels(labels, labels, graph, graph)), tmp_path / "task")
    run = tmp_path / "run"
    command = ["align", tmp_path / "task", "-n", 1, "--iterations", 1, "--device", "cpu", "--out", run]
    ended = divea(*command)
    assert ended.code == 0 and "no mappings.tsv: " in ended.err and "mappings.tsv: " not in ended.out
    assert "mappings.parquet: " in ended.out and not (run / MAPPINGS_TSV).exists()
    assert "this run is finished" in divea(*command).err
