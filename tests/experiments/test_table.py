"""Tables and plots of every recipe, from made-up figures: no model runs here."""

import csv
import io
import re

import pytest

from divea.errors import InputError
from divea.evaluation import paired_t_test
from divea.experiments.plot import draw
from divea.experiments.recipes import RECIPES
from divea.experiments.table import Reference, as_markdown, as_tsv, rows_of, table_of
from tests.experiments.data import made_up_metrics

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


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_gives_a_table(name, reference):
    recipe = RECIPES[name]
    cells = recipe.cells(["zh_en", "fr_en"], recipe.models, [0, 1])
    table = table_of(recipe, rows_of(recipe, cells, made_up_metrics(cells), reference))
    rows = len(recipe.methods) * len(recipe.subtasks) * len(recipe.percents) * len(recipe.models) * 2
    assert len(table) == rows * (5 if recipe.axis == "iteration" else 1)
    assert {line["runs"] for line in table} == {"2"}
    assert set(recipe.measures) <= set(table[0])
    assert list(csv.DictReader(io.StringIO(as_tsv(table)), delimiter="\t")) == table
    assert as_markdown("T", table).count("\n") == len(table) + 4


@pytest.mark.parametrize("ending", ["png", "svg"])
@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_gives_a_plot(name, ending, reference, tmp_path):
    """One data set and one model: the time of a plot grows with their number."""
    recipe = RECIPES[name]
    cells = recipe.cells(["zh_en"], recipe.models[:1], [0, 1])
    rows = rows_of(recipe, cells, made_up_metrics(cells), reference)
    path = tmp_path / f"plot.{ending}"
    draw(recipe, rows, path)
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG") if ending == "png" else b"</svg>" in content


@pytest.mark.parametrize("ending", ["png", "svg"])
@pytest.mark.parametrize("name", ["informativeness", "discovery"])
def test_the_same_figures_give_the_same_bytes(name, ending, reference, tmp_path):
    """Bars and lines, of two data sets and all models of the recipe."""
    recipe = RECIPES[name]
    cells = recipe.cells(["zh_en", "fr_en"], recipe.models, [0, 1])
    rows = rows_of(recipe, cells, made_up_metrics(cells), reference)
    first, second = (tmp_path / f"{number}.{ending}" for number in (1, 2))
    draw(recipe, rows, first)
    draw(recipe, rows, second)
    assert first.read_bytes() == second.read_bytes()


def test_the_t_test_compares_divea_with_each_rival_over_the_same_splits(reference):
    recipe = RECIPES["cps"]
    cells = recipe.cells(["zh_en"], ["rrea"], [0, 1, 2])
    metrics = made_up_metrics(cells)
    # A split that only the rival has finished does not count.
    missing = next(cell for cell in cells if cell.method == "DivEA" and cell.split == 2)
    del metrics[missing.key]
    table = table_of(recipe, rows_of(recipe, cells, metrics, reference))
    by_method = {line["method"]: line for line in table}
    hits = {
        method: [
            metrics[cell.key]["iterations"][-1]["H@1"]
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


def test_figures_of_the_paper_are_beside_the_runs_that_they_are_about(reference):
    recipe = RECIPES["informativeness"]
    cells = recipe.cells(["zh_en"], ["rrea"], [0], subtasks=[5, 10])
    table = table_of(recipe, rows_of(recipe, cells, made_up_metrics(cells), reference))
    found = {(line["method"], line["size"], line["N"]): line["paper H@1 / coverage"] for line in table}
    assert found["DivEA", "cps", "5"] == f"{0.633 / 0.88:.4f}"
    assert found["DivEA", "sbp", "5"] == ""
    assert found["DivEA", "cps", "10"] == ""
    assert next(line for line in table if line["method"] == "CPS (semi)")["paper coverage"] == "0.8260"
    assert "p" not in table[0]  # one split cannot be tested, and an empty column is left out


def test_without_the_paper_only_our_figures_are_shown():
    recipe = RECIPES["cps"]
    cells = recipe.cells(["zh_en"], ["rrea"], [0])
    table = table_of(recipe, rows_of(recipe, cells, made_up_metrics(cells), None))
    assert table and not [name for name in table[0] if name.startswith("paper")]


def test_a_recipe_without_finished_cells_gives_an_empty_table():
    recipe = RECIPES["cps"]
    table = table_of(recipe, rows_of(recipe, recipe.cells(["zh_en"], ["rrea"], [0]), {}, None))
    assert (table, as_tsv(table)) == ([], "")
    assert "nothing was run" in as_markdown("T", table)


def test_errors_in_the_reference_name_the_line(tmp_path):
    path = tmp_path / "r.tsv"
    path.write_text(HEADER + "paper table\tDivEA\tRREA\tzh-en\tcps\tH@1\tmany\n")
    with pytest.raises(InputError, match=re.escape("r.tsv:2")):
        Reference.read(path)
    path.write_text("a\tb\n")
    with pytest.raises(InputError, match="header"):
        Reference.read(path)


def test_the_reference_of_the_project_can_be_read(shared_data):
    found = Reference.read(shared_data.parent / "reference-results.tsv")
    assert found.get("DivEA", "rrea", "zh_en", "cps", "H@1") == 0.633
    assert found.get("SBP (semi)", "gcn-align", "fr_en", "sbp", "MRR") == 0.391
    assert found.get("SBP (semi)", "rrea", "fr_en", "sbp", "coverage") == 0.93
    assert found.get("DivEA (paper)", "rrea", "zh_en", "sbp", "coverage") == 0.97
    assert found.get("ELsEA", "rrea", "zh_en", "cps", "H@1") is None
