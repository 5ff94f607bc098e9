"""From records to tables and pictures, for every recipe; no model is run here."""

import csv
import io
import re
from dataclasses import replace

import numpy as np
import pytest

from divea.errors import InputError
from divea.evaluation import paired_t_test
from divea.reproduce.methods import METHODS, read_changes, settings_for
from divea.reproduce.plot import draw
from divea.reproduce.recipes import RECIPES
from divea.reproduce.reference import Reference
from divea.reproduce.table import as_markdown, as_tsv, rows_of, table_of

HEADER = "source\tmethod\tmodel\tdataset\tsubtask_size\tmetric\tvalue\n"
LINES = (
    "paper table\tDivEA\tRREA\tzh-en\tcps\tH@1\t0.633\n"
    "paper table\tDivEA\tRREA\tzh-en\tcps\tcoverage\t0.88\n"
    "paper table\tCPS\tRREA\tzh-en\tcps\tcoverage\t0.826\n"
    "paper table\tDivEA\tRREA\tzh-en\tsbp\tH@1\t0.646\n"
    "measured here\tDivEA\tRREA\tzh-en\tcps\tMRR\t0.9\n"
)


@pytest.fixture
def reference(tmp_path):
    path = tmp_path / "reference.tsv"
    path.write_text(HEADER + LINES)
    return Reference.read(path)


def made_up(cells):
    """Records with figures that tell their cell: DivEA ahead by .1 and a little noise."""
    records = {}
    for cell in cells:
        rng = np.random.default_rng([cell.split, len(cell.method), cell.subtasks])
        iterations = []
        for number in range(cell.settings["iterations"]):
            hits = 0.4 + 0.1 * (cell.method == RECIPES["cps"].ours) + 0.01 * number + 0.01 * rng.random()
            names = ("H@1", "H@5", "H@10", "MRR", "coverage", "together")
            figures = dict(zip(names, np.linspace(hits, 1, 6).tolist(), strict=True))
            iterations.append({**figures, "largest": 9000 // cell.subtasks, "subtasks": cell.subtasks})
        seconds = dict.fromkeys(("seconds", "division_seconds", "solving_seconds", "subtask_seconds"), 10.0)
        records[cell.key] = {"iterations": iterations, "memory_mib": 100.0, **seconds}
    return records


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_gives_a_table_and_a_picture(name, reference, tmp_path):
    recipe = RECIPES[name]
    cells = recipe.cells(["zh_en", "fr_en"], recipe.models, [0, 1])
    rows = rows_of(recipe, cells, made_up(cells), reference)
    table = table_of(recipe, rows)
    places = len(recipe.methods) * len(recipe.subtasks) * len(recipe.percents) * len(recipe.models) * 2
    assert len(table) == places * (5 if recipe.axis == "iteration" else 1)
    assert {line["runs"] for line in table} == {"2"}
    assert list(csv.DictReader(io.StringIO(as_tsv(table)), delimiter="\t")) == table
    assert as_markdown("T", table).count("\n") == len(table) + 4
    for ending in ("png", "svg"):
        draw(recipe, rows, tmp_path / f"a.{ending}")
        draw(recipe, rows, tmp_path / f"b.{ending}")
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


def test_t_test_is_of_divea_against_each_rival_over_the_same_splits(reference):
    recipe = RECIPES["cps"]
    cells = recipe.cells(["zh_en"], ["rrea"], [0, 1, 2])
    records = made_up(cells)
    # A split that only the rival has finished does not count.
    missing = next(cell for cell in cells if cell.method == "DivEA" and cell.split == 2)
    del records[missing.key]
    table = table_of(recipe, rows_of(recipe, cells, records, reference))
    by_method = {line["method"]: line for line in table}
    hits = {
        method: [
            records[cell.key]["iterations"][-1]["H@1"]
            for cell in cells
            if cell.method == method and cell.split < 2
        ]
        for method in by_method
    }
    for method in ("CPS (sup)", "CPS (semi)", "CPS (semi), averaged", "DivEA (paper)"):
        expected = paired_t_test(hits["DivEA"], hits[method])
        assert by_method[method]["p"] == f"{expected.p:.2g}"
        assert by_method[method]["DivEA's lead in H@1"] == f"{expected.difference:+.4f}"
    assert by_method["DivEA"]["p"] == ""
    assert [line["runs"] for line in table] == ["3", "3", "3", "3", "2"]


def test_paper_figures_stand_beside_the_runs_they_are_about(reference):
    recipe = RECIPES["informativeness"]
    cells = recipe.cells(["zh_en"], ["rrea"], [0], subtasks=[5, 10])
    table = table_of(recipe, rows_of(recipe, cells, made_up(cells), reference))
    found = {(line["method"], line["size"], line["N"]): line["paper H@1 / coverage"] for line in table}
    assert found["DivEA", "cps", "5"] == f"{0.633 / 0.88:.4f}"
    assert found["DivEA", "sbp", "5"] == ""
    assert found["DivEA", "cps", "10"] == ""
    assert next(line for line in table if line["method"] == "CPS (semi)")["paper coverage"] == "0.8260"
    assert "p" not in table[0]  # one split: nothing to test, so no empty column


def test_without_the_paper_only_ours_is_shown():
    recipe = RECIPES["cps"]
    cells = recipe.cells(["zh_en"], ["rrea"], [0])
    table = table_of(recipe, rows_of(recipe, cells, made_up(cells), None))
    assert not [name for name in table[0] if name.startswith("paper")]


def test_reference_says_where_it_is_wrong(tmp_path):
    path = tmp_path / "r.tsv"
    path.write_text(HEADER + "paper table\tDivEA\tRREA\tzh-en\tcps\tH@1\tmany\n")
    with pytest.raises(InputError, match=re.escape("r.tsv:2")):
        Reference.read(path)
    path.write_text("a\tb\n")
    with pytest.raises(InputError, match="header"):
        Reference.read(path)


def test_reference_file_of_the_project_is_read(shared_data):
    found = Reference.read(shared_data.parent / "reference-results.tsv")
    assert found.get("DivEA", "rrea", "zh_en", "cps", "H@1") == 0.633
    assert found.get("SBP (semi)", "gcn-align", "fr_en", "sbp", "MRR") == 0.391
    assert found.get("SBP (semi)", "rrea", "fr_en", "sbp", "coverage") == 0.93
    assert found.get("DivEA (paper)", "rrea", "zh_en", "sbp", "coverage") == 0.97
    assert found.get("ELsEA", "rrea", "zh_en", "cps", "H@1") is None


def test_supervised_runs_are_one_iteration_of_the_others():
    semi, sup = (settings_for(f"CPS ({mode})", "gcn-align", "cps", {}) for mode in ("semi", "sup"))
    assert (semi["iterations"], sup["iterations"]) == (5, 1)
    assert {**sup, "iterations": 5} == semi


def test_changes_reach_all_methods_and_only_what_they_name():
    changes = read_changes(["rrea.steps=7", "matching=cosine", "division_options.locality=bfs"], ["rrea"])
    for method in METHODS:
        settings = settings_for(method, "rrea", "sbp", changes)
        assert settings["matching"] == "cosine"
        assert settings["model_options"]["steps"] == 7
        assert (settings.get("division_options", {}).get("locality") == "bfs") == ("DivEA" in method)
        assert "steps" not in settings_for(method, "dual-amn", "sbp", changes)["model_options"]
    for wrong in ("rrea.steps", "model=rrea", "gcn-align.steps=3", "what=1"):
        with pytest.raises(InputError, match="no setting"):
            read_changes([wrong], ["rrea"])


def test_methods_can_be_picked():
    cells = RECIPES["coverage"].cells(["zh_en"], ["rrea"], [0], methods=["DivEA", "I-SBP"])
    assert [(cell.method, cell.scale) for cell in cells] == [
        ("DivEA", "cps"),
        ("I-SBP", "sbp"),
        ("DivEA", "sbp"),
    ]


def test_a_run_is_shared_where_it_is_the_same():
    tables = {
        name: RECIPES[name].cells(["zh_en"], ["rrea"], [0]) for name in ("cps", "sbp", "coverage", "time")
    }
    known = {cell.key for name in ("cps", "sbp") for cell in tables[name]}
    assert {cell.key for name in ("coverage", "time") for cell in tables[name]} <= known
    cell = tables["cps"][-1]
    assert replace(cell, method="another word").key == cell.key
    assert replace(cell, scale="sbp").key != cell.key
    assert replace(tables["cps"][0], scale="sbp").key == tables["cps"][0].key  # CPS takes no size
