"""Commands, options, paths and file names from far outside of what divea accepts, and where to try them.

No draw can start a large job: numbers that are accepted are small, and so are the graphs.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_type_hints

import typer
from hypothesis import strategies as st

from divea.cli.app import app
from divea.config import Settings
from divea.config.effects import leaf_paths
from divea.formats import read_task, write_graph
from divea.graphs import save_task
from tests.command_line import divea
from tests.privileges import without_privileges
from tests.runs.tiny import SETTINGS

NUMBERS = (
    *("-1", "0", "-0", "1", "2", "3", "0.5", ".5", "1.5", "-1e308", "1e308", "1e400", "nan", "inf", "-inf"),
    *("2147483648", "-2147483649", "9223372036854775808", "9" * 30, "-" + "9" * 30, "9" * 5000),
    *("", " ", "one", "1_0", "0x10", "1,5", "\u0663", "1 ", "--1", "1/2", "\x1b[31m1"),
)
"""Numbers outside of every domain, and some of the smallest inside."""

SIZES = (
    *("0", "-1", "1", "1KB", "1023KiB", "9" * 30, "9" * 15 + "TiB", "1e9", "nanGiB", "infGiB", "GiB"),
    *("", " 4 GiB", "4 GiB GiB", "-4GiB", "2GiB", "0.0000000001TiB", "4\x1b[2JGiB"),
)
WORDS = (
    "",
    " ",
    "auto",
    "cpu",
    "nothing",
    "\x1b]0;title\x07",
    "[/red]",
    "a" * 5000,
    "\u202ecba",
    "é",
    "\ud800",
)

NAMES = (
    *("task", "gold.tsv", "graph.tsv", "settings.json", "run", "parts", "empty", "empty.tsv", "missing"),
    *("x" * 300, "x/" * 3000 + "x", "x" * 300 + "/task", ".", "..", "/", "", "task/..", "gold.tsv/inside"),
    *("locked", "locked/task", "loop", "broken", "pipe", "pipe.json", "deep.json", "deep.yaml", "deep.toml"),
    *("/proc/self/mem", "/proc/nowhere/at/all", "~", "-", "--", "-x", "new\nline", "tab\there.tsv"),
    *("[/red]", "[bold]", "\x1b[31mred.tsv", "\x1b]0;title\x07", "caf\udce9.tsv", "\udcff", "ж" * 200),
    *("x.nt", "x.parquet", "x.sssom.tsv", "x.rdf", "x.unknown", "x.tsv.gz", "new-run", "new-folder"),
)


INPUTS = ("task", "run", "parts", "gold.tsv", "graph.tsv")
PATHS = st.sampled_from(INPUTS) | st.sampled_from(NAMES)

JUNK = (
    *('{"a": 1}', "[]", "[" * 3000, '{"a":' * 3000, '"x"', "null", "true", "{", "\\", "1;2"),
    *("." * 3000, "=", "==", "a=b", "model", "-", "--json"),
)
SETTING_PATHS = (*leaf_paths(Settings.preset("best").resolved().plain()), "model.rrea.steps", "a", "", *JUNK)
ASSIGNMENTS = st.builds(
    "{}={}".format, st.sampled_from(SETTING_PATHS), st.sampled_from((*NUMBERS, *WORDS, *JUNK))
)
REFUSED = ("-1", "0", "nan", "inf", "-inf", "", "one", "-" + "9" * 30)
BY_NAME: dict[str, st.SearchStrategy[str]] = {
    "assignments": ASSIGNMENTS,
    "changes": ASSIGNMENTS,
    # Numbers that are accepted would start worker processes.
    "workers": st.sampled_from((*REFUSED, "9" * 30, "100001")),
    "timeout": st.sampled_from(REFUSED),
    "memory": st.sampled_from((*SIZES, *NUMBERS)),
    "gpu_memory": st.sampled_from((*SIZES, *NUMBERS)),
}
SMALL = {
    "align": ["--iterations", "1", "--set", "model.label-propagation.heads=16"],
    "synth": ["--entities", "50"],
    "reproduce": ["--no-run"],
}
"""Given before the options that are drawn, which override them."""

VALID = {
    "align": ["task", "--out", "new-run"],
    "check": ["run"],
    "convert": ["graph.tsv", "new.tsv"],
    "divide": ["task", "-n", "2"],
    "evaluate": ["run", "--gold", "gold.tsv"],
    "evaluate-division": ["parts", "--task", "task", "--gold", "gold.tsv"],
    "explain": ["run", "http://source.example/resource/E102"],
    "export": ["run", "--out", "pairs.tsv"],
    "report": ["run", "--out", "report.html"],
    "info": ["task"],
    "plan": ["task"],
    "reproduce": ["cps", "--out", "results", "--data", "data"],
    "review": ["run", "--out", "sheet.tsv"],
    "runs": ["."],
    "settings": [],
    "status": ["run"],
    "suggest": ["run", "--out", "sheet.tsv"],
    "synth": ["new-pair"],
}
"""A command line that works; half of the draws change one."""

COMMANDS: dict[str, Any] = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
HINTS = {
    item.name or item.callback.__name__.replace("_", "-"): get_type_hints(item.callback)
    for item in app.registered_commands
    if item.callback is not None
}
"""The types of the arguments and options of each command."""


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """A command with arguments and options, drawn from what the command itself says it has."""
    name = draw(st.sampled_from(sorted(COMMANDS)))
    words: list[str] = [name, *SMALL.get(name, [])]
    options = [item for item in COMMANDS[name].params if item.param_type_name == "option"]
    arguments = [item for item in COMMANDS[name].params if item.param_type_name == "argument"]
    chosen = draw(st.lists(st.sampled_from(options), max_size=3)) if options else []
    if draw(st.booleans()):
        words += VALID[name]
    else:
        words += [draw(_values(item.name, HINTS[name])) for item in arguments if draw(st.integers(0, 9))]
        chosen += [item for item in options if item.required and draw(st.integers(0, 9))]
    for item in chosen:
        words.append(draw(st.sampled_from([*item.opts, *item.secondary_opts])))
        if not item.is_flag:
            words.append(draw(_values(item.name, HINTS[name])))
    return words


def _values(option: str, hints: dict[str, Any]) -> st.SearchStrategy[str]:
    kind = str(hints[option])
    if option in BY_NAME:
        return BY_NAME[option]
    if "Path" in kind:
        return PATHS
    if "int" in kind or "float" in kind:
        return st.sampled_from(NUMBERS)
    return st.sampled_from((*WORDS, *NUMBERS, *JUNK))


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder of small inputs, with traps among them; it is the working directory in the block."""
    folder = Path(tempfile.mkdtemp(prefix="divea-outside-"))
    before = Path.cwd()
    try:
        os.chdir(folder)
        _write_inputs()
        with without_privileges():
            yield folder
    finally:
        os.chdir(before)
        if (folder / "locked").exists():
            (folder / "locked").chmod(0o700)
        shutil.rmtree(folder)


def _write_inputs() -> None:
    assert divea("synth", "pair", "--entities", 100).code == 0
    shutil.move("pair/task", "task")
    shutil.move("pair/gold.tsv", "gold.tsv")
    task = read_task("task")
    write_graph(task.source, "graph.tsv")
    Path("settings.json").write_text(json.dumps({**SETTINGS, "iterations": 1}))
    assert divea("align", "task", "--config", "settings.json", "--out", "run").code == 0
    assert divea("divide", "task", "-n", 2, "--out", "parts").code == 0
    Path("data/zh_en/splits/20/0").mkdir(parents=True)
    Path("data/fr_en/splits/20/0").mkdir(parents=True)
    Path("empty").mkdir()
    for name in ("empty.tsv", "caf\udce9.tsv", "\x1b[31mred.tsv", "[bold]"):
        Path(name).write_text("")
    Path("locked").mkdir()
    save_task(task, Path("locked/task"))
    Path("locked").chmod(0)
    Path("loop").symlink_to("loop")
    Path("broken").symlink_to("missing")
    os.mkfifo("pipe")
    os.mkfifo("pipe.json")
    depth = 900  # read by the parsers, and too deep for what comes after
    Path("deep.json").write_text('{"a":' * depth + "1" + "}" * depth)
    Path("deep.yaml").write_text("a: " + "[" * 10_000)
    Path("deep.toml").write_text(".".join("a" * 5000) + " = 1")
