"""The first divisions of the real pairs: their coverage before any model has run, as the docs state it."""

import pytest

from divea.config import DivisionSettings
from divea.division import CPS, DivEA, check_division
from divea.evaluation.coverage import coverage
from divea.formats import read_links, read_task


@pytest.mark.parametrize(
    ("name", "size", "delta1", "least"),
    [
        ("zh_en", 7792, 0.5, 0.94),
        ("zh_en", 9421, 0.4, 0.97),
        ("fr_en", 7930, 0.5, 0.96),
        ("fr_en", 9594, 0.4, 0.98),
    ],
)
def test_coverage_of_the_first_division(shared_data, name, size, delta1, least):
    folder = shared_data / "dbp15k" / name
    split = folder / "splits" / "20" / "0"
    task = read_task(folder, split / "sup_ent_ids")
    gold = read_links(split / "ref_ent_ids", task, folder=folder)
    ours = check_division(DivEA(5, size), task, size=size)
    assert coverage(ours, gold).share >= least
    with_delta1 = DivEA(5, size, DivisionSettings(delta1=delta1))
    assert coverage(with_delta1.divide(task), gold).share >= least
    assert {subtask.size for subtask in ours.subtasks} == {size}
    paper = DivEA(5, size, DivisionSettings(delta1=delta1, locality="bfs"))
    assert coverage(paper.divide(task), gold).share < coverage(ours, gold).share
    if delta1 == 0.5:
        assert coverage(CPS(5).divide(task), gold).share < coverage(ours, gold).share
