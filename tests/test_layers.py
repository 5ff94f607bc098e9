"""The layers of divea: the import contract in pyproject.toml holds, and it fails if it is broken."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def lint_imports(source, folder):
    """Check the contract for the package in the folder `source`, working in another folder."""
    # import-linter finds the package on PYTHONPATH, which comes before the installed one.
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", program, "--config", ROOT / "pyproject.toml", "--no-cache", "--no-logo"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(source), "NO_COLOR": "1"},
    )


def test_the_layers_are_kept(tmp_path):
    ended = lint_imports(ROOT / "src", tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 kept, 0 broken" in ended.stdout


@pytest.mark.parametrize(
    ("module", "line", "reported"),
    [
        ("graphs/task.py", "import divea.runs.align", "divea.graphs.task -> divea.runs.align"),
        ("loop/lists.py", "from divea.evaluation import read_gold", "divea.loop.lists -> divea.evaluation"),
        ("config/group.py", "def f():\n    from divea.cli import app", "divea.config.group -> divea.cli.app"),
    ],
)
def test_an_import_of_a_higher_layer_is_reported(tmp_path, module, line, reported):
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    path = source / "divea" / module
    path.write_text(f"{path.read_text()}\n\n{line}\n")
    ended = lint_imports(source, tmp_path)
    assert ended.returncode != 0
    assert "0 kept, 1 broken" in ended.stdout
    assert reported in ended.stdout


def test_a_module_without_a_layer_is_reported(tmp_path):
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    (source / "divea" / "drawer.py").write_text("")
    ended = lint_imports(source, tmp_path)
    assert ended.returncode != 0 and "drawer" in ended.stdout
