"""Damages task, division and run folders at random, signs them again, and opens them with the commands.

Checksums find accidental damage. They do not find deliberate damage, because whoever changes a file can write
its checksum too, so every checksum of a damaged folder is computed again. Each folder is opened in a process
of its own. A traceback, a signal, an endless wait and an error of more than one line are bugs, and so is
memory far beyond the size of the folder. The same random seed gives the same folders.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.common import MIB, Figures, Needs, add_random_seed, say
from divea.resources.machine import peak_memory
from tests.command_line import divea
from tests.formats.mutations import spoil

NEEDS = Needs("none", "CPU", "10 min")

MOST_MEMORY = 600 * MIB
"""Memory that a small damaged folder may take beyond the same folder without damage: a few times the bytes
that a Parquet file may expand to, whatever its size."""
ADDRESS_SPACE = 8 << 30
"""Bytes that a process may ask for, so that a bug does not exhaust the machine."""
SECONDS = 60
"""Time after which a process waits without end."""

SETTINGS = (
    "subtasks=2",
    "iterations=2",
    "model.label-propagation.labels=16",
    "model.label-propagation.heads=8",
    "model.label-propagation.draft_heads=8",
    "model.label-propagation.rounds=2",
)
NUMBERS = (0, 1, 119, 120, 121, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1)
VALUES: tuple[Any, ...] = (
    None, -1, 0, 10**30, 1e400, float("nan"), "", "x" * 5000, "../..", [], {}, [[]] * 1000, True, "\x1b[2J"
)  # fmt: skip


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tries", type=int, default=300, help="damaged folders of each kind")
    parser.add_argument("--only", default="", help="kinds of folders with names that start like this")
    add_random_seed(parser)


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    for library in LIBRARIES:
        import_module(library)
    columns = ("kind", "commands", "refused", "read", "tracebacks", "signals", "waits", "peak memory")
    table = figures.table(
        "damaged folders", {**dict.fromkeys(columns, ""), "peak memory": "MiB", "of size": "x"}
    )
    with tempfile.TemporaryDirectory(prefix="divea-fuzz-") as name:
        folder = Path(name)
        make_folders(folder)
        for kind, commands in commands_of(folder).items():
            if kind.startswith(options.only):
                draw = random.Random(f"{kind} {options.random_seed}")
                row = fuzz(figures, folder, kind, commands, draw, options.tries)
                table.add({"kind": kind, **row})
    figures.add("bugs", len(figures.failures))
    return figures


def make_folders(folder: Path) -> None:
    """A small task, its division and a finished run of it, all made by the commands."""
    pair, task = folder / "pair", folder / "task"
    # Literals come from RDF, so the synthetic task takes a detour.
    scripts = [
        ["synth", str(pair), "--entities", "120", "--random-seed", "1"],
        ["convert", str(pair / "task"), str(folder / "openea"), "--to", "openea"],
    ]
    for arguments in scripts:
        _run(arguments)
    for side in (1, 2):
        triples = (folder / "openea" / f"rel_triples_{side}").read_text().splitlines()
        heads = sorted({line.split("\t")[0] for line in triples})
        lines = "".join(f"{head}\tname{number % 3}\tvalue {number}\n" for number, head in enumerate(heads))
        (folder / "openea" / f"attr_triples_{side}").write_text(lines)
    seeds = next(path for path in (folder / "openea").rglob("*links*") if path.is_file())
    _run(["convert", str(folder / "openea"), str(task), "--to", "divea", "--seeds", str(seeds)])
    _run(["divide", str(task), "-n", "2", "-o", str(folder / "division"), "--layout", "jape"])
    # The subtasks for other aligners are not read again.
    shutil.rmtree(folder / "division" / "jape")
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    _run(
        [
            "align",
            str(task),
            "--out",
            str(folder / "run"),
            "-q",
            "--device",
            "cpu",
            "--executor",
            "inline",
            *settings,
        ]
    )


def _run(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "divea", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"divea {' '.join(arguments)}: {done.stderr}")


def commands_of(folder: Path) -> dict[str, list[list[str]]]:
    """The commands that open each kind of folder; DAMAGED stands for the folder, and OUT for a new one."""
    gold = str(folder / "pair" / "gold.tsv")
    return {
        "task": [
            ["info", "DAMAGED"],
            ["convert", "DAMAGED", "OUT", "--to", "openea"],
            ["convert", "DAMAGED", "OUT", "--to", "parquet"],
        ],
        "division": [["evaluate-division", "DAMAGED", "--task", str(folder / "task"), "--gold", gold]],
        "run": [
            ["status", "DAMAGED"],
            ["evaluate", "DAMAGED", "--gold", gold],
            ["explain", "DAMAGED", "http://source.example/resource/E0"],
            ["export", "DAMAGED", "--out", "OUT.tsv", "--names"],
            ["report", "DAMAGED", "--out", "OUT.html", "--gold", gold],
            ["review", "DAMAGED", "--out", "OUT.tsv"],
            ["suggest", "DAMAGED", "--out", "OUT.tsv"],
            ["convert", "DAMAGED/mappings.parquet", "OUT.sssom.tsv"],
            ["convert", "DAMAGED/ranked.parquet", "OUT.tsv"],
            ["check", "DAMAGED"],
            ["align", "--out", "DAMAGED", "-q", "--executor", "inline"],
        ],
    }


def fuzz(
    figures: Figures, folder: Path, kind: str, commands: list[list[str]], draw: random.Random, tries: int
) -> dict[str, Any]:
    """Open damaged copies of a folder with every command; returns how the commands ended."""
    good, damaged, out = folder / kind, folder / "damaged", folder / "out"
    size = sum(path.stat().st_size for path in good.rglob("*") if path.is_file())
    # What the commands take with the folder that is not damaged, most of it for libraries, is not counted.
    usual = [_in_child(open_with, _filled(command, good, out)).memory for command in commands]
    _remove(folder.glob("out*"))
    ends: Counter[str] = Counter()
    peak = 0
    for number in range(tries):
        shutil.copytree(good, damaged)
        what = damage(damaged, draw)
        _in_child(sign, damaged, kind)
        for command, usual_memory in zip(commands, usual, strict=True):
            end = _in_child(open_with, _filled(command, damaged, out))
            memory = max(end.memory - usual_memory, 0)
            ends[end.how] += 1
            peak = max(peak, memory)
            if end.how not in ("read", "refused") or memory > MOST_MEMORY:
                shown = f"{end.how} {end.text} ({memory / MIB:.0f} MiB)"
                figures.fail(f"{kind} {number}: {what}: {' '.join(command[:2])}: {shown}")
            _remove(folder.glob("out*"))
        shutil.rmtree(damaged)
        if number % 50 == 49:
            say(f"{kind}: {number + 1} of {tries}, {dict(ends)}")
    return {
        "commands": ends.total(),
        "refused": ends["refused"],
        "read": ends["read"],
        "tracebacks": ends["traceback"],
        "signals": ends["signal"],
        "waits": ends["wait"],
        "peak memory": peak / MIB,
        "of size": peak / size,
    }


def _filled(command: list[str], opened: Path, out: Path) -> list[str]:
    return [part.replace("DAMAGED", str(opened)).replace("OUT", str(out)) for part in command]


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def damage(folder: Path, draw: random.Random) -> str:
    """Damage one to three files of a folder; returns what was done."""
    done = []
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        path = draw.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
        edit = draw.choice(EDITS if path.suffix in (".json", ".jsonl") else EDITS[1:])
        edit(path, draw)
        done.append(f"{edit.__name__} {path.relative_to(folder)}")
    return ", ".join(done)


def odd_value(path: Path, draw: random.Random) -> None:
    """Replace a value of a JSON file, or of a line of one."""
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    at = draw.randrange(len(lines))
    with suppress(ValueError):
        content = json.loads(lines[at])
        place = content
        while isinstance(place, dict) and place:
            key = draw.choice(sorted(place))
            if isinstance(place[key], dict) and place[key] and draw.random() < 0.7:
                place = place[key]
                continue
            place[key] = draw.choice(VALUES)
            break
        lines[at] = json.dumps(content)
        if draw.random() < 0.1:
            lines[at] = draw.choice(["[" * 50_000, "9" * 5_000, '{"a":' * 50_000, "NaN", "null"])
    path.write_text("\n".join(lines) + "\n")


def odd_number(path: Path, draw: random.Random) -> None:
    """Overwrite aligned words by numbers at the limits of ids, sizes and offsets."""
    data = bytearray(path.read_bytes())
    for _ in range(draw.choice([1, 1, 4])):
        width = draw.choice([4, 8])
        if len(data) >= width:
            # The first words are headers, which deserve as much attention as all the others.
            words = len(data) // width
            at = width * (draw.randrange(min(words, 64)) if draw.random() < 0.5 else draw.randrange(words))
            number = draw.choice(NUMBERS) & (2 ** (8 * width) - 1)
            data[at : at + width] = struct.pack("<I" if width == 4 else "<Q", number)
    path.write_bytes(data)


def spoiled_bytes(path: Path, draw: random.Random) -> None:
    path.write_bytes(spoil(path.read_bytes(), draw))


def swapped_file(path: Path, draw: random.Random) -> None:
    """The content of another file of the folder."""
    others = [other for other in path.parent.iterdir() if other.is_file() and other != path]
    path.write_bytes(draw.choice(sorted(others)).read_bytes() if others else b"")


def other_kind(path: Path, draw: random.Random) -> None:
    """A pipe, a device, a folder, a loop, an empty file or nothing."""
    path.unlink()
    match draw.randrange(6):
        case 0:
            os.mkfifo(path)
        case 1:
            path.symlink_to("/dev/zero")
        case 2:
            path.mkdir()
        case 3:
            path.symlink_to(path)
        case 4:
            path.touch()


EDITS: list[Callable[[Path, random.Random], None]] = [
    odd_value, odd_number, odd_number, spoiled_bytes, swapped_file, other_kind
]  # fmt: skip


def sign(folder: Path, kind: str) -> None:
    """Write the checksums of a damaged run again, as far as its files can be read."""
    if kind != "run":
        return
    from divea.graphs import load_task
    from divea.io import file_checksum
    from divea.runs.checksums import folder_checksum, task_checksums
    from divea.runs.layout import DIVISION, JOURNAL, MANIFEST, TASK
    from divea.runs.manifest import _checksum

    with suppress(Exception):
        content = json.loads((folder / MANIFEST).read_text())
        with suppress(Exception):
            content["task"] = task_checksums(load_task(folder / TASK))
        content.pop("checksum", None)
        (folder / MANIFEST).write_text(
            json.dumps({"checksum": _checksum(content), **content}, indent=2) + "\n"
        )
    with suppress(Exception):
        lines = [json.loads(line) for line in (folder / JOURNAL).read_text().splitlines()]
        for line in lines:
            path = folder / line["file"]
            found = folder_checksum(path, DIVISION) if line["file"] == DIVISION else file_checksum(path)
            line["checksum"] = found or line["checksum"]
        (folder / JOURNAL).write_text("".join(json.dumps(line) + "\n" for line in lines))


@dataclass(frozen=True)
class End:
    """How a command ended."""

    how: str
    """read, refused, traceback, signal, wait or lines (more than one)."""
    text: str = ""
    memory: int = 0
    """Peak bytes beyond what the process held before."""


def open_with(arguments: list[str]) -> End:
    """Run a command in this process."""
    # On Linux this makes the peak what is held now.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    before = peak_memory()
    try:
        ended = divea(*arguments)
    except BaseException as error:
        return End(
            "traceback", traceback.format_exception_only(error)[-1].strip()[:300], peak_memory() - before
        )
    memory = peak_memory() - before
    if ended.code == 0:
        return End("read", memory=memory)
    is_refused = ended.code == 2 and ended.err.startswith("divea: ") and ended.err.count("\n") == 1
    return End("refused" if is_refused else "lines", ended.err.strip()[-300:], memory)


LIBRARIES = ("torch", "pyarrow.parquet", "divea.evaluation", "divea.runs.finished", "divea.runs.status")
"""Imported once, in the process that the others are forked from."""


def _in_child(work: Callable[..., End | None], *arguments: Any) -> End:
    """The result of work in a forked process, which has the libraries already."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(SECONDS)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 2)
        end = work(*arguments) or End("read")
        os.write(writer, json.dumps([end.how, end.text, end.memory]).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        found = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return End("wait" if number == signal.SIGALRM else "signal", signal.Signals(number).name)
    return End(*json.loads(found)) if found else End("traceback", "the process ended without a word")
