"""The runner: `python -m benchmarks` lists all benchmarks, `run NAME` runs one, `page` writes the page."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence

from benchmarks.catalogue import KINDS, Benchmark, all_benchmarks, find, parameters
from benchmarks.common import make_record, say, write_record
from benchmarks.common.records import PAGE
from benchmarks.page import render, stored_records
from divea.errors import InputError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Benchmarks of divea. Without a command: list them."
    )
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("list", help="list all benchmarks, and what they need")
    # The benchmark's own parser handles --help.
    run = commands.add_parser("run", help="run one benchmark; `run NAME --help` explains it", add_help=False)
    run.add_argument("name")
    run.add_argument("options", nargs=argparse.REMAINDER)
    commands.add_parser("page", help="write docs/notes/benchmarks.md from the records")
    given = parser.parse_args(arguments)
    try:
        if given.command == "run":
            return run_benchmark(find(given.name), given.options)
        if given.command == "page":
            PAGE.parent.mkdir(parents=True, exist_ok=True)
            PAGE.write_text(render(stored_records()))
        else:
            print(listing())
    except InputError as error:
        say(f"{given.name}: {error}" if given.command == "run" else str(error))
        return 2
    return 0


def listing() -> str:
    """One line per benchmark: name, data, hardware, time, and what it measures."""
    rows = [(benchmark, benchmark.needs) for benchmark in all_benchmarks()]
    name_width = max(len(benchmark.name) for benchmark, _ in rows)
    data_width, hardware_width, time_width = (
        max(len(getattr(needs, column)) for _, needs in rows) for column in ("data", "hardware", "time")
    )
    lines = []
    for kind in KINDS:
        lines.append(f"{kind}:")
        lines += [
            f"  {benchmark.name:{name_width}}  {needs.data:{data_width}}  {needs.hardware:{hardware_width}}  "
            f"{needs.time:>{time_width}}  {benchmark.summary}"
            for benchmark, needs in rows
            if benchmark.kind == kind
        ]
    return "\n".join(lines)


def run_benchmark(benchmark: Benchmark, arguments: Sequence[str]) -> int:
    """Run one benchmark; print its record, or write it if the options say so."""
    options = benchmark.parser().parse_args(arguments)
    start = time.perf_counter()
    figures, device = benchmark.run(options)
    record = make_record(
        benchmark.name,
        figures,
        arguments=[benchmark.name, *arguments],
        parameters=parameters(options),
        device=device,
        seconds=time.perf_counter() - start,
        commit=options.commit,
    )
    if options.record is None:
        print(json.dumps(record, indent=1, ensure_ascii=False))
    else:
        label = options.label or ("cuda" if device == "cuda" else None)
        say(f"written: {write_record(record, options.record, label)}")
    return 1 if figures.failures else 0


if __name__ == "__main__":
    sys.exit(main())
