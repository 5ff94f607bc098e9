"""The notebooks in `examples` run from top to bottom, and their stored outputs are what they print.

The cells are run by this program, because a Jupyter kernel would add 40 packages and 80 MB to the `test`
extra. `pytest tests/test_examples.py --refresh` writes the outputs into the notebooks.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
from types import ModuleType
from typing import Any

import pytest

from tests.documented import ROOT

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def outputs_of(code: str, module: ModuleType, count: int) -> list[dict[str, Any]]:
    """What Jupyter stores for a cell: what it prints, and the value of its last expression."""
    body = ast.parse(code).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), vars(module))
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), vars(module))  # noqa: S307 - our own notebook
    stored = []
    if printed.getvalue():
        stored.append({"name": "stdout", "output_type": "stream", "text": lines_of(printed.getvalue())})
    if value is not None:
        data = {"text/plain": lines_of(repr(value))}
        stored.append(
            {"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"}
        )
    return stored


def lines_of(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def played(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with the outputs of its cells, run from top to bottom."""
    module, cells, count = ModuleType("notebook"), [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            outputs = outputs_of("".join(cell["source"]), module, count)
            cell = {**cell, "execution_count": count, "outputs": outputs}
        cells.append(cell)
    return {**notebook, "cells": cells}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_prints_what_it_stores(path, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(path.read_text())
    new = played(notebook)
    if request.config.getoption("--refresh"):
        path.write_text(json.dumps(new, indent=1, ensure_ascii=False) + "\n")
    else:
        assert new["cells"] == notebook["cells"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_one_that_jupyter_reads(path):
    notebook = json.loads(path.read_text())
    assert notebook["nbformat"] == 4
    assert notebook["nbformat_minor"] >= 5, "cells have ids from then on"
    assert notebook["metadata"]["kernelspec"]["language"] == "python"
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    assert {cell["cell_type"] for cell in notebook["cells"]} <= {"code", "markdown"}


def test_there_is_a_notebook():
    assert NOTEBOOKS
