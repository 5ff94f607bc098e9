import json
import shutil

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from divea import InputError
from divea.graphs import AlignmentTask, Links, load_task, save_task
from divea.graphs.storage import open_stored
from divea.graphs.synth import SynthConfig, synthesise
from tests.command_line import python
from tests.generators import tasks


@given(tasks(attributes=True, isolated=True))
def test_a_saved_task_opens_as_it_was(tmp_path_factory, task):
    folder = tmp_path_factory.mktemp("task") / "t"
    save_task(task, folder)
    again = load_task(folder)
    assert (again.source, again.target, again.seeds) == (task.source, task.target, task.seeds)


@pytest.fixture
def folder(tmp_path):
    save_task(synthesise(SynthConfig(entities=300)).task, tmp_path / "t")
    return tmp_path / "t"


def test_arrays_are_mapped_and_not_read(folder):
    task = load_task(folder)
    assert isinstance(task.source.triples, np.memmap)
    assert not task.source.triples.flags.writeable
    before = pa.total_allocated_bytes()
    again = load_task(folder)
    assert pa.total_allocated_bytes() - before < 1000
    assert again.source.num_entities == 300


def test_a_stored_task_that_was_replaced_is_opened_again(folder):
    before = open_stored(folder)
    assert open_stored(folder) is before
    shutil.rmtree(folder)
    task = before.task
    save_task(AlignmentTask(task.source, task.target, Links.from_pairs(task.seeds.pairs[:5])), folder)
    assert len(open_stored(folder).task.seeds) == 5 < len(task.seeds)


def test_another_process_opens_the_same_task(folder):
    printed = python(f"from divea.graphs import load_task; print(load_task({str(folder)!r}))")
    assert printed == str(load_task(folder))


def test_the_same_task_gives_the_same_bytes(tmp_path, folder):
    save_task(load_task(folder), tmp_path / "copy")
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "copy" / path.relative_to(folder)).read_bytes()


def test_a_folder_that_is_not_empty_is_refused(folder):
    with pytest.raises(InputError, match="not empty"):
        save_task(load_task(folder), folder)


def test_a_failed_save_leaves_nothing_behind(tmp_path, folder, monkeypatch):
    task = load_task(folder)
    monkeypatch.setattr(json, "dumps", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_task(task, tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t"]


@pytest.mark.parametrize("name", ["source/entities.arrow", "target/triples.npy", "seeds.npy", "task.json"])
@pytest.mark.parametrize("damage", ["cut", "empty", "missing"])
def test_a_damaged_file_is_refused(folder, name, damage):
    path = folder / name
    data = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(data[: len(data) // 2] if damage == "cut" else b"")
    with pytest.raises(InputError):
        load_task(folder)


def test_another_version_is_refused(folder):
    (folder / "task.json").write_text('{"format": "divea task", "version": 99}')
    with pytest.raises(InputError, match="another format"):
        load_task(folder)
