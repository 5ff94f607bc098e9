"""The benchmarks that exist: every module in the folders of the four kinds."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.common import Figures, Needs
from benchmarks.common.records import RECORDS
from divea.errors import InputError
from divea.resources.machine import resolve_device

KINDS = ("speed", "quality", "robustness", "calibration")

_OF_THE_RUNNER = ("record", "label", "commit")
"""Options that say what happens to the figures, and do not change them."""


@dataclass(frozen=True)
class Benchmark:
    """One benchmark. Its module is imported when it is first used."""

    kind: str
    name: str

    @property
    def module(self) -> Any:
        return import_module(f"benchmarks.{self.kind}.{self.name}")

    @property
    def needs(self) -> Needs:
        needs: Needs = self.module.NEEDS
        return needs

    @property
    def description(self) -> str:
        return inspect.getdoc(self.module) or ""

    @property
    def summary(self) -> str:
        """The first line of the description."""
        return self.description.partition("\n")[0]

    def parser(self) -> argparse.ArgumentParser:
        """A parser with the benchmark's own options, and those that say what happens to its figures."""
        needs = self.needs
        parser = argparse.ArgumentParser(
            prog=f"python -m benchmarks run {self.name}",
            description=self.description,
            epilog=f"data: {needs.data}; hardware: {needs.hardware}; time: {needs.time}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.module.add_options(parser)
        output = parser.add_argument_group("output")
        output.add_argument(
            "--record",
            nargs="?",
            type=Path,
            const=RECORDS,
            metavar="FOLDER",
            help="write a record to FOLDER (default: benchmarks/records) instead of printing it",
        )
        output.add_argument("--label", help="call the record NAME-LABEL (default: cuda on a GPU)")
        output.add_argument("--commit", help="the commit to record, where there is no git repository")
        return parser

    def run(self, options: argparse.Namespace) -> tuple[Figures, str]:
        """The figures, and the device that was used."""
        device = "cpu"
        if self.needs.hardware == "GPU":
            device = self._gpu()
        elif "device" in options:
            device = options.device = resolve_device(options.device)
        figures: Figures = self.module.run(options)
        return figures, device

    def _gpu(self) -> str:
        try:
            return resolve_device("cuda")
        except InputError:
            raise InputError("this benchmark needs a GPU, and torch finds none here") from None


def all_benchmarks() -> Iterator[Benchmark]:
    """Every benchmark, by kind and name."""
    folder = Path(__file__).parent
    for kind in KINDS:
        for path in sorted((folder / kind).glob("[!_]*.py")):
            yield Benchmark(kind, path.stem)


def find(name: str) -> Benchmark:
    """The benchmark of this name."""
    found = {benchmark.name: benchmark for benchmark in all_benchmarks()}
    if name not in found:
        raise InputError(f"unknown benchmark {name!r}; choose from {', '.join(found)}")
    return found[name]


def parameters(options: argparse.Namespace) -> dict[str, Any]:
    """The options that figures depend on."""
    return {name: value for name, value in vars(options).items() if name not in _OF_THE_RUNNER}
