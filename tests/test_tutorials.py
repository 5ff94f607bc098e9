"""Every tutorial and the README, followed from an empty folder, print what their pages say.

A page is followed from top to bottom. The block after "Save this as `NAME`:" is a file that the reader
writes, and a block of the language `console` holds commands with what they print. Times and amounts of memory
depend on the machine and are not compared. Commands that need a GPU or a cluster are not run, and the page
shows no output of them.

`pytest tests/test_tutorials.py --refresh` writes what the commands print into the pages.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import divea
from tests.documented import ROOT, TUTORIALS, Documented

PART = re.compile(r"(?:Save this as\s`([\w.-]+)`:\n\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STEP = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
DEPENDS_ON_MACHINE = re.compile(r"\d[\d,.]*\s(?:ms|s|min|h|[KMGT]?i?B)\b")


def comparable(printed: str) -> list[str]:
    return [DEPENDS_ON_MACHINE.sub("#", line).rstrip() for line in printed.splitlines()]


def typed(item: Documented) -> tuple[int, str]:
    """The exit code of a command, and what a terminal shows of it."""
    if item.words[0] == "divea" and item.arguments == item.words[1:]:
        ended = divea(*item.arguments)
        return ended.code, ended.shown
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", item.command],
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def followed(page: str) -> str:
    """The page, with what its commands print in the working directory."""

    def step(found: re.Match[str]) -> str:
        command, said = found.groups()
        item = Documented("tutorial", command.replace("\\\n", " "))
        if item.reason is not None:
            assert not said, f"{command}: {item.reason}, so the page cannot say what it prints"
            return found[0]
        code, printed = typed(item)
        assert code == 0 or said.startswith("divea: "), f"{command}: exit code {code}\n{printed}"
        if comparable(said) == comparable(printed):
            return found[0]
        lines = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
        return f"$ {command}\n{lines}"

    def part(found: re.Match[str]) -> str:
        name, language, text = found.groups()
        if name is not None:
            Path(name).write_text(text)
        elif language == "console":
            return found[0].replace(text, STEP.sub(step, text))
        return found[0]

    return PART.sub(part, page)


def test_there_are_tutorials():
    assert {"names.md", "seeds.md", "large.md"} <= {page.name for page in TUTORIALS}


@pytest.mark.parametrize(
    "page",
    [*TUTORIALS, pytest.param(ROOT / "README.md", marks=pytest.mark.slow)],
    ids=lambda page: page.stem,
)
def test_a_tutorial_prints_what_it_says(page, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    assert "$ divea align" in text
    new = followed(text)
    if request.config.getoption("--refresh"):
        page.write_text(new)
    else:
        assert new == text


def test_wrong_output_files_and_exit_codes_are_noticed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = "Save this as `a.txt`:\n\n```text\none\ntwo\n```\n\n```console\n$ cat a.txt\none\ntwo\n```\n"
    assert followed(page) == page
    assert followed(page.replace("two\n```\n\n", "three\n```\n\n")) != page
    assert followed(page.replace("$ cat a.txt\none\n", "$ cat a.txt\n")) == page
    with pytest.raises(AssertionError, match="exit code 1"):
        followed(page.replace("cat a.txt", "cat b.txt"))
    with pytest.raises(AssertionError, match="needs a GPU"):
        followed("```console\n$ divea align a --device cuda\n5 pairs\n```\n")
    timed = "```console\n$ echo 'took 3.5 s and 11.8 GiB for 7 pairs'\ntook 90 s and 2 MiB for 7 pairs\n```\n"
    assert followed(timed) == timed
    assert followed(timed.replace("for 7 pairs\n`", "for 8 pairs\n`")) != timed


def test_tutorials_are_in_the_navigation_and_on_the_start_page():
    configuration, start = (ROOT / "docs" / name for name in ("conf.py", "index.md"))
    for page in TUTORIALS:
        assert f"tutorials/{page.stem}" in configuration.read_text()
        assert f"tutorials/{page.stem}" in start.read_text()
