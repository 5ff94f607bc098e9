"""Every command in the README, the documentation and the help texts runs as it stands there."""

import inspect
import re
import shlex
import shutil
import textwrap
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
import typer

from divea.cli.app import app
from divea.formats import read_task, write_graph
from tests.command_line import Ended, divea

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)

NOT_RUN = {
    r"--device cuda|--gpu-memory": "needs a GPU",
    r"--executor ray": "needs a Ray cluster",
    r"features\.(given|encoder)\.": "needs files of vectors, or a text encoder",
    r"\.\./shared|divea reproduce|dbp15k/|info zh_en": "reads data sets that are not in the repository",
    r"\bPAIR\b|\bRUN\b|\bNAME\b|\bOUT\b|\bTASK\b|--entities [NX]\b": "holds a placeholder",
    r"^/usr/bin/time": "takes minutes",
}
"""Commands that are parsed and not run, by a pattern, with the reason."""

OTHER_PROGRAMS = {
    r"make (demo|test|test-all|clean)": "CI runs it",
    r"source \.venv/bin/activate|pip install ": "changes the environment",
    r"ray (start|stop)": "needs a Ray cluster",
    r"python -m benchmarks ": "tests/test_benchmarks.py runs every benchmark on small data",
    r"python docs/generate\.py": "tests/test_docs.py runs it",
}
"""Commands of other programs, by how they start, with the reason why they are not run here."""


@dataclass(frozen=True)
class Documented:
    """A command, and where it is written."""

    place: str
    command: str
    printed: str = ""
    """What the documentation says that it prints; empty if it does not say."""

    def __str__(self) -> str:
        return f"{self.place}: {self.command[:60]}"

    @property
    def words(self) -> list[str]:
        return shlex.split(self.command, comments=True)

    @property
    def reason(self) -> str | None:
        """Why the command is not run; None if it is."""
        return next((reason for pattern, reason in NOT_RUN.items() if re.search(pattern, self.command)), None)


def commands_of(place: str, text: str) -> list[Documented]:
    """The commands of a code block: lines after a `$`, or every line if there is none."""
    lines = textwrap.dedent(text).replace("\\\n", " ").splitlines()
    if not any(line.startswith("$ ") for line in lines):
        return [Documented(place, line) for line in lines if is_command(line)]
    found: list[Documented] = []
    for line in lines:
        if line.startswith("$ "):
            found.append(Documented(place, line[2:]))
        elif found:
            last = found.pop()
            found.append(Documented(place, last.command, f"{last.printed}{line}\n"))
    return found


def is_command(line: str) -> bool:
    # "divea align would make 2 subtasks" is what `divea plan` prints.
    return bool(re.match(r"divea (?!align would)|" + "|".join(OTHER_PROGRAMS), line))


def documented() -> list[Documented]:
    found = []
    for page in PAGES:
        text = page.read_text()
        for block in BLOCK.finditer(text):
            if block[1] in ("", "sh", "bash", "console"):
                line = text[: block.start()].count("\n") + 1
                found += commands_of(f"{page.relative_to(ROOT)}:{line}", block[2])
    # Commands that are documented twice are run once.
    for item in app.registered_commands:
        _, _, examples = (inspect.getdoc(item.callback) or "").partition("Example")
        name = item.name or item.callback.__name__.replace("_", "-")
        found += commands_of(f"divea {name} --help", examples.partition("\n")[2])
    return list({item.command.partition("  #")[0].strip(): item for item in found}.values())


ALL = documented()
OURS = [item for item in ALL if item.words[0] == "divea" and item.words[1:]]
PROGRAM = typer.main.get_command(app)


def test_commands_are_found():
    places = {item.place.partition(":")[0].partition(" --")[0] for item in OURS}
    assert {"README.md", "docs/guide/align.md", "docs/guide/large.md", "docs/notes/results.md"} <= places
    assert {f"divea {name}" for name in PROGRAM.commands} <= places
    assert len(OURS) > 60


@pytest.mark.parametrize("item", [item for item in ALL if item.words[0] != "divea"], ids=str)
def test_commands_of_other_programs_are_known(item):
    assert any(re.match(pattern, item.command) for pattern in OTHER_PROGRAMS), item


@pytest.mark.parametrize("item", OURS, ids=str)
def test_a_command_can_be_parsed(item):
    if item.words[1] in ("--help", "--version"):
        return
    words = item.words[1 : item.words.index(">")] if ">" in item.words else item.words[1:]
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
        assert divea("synth", "demo-names", "--entities", 150, "--names", "--seed-share", 0).code == 0
        named = read_task("demo-names/task")
        write_graph(named.source, "catalogue.nt.gz")
        write_graph(named.target, "wikidata.ttl")
        made = divea("align", "demo-names/task", "--config", "settings.yaml", "--out", "demo-names/run")
        assert made.code == 0, made
        shutil.copytree("run", "experiments/run")
        shutil.copytree("run", "whole")
        assert divea("divide", "pair/task", "-n", 2, "--out", "parts").code == 0
        shutil.copytree("parts", "demo/parts")
    return folder


def run(item: Documented) -> Ended:
    """Run the command in the working directory; what it writes is removed before."""
    words = item.words
    redirected = words[words.index(">") + 1] if ">" in words else None
    words = words[1 : words.index(">")] if ">" in words else words[1:]
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
        for item in OURS
        if item.reason is None and not item.printed and item.words[1] not in ("--help", "--version")
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
    [item for item in OURS if item.printed and "demo" not in item.command and not item.reason],
    ids=str,
)
def test_a_command_prints_what_its_page_says(item, template, tmp_path, monkeypatch):
    shutil.copytree(template, tmp_path / "folder")
    monkeypatch.chdir(tmp_path / "folder")
    ended = run(item)
    # A long message is wrapped on the page.
    assert item.printed.split() == (ended.out + ended.err).split()


@pytest.mark.slow
def test_the_demo_of_the_readme_prints_what_the_readme_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    steps = [item for item in OURS if item.printed and "demo" in item.command]
    assert len(steps) >= 4
    for item in steps:
        ended = divea(*item.words[1:])
        assert ended.code == 0, ended
        for line in item.printed.splitlines():
            assert line in (ended.out + ended.err).splitlines(), (item.command, line)


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
