"""The release: what sdist and wheel hold, and the wheel at work in an environment without extras.

`make release` builds both into `dist` and installs the wheel into `.release`; `make test` does so first.
"""

import email
import json
import re
import subprocess
import tarfile
import tomllib
import zipfile
from email.message import Message
from pathlib import Path, PurePosixPath

import pytest

from divea import __version__

ROOT = Path(__file__).parents[1]
ENVIRONMENT = ROOT / ".release"
SDIST = ROOT / "dist" / f"divea-{__version__}.tar.gz"
WHEEL = ROOT / "dist" / f"divea-{__version__}-py3-none-any.whl"

pytestmark = pytest.mark.skipif(
    not (ENVIRONMENT / "installed").exists(), reason="`make release` builds what is tested here"
)

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

DATA_SUFFIXES = {".arrow", ".csv", ".gz", ".npy", ".npz", ".nt", ".parquet", ".tsv", ".ttl", ".zst"}

LARGEST = 200_000
"""Bytes of the largest file that a release may hold: a data set is larger."""


def names_in_wheel() -> set[str]:
    with zipfile.ZipFile(WHEEL) as wheel:
        return set(wheel.namelist())


def metadata() -> Message:
    with zipfile.ZipFile(WHEEL) as wheel:
        return email.message_from_bytes(wheel.read(f"divea-{__version__}.dist-info/METADATA"))


def modules_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.py")}


def run(*command: object, folder: Path) -> str:
    """The output of a command of the release environment that knows nothing of this checkout."""
    program, *arguments = map(str, command)
    done = subprocess.run(
        [ENVIRONMENT / "bin" / program, *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_the_package_and_nothing_else():
    names = names_in_wheel()
    assert {PurePosixPath(name).parts[0] for name in names} == {"divea", f"divea-{__version__}.dist-info"}
    modules = {f"divea/{name}" for name in modules_in(ROOT / "src" / "divea")}
    templates = {
        f"divea/report/templates/{name}" for name in ("report.css", "report.html", "report.js", "row.html")
    }
    assert {name for name in names if name.startswith("divea/")} == {*modules, *templates, "divea/py.typed"}
    assert f"divea-{__version__}.dist-info/licenses/LICENSE" in names


def test_the_sdist_holds_sources_tests_docs_and_examples_but_no_data():
    with tarfile.open(SDIST) as sdist:
        members = [member for member in sdist.getmembers() if not member.isdir()]
    assert all(member.isreg() for member in members), "a release holds no links"
    sizes = {PurePosixPath(member.name): member.size for member in members}
    names = {name.relative_to(f"divea-{__version__}").as_posix() for name in sizes}
    expected = {"LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
    expected |= {"Makefile", "pyproject.toml", "constraints.txt", "src/divea/py.typed"}
    for folder in ("src", "tests", "docs", "benchmarks"):
        expected |= {f"{folder}/{name}" for name in modules_in(ROOT / folder)}
    expected |= {f"examples/{path.name}" for path in (ROOT / "examples").glob("*.ipynb")}
    expected |= {f"docs/{path.relative_to(ROOT / 'docs')}" for path in (ROOT / "docs").rglob("*.md")}
    assert expected <= names
    assert {name for name in names if name.startswith(".")} <= {".gitignore"}
    assert {name for name, size in sizes.items() if size > LARGEST} == set()
    assert not {PurePosixPath(name).suffix for name in names} & DATA_SUFFIXES


def test_the_metadata_is_that_of_the_project():
    found = metadata()
    assert found["Version"] == __version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__), "a release has no suffix"
    assert found["License-Expression"] == "MIT"
    assert found["Requires-Python"] == PROJECT["requires-python"]
    versions = {line.rpartition(" ")[2] for line in found.get_all("Classifier", []) if ":: 3." in line}
    assert versions == {"3.11", "3.12", "3.13"}
    assert "Typing :: Typed" in found.get_all("Classifier", [])
    needed = {line for line in found.get_all("Requires-Dist", []) if "extra ==" not in line}
    assert needed == set(PROJECT["dependencies"])
    assert found.get_payload() == (ROOT / "README.md").read_text()


def test_the_changelog_has_an_entry_for_the_release():
    assert re.search(rf"^## {re.escape(__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_the_environment_holds_the_release_and_no_extras(tmp_path):
    listed = json.loads(run("python", "-m", "pip", "list", "--format=json", folder=tmp_path))
    installed = {package["name"].lower(): package["version"] for package in listed}
    assert installed["divea"] == __version__
    assert not {"kaminpar", "matplotlib", "ray", "pytest", "mypy", "hypothesis"} & installed.keys()
    run("python", "-m", "pip", "check", folder=tmp_path)
    origin = run("python", "-c", "import divea; print(divea.__file__)", folder=tmp_path)
    assert Path(origin.strip()).is_relative_to(ENVIRONMENT)


def test_the_release_generates_aligns_and_evaluates(tmp_path):
    assert run("divea", "--version", folder=tmp_path) == f"divea {__version__}\n"
    run("divea", "synth", "pair", "--entities", "500", "--random-seed", "1", folder=tmp_path)
    run("divea", "align", "pair/task", "-n", "2", "--out", "run", folder=tmp_path)
    header, *pairs = (tmp_path / "run" / "mappings.tsv").read_text().splitlines()
    assert header.startswith("source\ttarget\t")
    assert len(pairs) > 50
    figures = json.loads(
        run("divea", "evaluate", "run", "--gold", "pair/gold.tsv", "--json", folder=tmp_path)
    )
    assert figures["hits@1"] > 0.5
