"""The public interface in Python: `divea.align`, `divea.Alignment`, and the types that they have."""

import ast
import gc
import inspect
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

import divea
from divea import Alignment, AlignmentTask, InputError, KnowledgeGraph, Links, Settings, write_task
from divea.config.executor import ExecutorSettings
from divea.formats import read_mappings
from divea.graphs.planted import planted_pair
from tests.runs.tiny import PAIR, SETTINGS, events, solved_now, tables

ROOT = Path(__file__).parents[1]
PROGRAM = Path(__file__).parent / "public_api.py"
SMALL = {"label-propagation": {"labels": 32, "heads": 16, "draft_heads": 16, "rounds": 2}}
"""Options of label propagation that make an alignment quick."""


def aligned(*arguments, **options):
    return divea.align(*arguments, device="cpu", **options)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return aligned(PAIR.task, out=tmp_path_factory.mktemp("api") / "run", **SETTINGS)


# What to align


def test_a_task_and_its_folder_give_the_same_alignment(finished, tmp_path):
    write_task(PAIR.task, tmp_path / "task")
    for folder in (tmp_path / "task", str(tmp_path / "task")):
        alignment = aligned(folder, **SETTINGS)
        assert alignment.mappings.equals(finished.mappings) and alignment.ranked.equals(finished.ranked)


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(InputError, match="none: no such folder"):
        divea.align(tmp_path / "none")


# Settings


def test_the_settings_may_be_the_name_of_a_preset():
    alignment = aligned(PAIR.task, "fast", iterations=1, subtasks=2, model=SMALL)
    # The pair has neither names nor literals, and what was chosen for it says so.
    changes = {"iterations": 1, "subtasks": 2, "model": SMALL, "confidence.folds": 0, "features": "none"}
    assert alignment.settings == Settings.of("fast", changes).resolved(size=150)
    with pytest.raises(InputError, match="unknown preset 'slow'; choose from fast, best"):
        divea.align(PAIR.task, "slow")


def test_the_settings_may_be_an_object(finished):
    alignment = aligned(PAIR.task, Settings.of(None, SETTINGS))
    assert alignment.settings == finished.settings
    assert alignment.ranked.equals(finished.ranked)
    with pytest.raises(InputError, match=r"settings are a divea\.Settings or the name of a preset"):
        divea.align(PAIR.task, {"subtasks": 3})


def test_keywords_change_the_settings():
    """By name, by nested dictionary and by path; a keyword changes nothing else."""
    settings = Settings.of(None, SETTINGS)
    alignment = aligned(
        PAIR.task,
        settings,
        iterations=1,
        output={"top": 7},
        **{"model.label-propagation.labels": 16, "matching.method": "csls"},
    )
    found = alignment.settings
    assert (found.iterations, found.output.top, found.matching.method) == (1, 7, "csls")
    assert found.model.options("label-propagation").labels == 16
    assert found.model.options("label-propagation").heads == 16
    assert found.division == settings.division and found.subtasks == 2
    assert max(alignment.ranked["rank"].to_pylist()) <= 7


def test_the_name_of_a_component_is_short_for_its_group():
    alignment = aligned(PAIR.task, iterations=1, subtasks=2, division="cps", matching="cosine", model=SMALL)
    assert alignment.settings.division.name == "cps" and alignment.settings.matching.method == "cosine"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"subtask": 3}, "subtask: unknown setting; did you mean 'subtasks'?"),
        ({"min_confidence": 0.9}, "unknown setting; did you mean 'confidence.min_confidence'?"),
        ({"labels": 3}, "labels: unknown setting; did you mean 'model.label-propagation.labels'?"),
        (
            {"model": {"labels": 3}},
            "model.labels: unknown setting; did you mean 'model.label-propagation.labels'? model has name",
        ),
        (
            {"model.label-propagation.label": 3},
            "model.label-propagation.label: unknown setting; did you mean 'labels'?",
        ),
        ({"subtasks": "2"}, "subtasks: expected an integer from 1 to 10000000, or null; found '2'"),
        ({"size": 3.0}, "size: expected an integer from 2"),
        ({"random_seed": True}, "random_seed: expected an integer, at least 0"),
        ({"confidence": 0.5}, "confidence: expected a group of settings; found 0.5"),
        ({"model": "oracle"}, "model.name: unknown model 'oracle'; choose from label-propagation"),
        ({"model.rrea.steps": 5}, "model.rrea.steps has no effect: model.name is 'label-propagation'"),
        ({"device": "tpu"}, "device: expected one of 'auto', 'cpu', 'cuda'; found 'tpu'"),
        ({"memory": "much"}, "not a memory size: 'much'; write 4GiB or 500MB"),
        ({"memory": 0}, "memory: expected at least 1 MiB, written as 4GiB or in bytes; found 0"),
        ({"gpu_memory": -1}, "gpu_memory: expected at least 1 MiB, written as 4GiB or in bytes; found -1"),
        ({"executor": "magic"}, "unknown executor 'magic'; choose from auto, inline, local, ray"),
        ({"workers": 0}, "workers: expected an integer from 1 to 100000, or null; found 0"),
        ({"executor": "inline", "workers": 2}, "workers has no effect: the executor 'inline'"),
        ({"executor": ExecutorSettings(name="local"), "workers": 2}, "give them in the executor settings"),
    ],
)
def test_wrong_keywords_are_refused_in_one_line(tmp_path, changes, message):
    with pytest.raises(InputError, match=re.escape(message)) as refusal:
        divea.align(PAIR.task, out=tmp_path / "run", **changes)
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "run").exists()


# Where and how it runs


def test_the_run_directory_is_continued(tmp_path, finished):
    run = tmp_path / "run"
    first = aligned(PAIR.task, out=run, **SETTINGS)
    assert first.path == run and solved_now(run) == 4
    second = aligned(PAIR.task, out=run, **SETTINGS)
    assert solved_now(run) == 0 and events(run)[-1]["event"] == "finished before"
    # A result that is missing is computed again if the tables are, and the others are not.
    (run / "iteration-1" / "subtask-00001.npz").unlink()
    (run / "mappings.parquet").unlink()
    third = aligned(PAIR.task, out=str(run), **SETTINGS)
    assert solved_now(run) == 1
    for alignment in (first, second, third):
        assert alignment.ranked.equals(finished.ranked)


def test_the_run_directory_of_other_settings_is_refused(finished):
    with pytest.raises(InputError, match=r"is a run with other settings \(random_seed 0, now 3\)"):
        aligned(PAIR.task, Settings.of(None, SETTINGS), out=finished.path, random_seed=3)


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match="is not empty and is no run of divea"):
        aligned(PAIR.task, out=tmp_path, **SETTINGS)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    "how",
    [
        {"executor": "inline"},
        {"executor": "local", "workers": 2},
        {"executor": ExecutorSettings(name="inline")},
    ],
)
def test_the_executor_does_not_change_the_result(tmp_path, finished, how):
    alignment = aligned(PAIR.task, out=tmp_path / "run", **how, **SETTINGS)
    assert tables(alignment.path) == tables(finished.path)


def test_the_temporary_folder_exists_as_long_as_the_alignment():
    alignment = aligned(PAIR.task, **SETTINGS)
    folder = alignment.path.parent
    assert folder.name.startswith("divea-") and alignment.path.is_dir()
    ranked = alignment.ranked
    del alignment
    gc.collect()
    assert not folder.exists()
    assert len(ranked) and ranked.to_pylist()


def test_the_temporary_folder_is_removed_if_the_run_fails(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(InputError, match="no seeds"):
        divea.align(AlignmentTask(PAIR.task.source, PAIR.task.target), features="none")
    gc.collect()
    assert list(tmp_path.iterdir()) == []


# The alignment


def test_attributes_of_an_alignment(finished):
    assert isinstance(finished.path, Path) and (finished.path / "manifest.json").is_file()
    assert finished.task.source == PAIR.task.source and finished.task.target == PAIR.task.target
    assert finished.task.seeds == PAIR.task.seeds
    chosen = {"confidence.folds": 0, "features": "none"}
    assert finished.settings == Settings.of(None, {**SETTINGS, **chosen}).resolved(size=150)
    assert isinstance(finished.mappings, pa.Table) and isinstance(finished.ranked, pa.Table)
    assert finished.mappings is finished.mappings
    assert repr(finished) == f"Alignment({len(finished.mappings)} pairs)"


def test_an_alignment_is_opened_by_its_run_directory(finished, tmp_path):
    for run in (finished.path, str(finished.path)):
        opened = Alignment(run)
        assert opened.path == finished.path and opened.settings == finished.settings
        assert opened.mappings.equals(finished.mappings) and opened.ranked.equals(finished.ranked)
    with pytest.raises(InputError, match="is no run of divea"):
        Alignment(tmp_path)


def test_the_settings_of_a_run_can_be_used_again(tmp_path):
    first = aligned(PAIR.task, subtasks=2, iterations=1, model=SMALL, out=tmp_path / "run")
    second = aligned(PAIR.task, first.settings)
    assert second.ranked.equals(first.ranked)


def test_evaluation_with_links_and_with_a_file(finished, tmp_path):
    labels = PAIR.gold.labels(PAIR.task.source, PAIR.task.target)
    pairs = zip(*(side.to_pylist() for side in labels), strict=True)
    (tmp_path / "gold.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    found = finished.evaluate(PAIR.gold)
    assert found == finished.evaluate(tmp_path / "gold.tsv") == finished.evaluate(str(tmp_path / "gold.tsv"))
    assert found.links == len(PAIR.gold)
    assert 0 < found.h1 <= found.h5 <= found.h10 <= found.coverage <= 1
    assert finished.evaluate(PAIR.gold, "closed").h1 >= found.h1
    # Without calibrated confidence, every assigned pair counts.
    assert finished.evaluate(PAIR.gold, min_confidence=0.9).pairs.given == sum(
        finished.ranked["given"].to_pylist()
    )
    for wrong in ("0.5", True, 1.5, float("nan")):
        with pytest.raises(InputError, match="min_confidence: expected a number from 0 to 1; found"):
            finished.evaluate(PAIR.gold, min_confidence=wrong)
    with pytest.raises(InputError, match="unknown protocol 'ajar'; choose from open, closed"):
        finished.evaluate(PAIR.gold, "ajar")


def test_an_alignment_is_saved_in_the_format_of_the_name(finished, tmp_path):
    for name in ("m.tsv", "m.csv", "m.parquet", "m.sssom.tsv", "m.rdf", "m.nt"):
        finished.save(tmp_path / name)
        found = read_mappings(tmp_path / name)
        assert found["target"].to_pylist() == finished.mappings["target"].to_pylist()
    with pytest.raises(InputError, match=r"mapping format: use \.sssom.tsv, \.tsv, \.csv"):
        finished.save(tmp_path / "m.docx")


# Tables of other libraries


def test_the_mappings_as_a_table_of_pandas_or_polars(finished):
    rows = finished.mappings.to_pylist()
    # Without calibration, confidence is NaN in pandas and missing in polars.
    found = finished.to_pandas()
    assert found.drop(columns="confidence").to_dict("records") == [
        {name: value for name, value in row.items() if name != "confidence"} for row in rows
    ]
    assert list(found.columns) == finished.mappings.column_names
    assert finished.to_polars().to_dicts() == rows


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_library_that_is_missing_is_named_with_what_installs_it(finished, monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    message = f"to_{library} needs {library}: pip install {library}"
    with pytest.raises(InputError, match=message):
        getattr(finished, f"to_{library}")()


def test_what_was_found_can_be_the_seeds_of_another_task(finished):
    frame = finished.to_pandas().query("mutual")[["source", "target"]]
    task = divea.make_task(PAIR.task.source, PAIR.task.target, frame)
    assert len(task.seeds) == len(frame)


def test_names_may_be_objects():
    """As a dict, as a table and as a file: the same names give the same alignment."""
    labels = PAIR.task.source.entities.to_pylist(), PAIR.task.target.entities.to_pylist()
    names = [{label: f"name of {label[-4:]}" for label in side} for side in labels]
    tables = [pa.table({"entity": [*side], "name": [*side.values()]}) for side in names]
    options = {"subtasks": 1, "iterations": 1, "model": SMALL}
    found = [aligned(PAIR.task, source_names=a, target_names=b, **options) for a, b in (names, tables)]
    assert found[0].mappings.equals(found[1].mappings)
    assert found[0].task.source.attributes.values.to_pylist()[0].startswith("name of ")
    with pytest.raises(InputError, match="source_names: these names have no effect"):
        aligned(PAIR.task, source_names=names[0], features="none")
    with pytest.raises(InputError, match="target_names: expected a file, a table, a dict or tuples"):
        aligned(PAIR.task, target_names=5)


def test_other_objects_are_no_task():
    for given in (5, None, [("a", "r", "b")], pa.table({"head": ["a"]})):
        with pytest.raises(InputError, match=r"task: expected a task or a folder, not \w+; divea\.make_task"):
            divea.align(given)


# Names and types


def public_members(kind):
    """The public methods and properties that a class of divea defines itself."""
    members = {
        name
        for base in kind.__mro__
        if base.__module__.split(".")[0] == "divea"
        for name in [*vars(base), *inspect.get_annotations(base)]
        if not name.startswith("_")
    }
    return members - {"model_config"}


def test_the_program_uses_every_public_name():
    text = PROGRAM.read_text()
    for name in divea.__all__:
        assert re.search(rf"\bdivea\.{name}\b", text), f"divea.{name} is not used"


@pytest.mark.parametrize(
    ("kind", "variable"),
    [
        (Alignment, "alignment"),
        (AlignmentTask, "task"),
        (KnowledgeGraph, "graph"),
        (Links, "links"),
        (Settings, "settings"),
    ],
)
def test_the_program_uses_every_public_method_and_property(kind, variable):
    """In the function that has a parameter of the class: `use_links(links: divea.Links, ...)`."""
    (function,) = (
        node
        for node in ast.parse(PROGRAM.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name == f"use_{variable}"
    )
    used = {ast.unparse(node) for node in ast.walk(function) if isinstance(node, ast.Attribute)}
    members = public_members(kind)
    assert len(members) >= 5
    for name in members:
        assert used & {f"{variable}.{name}", f"divea.{kind.__name__}.{name}"}, f"{name} is not used"


def mypy(program):
    """Check a program as a user would: outside the repository, without its configuration."""
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", ROOT / ".mypy_cache" / "user", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=tempfile.gettempdir(),
    )


def test_the_program_has_no_type_errors():
    ended = mypy(PROGRAM)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_wrong_types_are_found(tmp_path):
    program = tmp_path / "wrong.py"
    program.write_text('import divea\n\ndivea.align(5)\ndivea.read_task("task").seed\n')
    ended = mypy(program)
    assert ended.returncode == 1
    assert '"AlignmentTask" has no attribute "seed"' in ended.stdout
    assert 'Argument 1 to "align" has incompatible type "int"' in ended.stdout


def test_every_public_name_is_typed(tmp_path):
    program = tmp_path / "reveal.py"
    names = [f"divea.{name}" for name in divea.__all__]
    program.write_text("import divea\n\n" + "".join(f"reveal_type({name})\n" for name in names))
    ended = mypy(program)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    revealed = re.findall(r'Revealed type is "(.*)"', ended.stdout)
    assert len(revealed) == len(names)
    assert "Any" not in revealed and not [kind for kind in revealed if kind.startswith("def (*args: Any")]
    align = revealed[divea.__all__.index("align")]
    assert align.startswith("def (task: ") and align.endswith("-> divea.api.alignment.Alignment")


def test_the_program_runs(tmp_path):
    ended = subprocess.run(
        [sys.executable, str(PROGRAM)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert ended.returncode == 0, ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_gold_may_be_an_object_and_must_be_something(tmp_path):
    pair = planted_pair()
    alignment = divea.align(pair.task, "fast", iterations=1, out=tmp_path / "run")
    labels = [labels.to_pylist() for labels in pair.gold.labels(pair.task.source, pair.task.target)]
    expected = alignment.evaluate(pair.gold)
    assert alignment.evaluate(dict(zip(*labels, strict=True))) == expected
    assert alignment.evaluate(pa.table(labels, names=["source", "target"])) == expected
    for wrong in (None, 3, [("left1",)], {"no such entity": "right1"}):
        with pytest.raises(InputError, match="gold"):
            alignment.evaluate(wrong)
