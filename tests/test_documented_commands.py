"""Every command in the README, the documentation and the help texts runs as it stands there."""

import inspect
import re
import shutil
from contextlib import chdir
from pathlib import Path
from types import ModuleType

import pytest
import typer

from divea.cli.app import app
from divea.formats import read_task, write_graph
from tests.command_line import Ended, divea
from tests.documented import (
    BLOCK,
    OTHER_PROGRAMS,
    PAGES,
    ROOT,
    Documented,
    commands_of,
    commands_of_page,
)


def documented() -> list[Documented]:
    found = []
    for page in PAGES:
        found += commands_of_page(page)
    # Commands that are documented twice are run once.
    for item in app.registered_commands:
        _, _, examples = (inspect.getdoc(item.callback) or "").partition("Example")
        name = item.name or item.callback.__name__.replace("_", "-")
        found += commands_of(f"divea {name} --help", examples.partition("\n")[2])
    return list({item.command.partition("  #")[0].strip(): item for item in found}.values())


ALL = documented()
OURS = [item for item in ALL if item.words[0] == "divea" and item.words[1:]]
RUN_HERE = [item for item in OURS if item.reason is None and not item.is_of_tutorial]
PROGRAM = typer.main.get_command(app)


def test_commands_are_found():
    places = {item.place.partition(":")[0].partition(" --")[0] for item in OURS}
    assert {"README.md", "docs/guide/align.md", "docs/guide/large.md", "docs/notes/results.md"} <= places
    assert {f"divea {name}" for name in PROGRAM.commands} <= places
    assert len(OURS) > 60


@pytest.mark.parametrize(
    "item", [item for item in ALL if item.words[0] != "divea" and not item.is_of_tutorial], ids=str
)
def test_commands_of_other_programs_are_known(item):
    assert any(re.match(pattern, item.command) for pattern in OTHER_PROGRAMS), item


@pytest.mark.parametrize("item", OURS, ids=str)
def test_a_command_can_be_parsed(item):
    if item.words[1] in ("--help", "--version"):
        return
    words = item.arguments
    assert words[0] in PROGRAM.commands
    if words[1:] == ["--help"]:
        return
    # A capital letter stands for a number.
    PROGRAM.commands[words[0]].make_context(words[0], [re.sub(r"^[A-Z]$", "1", word) for word in words[1:]])


def mentioned() -> list[tuple[str, list[str]]]:
    """Commands in the text around code blocks, such as `divea align --out run`."""
    found = []
    for page in PAGES:
        prose = BLOCK.sub("", page.read_text())
        for text in re.findall(r"`(divea [^`]+)`", prose):
            found.append((f"{page.relative_to(ROOT)}: {text}", text.split()[1:]))
    for item in app.registered_commands:
        for text in re.findall(r"`(divea [^`]+)`", inspect.getdoc(item.callback) or ""):
            found.append((f"help: {text}", text.split()[1:]))
    return found


@pytest.mark.parametrize(
    ("place", "words"), mentioned(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_commands_and_options_that_the_text_mentions_exist(place, words):
    name, *rest = words
    if name == "COMMAND" or name.startswith("-"):
        return
    assert name in PROGRAM.commands, place
    options = {text for item in PROGRAM.commands[name].params for text in (*item.opts, *item.secondary_opts)}
    for word in rest:
        if re.match(r"--?[a-z]", word):
            assert word.partition("=")[0] in {*options, "--help"}, (place, word)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A folder with small data under all names that commands use."""
    folder = tmp_path_factory.mktemp("documented")
    with chdir(folder):
        # With names, a pair of this size has a confidence, which thresholds need.
        assert divea("synth", "pair", "--entities", 150, "--names").code == 0
        task = read_task("pair/task")
        shutil.copytree("pair", "demo")
        shutil.copy("pair/gold.tsv", "gold.tsv")
        for name in ("a.nt", "a.nt.gz", "graph.ttl.gz"):
            write_graph(task.source, name)
        for name in ("b.nt", "b.ttl"):
            write_graph(task.target, name)
        source, target = task.seeds.labels(task.source, task.target)
        pairs = list(zip(source.to_pylist(), target.to_pylist(), strict=True))
        Path("known.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
        assert divea("convert", "known.tsv", "known.sssom.tsv").code == 0
        lines = [f"{label}\tName {at}\n" for at, label in enumerate(task.source.entities.to_pylist())]
        Path("names.tsv").write_text("".join(["entity\tname\n", *lines]))
        small = "subtasks: 2\niterations: 1\nmodel:\n  label-propagation: {heads: 16, labels: 32}\n"
        Path("settings.yaml").write_text(small)
        assert divea("align", "pair/task", "--config", "settings.yaml", "--out", "run").code == 0
        shutil.copy("run/mappings.tsv", "mappings.tsv")
        assert divea("review", "run", "-o", "sheet.tsv").code == 0
        *top, first, second = Path("sheet.tsv").read_text().splitlines()[:4]
        Path("sheet.tsv").write_text("\n".join([*top, f"accept{first}", f"reject{second}"]))
        shutil.copytree("run", "demo/run")
        assert divea("synth", "seedless", "--entities", 150, "--names", "--seed-share", 0).code == 0
        named = read_task("seedless/task")
        write_graph(named.source, "catalogue.nt.gz")
        write_graph(named.target, "wikidata.ttl")
        shutil.copytree("run", "experiments/run")
        shutil.copytree("run", "whole")
        assert divea("divide", "pair/task", "-n", 2, "--out", "parts").code == 0
        shutil.copytree("parts", "demo/parts")
    return folder


def run(item: Documented) -> Ended:
    """Run the command in the working directory; what it writes is removed before."""
    words = item.words
    redirected = words[words.index(">") + 1] if ">" in words else None
    words = item.arguments
    context = PROGRAM.commands[words[0]].make_context(words[0], words[1:])
    written = [context.params.get(name) for name in ("out", "output")]
    for path in (Path(path) for path in written if path is not None):
        is_continued = words[0] == "align" and context.params["task"] is context.params["source"] is None
        if path.is_dir() and not is_continued:
            shutil.rmtree(path)
        elif path.is_file():
            path.unlink()
    ended = divea(*words)
    if redirected is not None:
        Path(redirected).write_text(ended.out)
    return ended


HEAVY = re.compile(r"--entities \d{4,}|divea align (?!.*--config)")
"""Takes more than a few seconds on a busy machine."""


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(item, marks=[pytest.mark.slow] if HEAVY.search(item.command) else [])
        for item in RUN_HERE
        if not item.printed and item.words[1] not in ("--help", "--version")
    ],
    ids=str,
)
def test_a_command_runs_as_it_stands(item, template, tmp_path, monkeypatch):
    shutil.copytree(template, tmp_path / "folder")
    monkeypatch.chdir(tmp_path / "folder")
    ended = run(item)
    assert ended.code == 0, ended


@pytest.mark.parametrize(
    "item",
    [item for item in RUN_HERE if item.printed and not item.place.startswith("README")],
    ids=str,
)
def test_a_command_prints_what_its_page_says(item, template, tmp_path, monkeypatch):
    shutil.copytree(template, tmp_path / "folder")
    monkeypatch.chdir(tmp_path / "folder")
    ended = run(item)
    # A long message is wrapped on the page.
    assert item.printed.split() == (ended.out + ended.err).split()


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/guide/align.md", "docs/guide/names.md"])
def test_the_python_examples_of_a_page_run_one_after_the_other(page, template, tmp_path, monkeypatch):
    shutil.copytree(template, tmp_path / "folder")
    monkeypatch.chdir(tmp_path / "folder")
    module = ModuleType("example")
    blocks = [block[2] for block in BLOCK.finditer((ROOT / page).read_text()) if block[1] == "python"]
    assert blocks
    for code in blocks:
        compiled = compile(code, page, "exec")
        if 'model="rrea"' not in code:  # takes minutes on a CPU
            exec(compiled, vars(module))
