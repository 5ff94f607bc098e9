"""Feeds randomly damaged files to every reader; any exception except `InputError` is a bug.

The files are those of `tests/formats`: every kind of file of every format, damaged by cutting, repeating,
flipping, inserting and overwriting bytes. The same random seed gives the same files.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import traceback
from pathlib import Path

from benchmarks.common import Figures, Needs, add_random_seed
from divea import InputError
from tests.formats.mutations import Reader, good_files, spoil

NEEDS = Needs("none", "CPU", "5 min")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tries", type=int, default=2_000, help="damaged files of each kind")
    parser.add_argument("--only", default="", help="kinds of files with names that start like this")
    add_random_seed(parser)


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    table = figures.table("damaged files", dict.fromkeys(("kind", "tries", "refused", "read"), ""))
    with tempfile.TemporaryDirectory() as folder:
        for kind, given, path, read in good_files(Path(folder)):
            if kind.startswith(options.only):
                draw = random.Random(f"{kind} {options.random_seed}")
                tries, refused = fuzz(figures, kind, given, path, read, draw, options.tries)
                table.add({"kind": kind, "tries": tries, "refused": refused, "read": tries - refused})
    figures.add("kinds of files", len(table.rows))
    figures.add("bugs", len(figures.failures))
    return figures


def fuzz(
    figures: Figures, kind: str, given: Path, path: Path, read: Reader, draw: random.Random, tries: int
) -> tuple[int, int]:
    """Read damaged files until one causes a bug; returns how many were tried, and how many refused."""
    good = path.read_bytes()
    refused = 0
    try:
        for number in range(tries):
            damaged = spoil(good, draw)
            path.write_bytes(damaged)
            try:
                read(given)
            except InputError:
                refused += 1
            except Exception:
                figures.fail(f"{kind}: {traceback.format_exc(limit=-1).splitlines()[-1]} with {damaged!r}")
                return number + 1, refused
    finally:
        path.write_bytes(good)
    return tries, refused
