"""Gold lives in `divea.evaluation`; nothing that predicts may reach it, directly or by a detour."""

import ast
from pathlib import Path

import divea

ROOT = Path(divea.__file__).parent
# The commands that compare a result with gold. Everything else predicts, or prepares prediction.
MAY_SEE_GOLD = {
    "divea.api",
    "divea.cli.app",
    "divea.cli.evaluate",
    "divea.cli.evaluate_division",
    "divea.cli.reproduce",
    "divea.reproduce.measure",
    "divea.reproduce.plot",
    "divea.reproduce.runner",
    "divea.reproduce.table",
}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> set[str]:
    """Every module named in an import anywhere in the file, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_predicting_code_does_not_import_the_evaluation():
    checked = 0
    for path in ROOT.rglob("*.py"):
        name = module_name(path)
        if name.startswith("divea.evaluation") or name in MAY_SEE_GOLD:
            continue
        checked += 1
        seen = {module for module in imports(path) if module.startswith("divea.evaluation")}
        assert not seen, f"{name} imports {seen}"
    assert checked > 30


def test_what_may_see_gold_is_not_imported_by_the_rest():
    for path in ROOT.rglob("*.py"):
        name = module_name(path)
        if name not in MAY_SEE_GOLD and name != "divea.__main__":
            assert not imports(path) & MAY_SEE_GOLD, name


def test_no_reader_of_tasks_names_a_file_of_gold():
    gold = ("ref_ent_ids", "test_links", "ent_links", "test.parquet", "valid_links")
    for path in [*(ROOT / "formats").glob("*.py"), *(ROOT / "graphs").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
                assert not any(name in node.value for name in gold), f"{path.name}: {node.value!r}"
