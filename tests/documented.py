"""The commands in the README, the documentation and the help texts, as they stand there."""

from __future__ import annotations

import re
import shlex
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
"""Pages whose commands are run in order in one folder, by tests/test_tutorials.py."""

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)

NOT_RUN = {
    r"--device cuda|--gpu-memory": "needs a GPU",
    r"--executor ray|ray (start|stop)": "needs a Ray cluster",
    r"features\.(given|encoder)\.": "needs files of vectors, or a text encoder",
    r"\.\./shared|divea reproduce|dbp15k/|info zh_en": "reads data sets that are not in the repository",
    r"\bPAIR\b|\bRUN\b|\bNAME\b|\bOUT\b|\bTASK\b|\bLABEL\b|--entities [NX]\b": "holds a placeholder",
    r"^/usr/bin/time|--entities \d{7,}|align .*-n \d{3,}": "takes minutes",
    r"^pip install ": "changes the environment",
}
"""Commands that are parsed and not run, by a pattern, with the reason."""

OTHER_PROGRAMS = {
    r"make (demo|docs|test|test-all|clean)": "CI runs it",
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
    def arguments(self) -> list[str]:
        """The words after the program's name, without what a shell does with the output."""
        words = self.words[1:]
        return words[: min((words.index(sign) for sign in (">", "|") if sign in words), default=len(words))]

    @property
    def is_of_tutorial(self) -> bool:
        return self.place.startswith("docs/tutorials/")

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


def commands_of_page(page: Path) -> list[Documented]:
    text, found = page.read_text(), []
    for block in BLOCK.finditer(text):
        if block[1] in ("", "sh", "bash", "console"):
            line = text[: block.start()].count("\n") + 1
            found += commands_of(f"{page.relative_to(ROOT)}:{line}", block[2])
    return found
