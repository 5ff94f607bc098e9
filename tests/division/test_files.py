"""A division as files: divea and other aligners read them, and gold links do not change them."""

import numpy as np
import pytest

from divea.division import DivEA, load_division, write_division
from divea.division.summary import summarise
from divea.errors import InputError
from divea.evaluation.coverage import coverage
from divea.formats import read_task, write_task
from divea.graphs.synth import SynthConfig, synthesise
from tests.command_line import divea


@pytest.fixture(scope="module")
def pair():
    return synthesise(SynthConfig(entities=800, random_seed=8))


def test_a_division_survives_writing_and_reading(pair, tmp_path):
    division = DivEA(3, 600).divide(pair.task)
    write_division(division, pair.task, tmp_path / "out")
    again = load_division(tmp_path / "out", pair.task)
    assert again.subtasks == division.subtasks
    assert (again.notes, again.shares) == (division.notes, division.shares)
    np.testing.assert_array_equal(again.groups, division.groups)


@pytest.mark.parametrize("layout", ["jape", "openea"])
def test_a_subtask_is_a_task_folder_in_the_layout_of_other_aligners(pair, tmp_path, layout):
    division = DivEA(3, 600).divide(pair.task)
    write_division(division, pair.task, tmp_path / "out", layouts=[layout])
    for subtask in division.subtasks:
        folder = tmp_path / "out" / layout / f"{subtask.index:03}"
        found, local = read_task(folder), subtask.local(pair.task)
        assert found.source.num_triples == local.source.num_triples
        assert found.target.num_triples == local.target.num_triples
        assert len(found.seeds) == len(subtask.seeds)
        named = (folder / "candidates").read_text().splitlines()
        if layout == "openea":
            assert named == pair.task.target.label(subtask.candidates)
        else:
            first, labels = len(subtask.source_entities), local.target.entities.to_pylist()
            assert [labels[int(name) - first] for name in named] == pair.task.target.label(subtask.candidates)


def test_the_summary_says_what_a_subtask_holds(pair):
    division = DivEA(3, 600).divide(pair.task)
    for row, subtask in zip(summarise(division, pair.task).to_pylist(), division.subtasks, strict=True):
        assert (row["size"], row["seeds"]) == (subtask.size, len(subtask.seeds))
        assert 0 < row["source_evidence"] <= 1
        assert 0 < row["target_evidence"] <= 1
        assert 0 < row["source_edges"] <= 1


def test_coverage_counts_links_whose_ends_meet_in_a_subtask(pair):
    division = DivEA(3, 600).divide(pair.task)
    found = coverage(division, pair.gold)
    by_hand = sum(
        int(source in set(subtask.unmatched) and target in set(subtask.candidates))
        for subtask in division.subtasks
        for source, target in pair.gold.pairs
    )
    assert found.covered == by_hand
    assert found.links == sum(found.links_by_subtask) == len(pair.gold)
    assert found.covered <= found.together


def test_other_folders_layouts_and_tasks_are_refused(pair, tmp_path):
    with pytest.raises(InputError, match="not a divea division"):
        load_division(tmp_path, pair.task)
    with pytest.raises(InputError, match="unknown layout"):
        write_division(DivEA(2, 900).divide(pair.task), pair.task, tmp_path / "x", layouts=["stone"])
    write_division(DivEA(2, 900).divide(pair.task), pair.task, tmp_path / "y", layouts=[])
    other = synthesise(SynthConfig(entities=300)).task
    with pytest.raises(InputError, match="but the task has"):
        load_division(tmp_path / "y", other)


def test_the_commands_divide_and_evaluate_and_ignore_gold_links(pair, tmp_path):
    task = tmp_path / "task"
    write_task(pair.task, task, "jape")
    done = divea("divide", task, "-n", 3, "-s", 600, "-o", tmp_path / "without")
    assert done.code == 0, done.err
    assert "unmatched" in done.out
    entities = pair.task.source.num_entities
    gold = "".join(f"{source}\t{target + entities}\n" for source, target in pair.gold.pairs.tolist())
    (task / "ref_ent_ids").write_text(gold)
    assert divea("divide", task, "-n", 3, "-s", 600, "-o", tmp_path / "with").code == 0
    without = {
        p.relative_to(tmp_path / "without"): p for p in (tmp_path / "without").rglob("*") if p.is_file()
    }
    assert len(without) > 30
    for name, path in without.items():
        assert path.read_bytes() == (tmp_path / "with" / name).read_bytes(), name
    evaluated = divea("evaluate-division", tmp_path / "with", "--task", task, "--gold", task / "ref_ent_ids")
    expected = coverage(load_division(tmp_path / "with", pair.task), pair.gold)
    assert evaluated.code == 0, evaluated.err
    assert f"coverage {expected.share:.4f} ({expected.covered} of {len(pair.gold)} links)" in evaluated.out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--division", "thirds"], "division.name: unknown division 'thirds'"),
        (["-s", 1], "size: expected an integer from 2"),
        (["-s", 600, "--set", "division.evidence.method=guess"], "division.evidence.method: expected one of"),
        (["-s", 600, "--set", "division.delta1=2"], "division.delta1: expected a number"),
        (["--division", "cps", "-s", 600], "size has no effect"),
        (["--set", "model.name=transformer"], "model.name: unknown model"),
    ],
)
def test_divide_refuses_wrong_settings_in_one_line(pair, tmp_path, arguments, complaint):
    write_task(pair.task, tmp_path / "task")
    ended = divea("divide", tmp_path / "task", "-n", 3, *arguments, "-o", tmp_path / "out")
    assert ended.code == 2
    assert ended.err.startswith(f"divea: {complaint}")
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_divide_chooses_the_size_if_it_is_not_given(pair, tmp_path):
    """The same default as `divea align`: all entities divided by the number of subtasks."""
    write_task(pair.task, tmp_path / "task")
    ended = divea("divide", tmp_path / "task", "-n", 3, "-o", tmp_path / "out")
    assert ended.code == 0, ended.err
    entities = pair.task.source.num_entities + pair.task.target.num_entities
    sizes = [subtask.size for subtask in load_division(tmp_path / "out", pair.task).subtasks]
    assert max(sizes) == entities // 3
