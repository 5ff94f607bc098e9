"""Gold is in `divea.evaluation`. No code that predicts may reach it, directly or through other modules."""

import ast
import json
import random
from functools import cache
from pathlib import Path

import pytest

import divea
from divea.formats import write_task
from tests.command_line import divea as command
from tests.command_line import python
from tests.runs.tiny import NAMED_PAIR, PAIR, SETTINGS, tables

ROOT = Path(divea.__file__).parent
PREDICTING = (
    "config",
    "graphs",
    "formats",
    "resources",
    "division",
    "matching",
    "models",
    "features",
    "loop",
    "executors",
    "runs",
    "curation",
)
"""The packages that make predictions, that predictions are made with, or that choose what people label."""
MAY_SEE_GOLD = {
    "divea.api",
    "divea.api.aligning",
    "divea.api.alignment",
    "divea.cli.app",
    "divea.cli.evaluate",
    "divea.cli.evaluate_division",
    "divea.cli.report",
    "divea.cli.reproduce",
    "divea.experiments.plot",
    "divea.experiments.run",
    "divea.experiments.run_cell",
    "divea.experiments.table",
}
"""The modules that compare results with gold, and those that import them."""


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, ast.Module]:
    """The syntax tree of every module, by the name of the module."""
    return {module_name(path): ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}


def package_of(name: str) -> str | None:
    """The package of divea that a module is in: `graphs` for `divea.graphs.task`."""
    _, *below = name.split(".")
    return below[0] if below else None


def is_package(name: str) -> bool:
    return (ROOT.parent / Path(*name.split("."))).is_dir()


def imports_of(name: str, tree: ast.AST) -> set[str]:
    """Every module that an import names, also inside functions and under TYPE_CHECKING.

    `from a import b` may import the module `a.b` or a name of `a`, so both are in the result. A name that
    the package `a` exports lazily also counts as an import of the module that defines it.
    """
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            origin = absolute(name, node)
            found |= {origin} | {f"{origin}.{alias.name}" for alias in node.names}
            exports = lazy_exports(origin)
            found |= {exports[alias.name] for alias in node.names if alias.name in exports}
    return found


def absolute(name: str, node: ast.ImportFrom) -> str:
    """The absolute name of the module in `from MODULE import ...`, which may be a relative name."""
    if not node.level:
        return node.module or ""
    package = name.split(".") if is_package(name) else name.split(".")[:-1]
    return ".".join([*package[: len(package) - node.level + 1], *(node.module or "").split(".")]).rstrip(".")


@cache
def lazy_exports(name: str) -> dict[str, str]:
    """The table that a package passes to `lazy_exports`: exported name -> module that defines it."""
    calls = [
        node
        for node in ast.walk(modules().get(name, ast.Module([], [])))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "lazy_exports"
    ]
    return {exported: module for call in calls for exported, module in ast.literal_eval(call.args[1]).items()}


def is_evaluation(module: str) -> bool:
    return module == "divea.evaluation" or module.startswith("divea.evaluation.")


def test_predicting_code_does_not_import_the_evaluation():
    checked = 0
    for name, tree in modules().items():
        if is_evaluation(name) or name in MAY_SEE_GOLD:
            continue
        checked += 1
        seen = set(filter(is_evaluation, imports_of(name, tree)))
        assert not seen, f"{name} imports {seen}"
    assert checked > 80


def test_modules_that_may_see_gold_are_not_imported_by_others():
    for name, tree in modules().items():
        # `python -m divea` is the command line; `divea` itself is checked below.
        if name not in MAY_SEE_GOLD | {"divea", "divea.__main__"}:
            assert not imports_of(name, tree) & MAY_SEE_GOLD, name


def test_every_module_that_may_see_gold_needs_to():
    for name in MAY_SEE_GOLD:
        found = imports_of(name, modules()[name])
        assert found & MAY_SEE_GOLD or any(map(is_evaluation, found)), f"{name} does not reach gold"


def test_the_package_names_the_api_for_type_checkers_and_as_a_lazy_export_only():
    tree = modules()["divea"]
    for_type_checkers = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    ]
    at_run_time = ast.Module([node for node in tree.body if node not in for_type_checkers], [])
    assert not imports_of("divea", at_run_time) & MAY_SEE_GOLD
    assert {name for block in for_type_checkers for name in imports_of("divea", block)} & MAY_SEE_GOLD == {
        "divea.api"
    }
    assert {name for name, module in lazy_exports("divea").items() if module in MAY_SEE_GOLD} == {
        "Alignment",
        "align",
    }


def test_predicting_code_does_not_use_the_api_through_the_package():
    """`import divea` is allowed, for the version; `divea.align` would load the evaluation."""
    for name, tree in modules().items():
        if name in MAY_SEE_GOLD:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used = f"{node.value.id}.{node.attr}"
                assert used not in ("divea.align", "divea.Alignment", "divea.api", "divea.evaluation"), name


def test_no_string_of_predicting_code_names_a_module_that_sees_gold():
    """Lazy exports and registries import modules by strings."""
    tables = 0
    for name, tree in modules().items():
        if name in MAY_SEE_GOLD | {"divea"} or is_evaluation(name):
            continue
        tables += bool(lazy_exports(name))
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                module = node.value.partition(":")[0]
                assert not is_evaluation(module) and module not in MAY_SEE_GOLD, f"{name}: {node.value!r}"
    assert tables, "no lazy export was found"


def test_lazy_exports_of_predicting_packages_lead_to_predicting_modules():
    for name in modules():
        if package_of(name) in PREDICTING:
            for exported, module in lazy_exports(name).items():
                assert package_of(module) in PREDICTING, f"{name} exports {exported} from {module}"


def test_importing_all_predicting_code_does_not_load_the_evaluation():
    """In a fresh process: every module of the predicting packages, and every name that they export."""
    names = [name for name in modules() if package_of(name) in PREDICTING]
    assert {package_of(name) for name in names} == set(PREDICTING)
    code = f"""
import json, sys
from importlib import import_module

for name in {names!r}:
    module = import_module(name)
    for exported in getattr(module, "__all__", ()):
        getattr(module, exported)
print(json.dumps(sorted(sys.modules)))
"""
    loaded = json.loads(python(code))
    assert set(names) <= set(loaded)
    assert not [name for name in loaded if name.startswith("divea.evaluation") or name in MAY_SEE_GOLD]


def test_no_reader_of_tasks_names_a_file_of_gold():
    gold = ("ref_ent_ids", "test_links", "ent_links", "test.parquet", "valid_links")
    for name, tree in modules().items():
        if package_of(name) not in ("formats", "graphs"):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
                assert not any(file in node.value for file in gold), f"{name}: {node.value!r}"


GOLD_FILES = {
    "openea": ("ent_links", "test_links", "valid_links", "721_5fold/1/test_links", "721_5fold/1/valid_links"),
    "jape": ("ref_ent_ids", "ref_pairs"),
    "parquet": ("test.parquet", "gold.tsv"),
    "divea": ("gold.tsv", "test.tsv"),
}
"""Files in which data sets have their gold, by the layout of the folder."""


def write_gold(pair, folder, layout, *, is_shuffled):
    """Write all gold links into the folder of a task, right or shuffled, as a data set would have them."""
    source, target = (labels.to_pylist() for labels in pair.gold.labels(pair.task.source, pair.task.target))
    if is_shuffled:
        random.Random(1).shuffle(target)
    if layout == "jape":
        numbers = {}
        for side in ("1", "2"):
            lines = (folder / f"ent_ids_{side}").read_text().splitlines()
            numbers |= {label: number for number, label in (line.split("\t") for line in lines)}
        source, target = ([numbers[label] for label in side] for side in (source, target))
    text = "".join(f"{one}\t{other}\n" for one, other in zip(source, target, strict=True))
    for name in GOLD_FILES[layout]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("layout", "pair", "features"),
    [
        ("openea", PAIR, "none"),
        ("jape", PAIR, "propagation"),
        ("parquet", PAIR, "none"),
        ("openea", NAMED_PAIR, "names+attributes+propagation"),
        ("divea", NAMED_PAIR, "names+attributes"),
    ],
    ids=["openea", "jape", "parquet", "openea with names", "divea with names"],
)
def test_gold_in_the_folder_of_a_task_changes_no_byte_of_a_run(tmp_path, layout, pair, features):
    (tmp_path / "settings.json").write_text(json.dumps(SETTINGS))
    found = []
    for gold in ("absent", "right", "shuffled"):
        folder = tmp_path / gold
        write_task(pair.task, folder, layout=layout)
        if gold != "absent":
            write_gold(pair, folder, layout, is_shuffled=gold == "shuffled")
        run = tmp_path / f"run-{gold}"
        options = ["--config", tmp_path / "settings.json", "--features", features, "--device", "cpu"]
        ended = command("align", folder, *options, "--out", run)
        assert ended.code == 0, ended.err
        found.append(tables(run))
    assert found[0] == found[1] == found[2]
    weights = json.loads(found[0]["features.json"])["weights"]
    assert "+".join(weights) == ("" if features == "none" else features)
    assert all(weight > 0 for weight in weights.values())


def test_confidence_without_seeds_does_not_depend_on_gold(tmp_path):
    """The expected precision is learned, not looked up: it is written before any gold exists."""
    (tmp_path / "settings.json").write_text(json.dumps(SETTINGS))
    write_task(NAMED_PAIR.task, tmp_path / "task")
    arguments = ("align", tmp_path / "task", "--config", tmp_path / "settings.json", "--device", "cpu")
    assert command(*arguments, "--out", tmp_path / "run").code == 0
    expected = json.loads((tmp_path / "run" / "calibration.json").read_text())
    assert expected["method"] == "sure pairs and decoys" and expected["seeds"] == 0
    assert 0.5 < expected["expected_precision"] < 1
