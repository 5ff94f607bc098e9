"""The documentation agrees with the code, its links lead to pages, and its examples run."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "divea"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")])
FENCE = re.compile(r"^ *```")


def named(page):
    """The path of a page in the repository, as the name of its tests."""
    return page.relative_to(ROOT).as_posix()


def prose(page):
    """The lines outside code blocks, with their numbers."""
    is_code = False
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        if FENCE.match(line):
            is_code = not is_code
        elif not is_code:
            yield number, line


def first_cells(page):
    """The names in the first cell of every row of a page's tables."""
    rows = [line for _, line in prose(page) if line.startswith("|")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])]


def test_the_architecture_page_has_one_row_for_every_module():
    listed = [name for name in first_cells(ROOT / "docs" / "architecture.md") if name.endswith(".py")]
    modules = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py" or path.parent == PACKAGE
    ]
    assert sorted(listed) == sorted(modules)


def test_the_architecture_page_has_a_row_for_every_package():
    listed = {name.removesuffix("/") for name in first_cells(ROOT / "docs" / "architecture.md")}
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages <= listed


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = [line.lstrip("#").strip() for _, line in prose(page) if line.startswith("#")]
    slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    # A heading that repeats an earlier one gets a number.
    return {
        slug if not (before := slugs[:at].count(slug)) else f"{slug}-{before}"
        for at, slug in enumerate(slugs)
    }


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_to_files_and_headings(page):
    text = "\n".join(line for _, line in prose(page))
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", text):
        if re.match(r"\w+:", target):
            continue
        linked = page.parent / target if target else page
        assert linked.exists(), f"links to {target}"
        if anchor:
            assert anchor in anchors(linked), f"links to {target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_prose_has_at_most_100_columns(page):
    """Tables, headings and lines with links may be longer, because they cannot be wrapped."""
    for number, line in prose(page):
        if not line.startswith(("|", "#")) and "](" not in line and "://" not in line:
            assert len(line) <= 100, f"line {number} has {len(line)} columns"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_code_blocks_are_closed(page):
    assert sum(bool(FENCE.match(line)) for line in page.read_text().splitlines()) % 2 == 0


def examples(page):
    """The Python examples of a page: the line on which each starts, and its code."""
    text = page.read_text() if page.exists() else ""
    blocks = re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [(text[: block.start(1)].count("\n"), block[1]) for block in blocks]


CONTRIBUTING = ROOT / "CONTRIBUTING.md"


@pytest.mark.parametrize(
    ("line", "code"), [pytest.param(*example, id=f"line {example[0]}") for example in examples(CONTRIBUTING)]
)
def test_an_example_of_the_contributing_page_runs(line, code, monkeypatch, tmp_path):
    # The examples define classes, which look up their own module.
    module = ModuleType(f"contributing_line_{line}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    # Blank lines give errors the line numbers of the page.
    exec(compile("\n" * line + code, CONTRIBUTING, "exec"), vars(module))
    assert list(tmp_path.iterdir()) == []


def test_the_contributing_page_has_an_example_for_every_kind_of_component():
    text = "".join(code for _, code in examples(CONTRIBUTING))
    for name in ("check_model", "check_division", "check_executor"):
        assert f"{name}(" in text
    assert len(examples(CONTRIBUTING)) >= 4


def test_the_reference_pages_are_up_to_date():
    program = ROOT / "docs" / "generate.py"
    ended = subprocess.run(
        [sys.executable, program, "--check"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_no_machine_is_named():
    """Absolute paths of a machine and host names of registries stay out of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    files = [ROOT / name for name in listed.stdout.splitlines()]
    texts = [path for path in files if path.suffix in {".py", ".md", ".toml", ".txt"} and path.exists()]
    assert len(texts) > 100
    bad = re.compile(r"/(?:work|root|home)/[a-z]|pypi\.|registry\.npmjs")
    for path in texts:
        if path != Path(__file__):
            found = bad.search(path.read_text())
            assert found is None, f"{path}: {found}"


PYTHON = ROOT / "docs" / "guide" / "python.md"


@pytest.mark.slow
def test_the_examples_of_the_python_page_print_what_it_says(monkeypatch, tmp_path, capsys):
    """One after the other, in one program; a block of text after an example is what it prints."""
    monkeypatch.chdir(tmp_path)
    module = ModuleType("python_page")
    text = PYTHON.read_text()
    blocks = re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == len(examples(PYTHON)) >= 4 and all(printed for _, printed in blocks)
    for code, printed in blocks:
        exec(compile(code, PYTHON, "exec"), vars(module))
        assert capsys.readouterr().out == printed
    assert list(tmp_path.iterdir()) == []
