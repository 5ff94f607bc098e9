"""Options that several benchmarks have."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.common.data import DATA, PAIRS
from divea.config import PRESETS, ModelSettings, parse_assignment
from divea.errors import InputError

if TYPE_CHECKING:
    from divea.models import Model


@dataclass(frozen=True)
class Needs:
    """What a benchmark needs, for the list of benchmarks."""

    data: str
    hardware: str
    """CPU, GPU, or both; with "GPU" alone the benchmark does not run without one."""
    time: str
    """About how long it takes with its default options."""


LIGHTEA = PRESETS["best"]["model"]["label-propagation"]
"""Label propagation as wide as LightEA's, with six rounds."""


def add_data(parser: argparse.ArgumentParser, sets: Sequence[str], default: Sequence[str] = ()) -> None:
    """Options for real data: the folder, and which of the sets are used."""
    parser.add_argument("--data", type=Path, default=DATA, help="data folder (default: ../shared/data)")
    if len(sets) > 1:
        parser.add_argument(
            "--sets", nargs="+", choices=sets, default=list(default or sets), help="data sets"
        )


def add_links(parser: argparse.ArgumentParser) -> None:
    """Option for the links that results are compared with."""
    parser.add_argument(
        "--links",
        choices=("validation", "test"),
        default="validation",
        help="compare with held-out seeds (default: test links stay unread), or with test links",
    )


def add_pairs(parser: argparse.ArgumentParser) -> None:
    """Option for the folder of synthetic pairs."""
    parser.add_argument(
        "--pairs", type=Path, default=PAIRS, help=f"folder that keeps synthetic pairs (default: {PAIRS})"
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    """Option for the device; the runner replaces "auto"."""
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: the GPU if there is one"
    )


def add_rounds(parser: argparse.ArgumentParser, default: int) -> None:
    """Option for the number of rounds."""
    parser.add_argument(
        "--rounds", type=int, default=default, help=f"median and range of this many (default: {default})"
    )


def add_random_seed(parser: argparse.ArgumentParser) -> None:
    """Option for one random seed."""
    parser.add_argument("--random-seed", type=int, default=0)


def add_models(parser: argparse.ArgumentParser, default: Sequence[str]) -> None:
    """Options for models and their options."""
    parser.add_argument("--models", nargs="+", default=list(default))
    add_settings(parser, "model.rrea.steps=60")


def add_settings(parser: argparse.ArgumentParser, example: str) -> None:
    """Option for settings by path."""
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="PATH=VALUE", help=f"settings, as in {example}"
    )


def make_models(names: Sequence[str], assignments: Sequence[str]) -> dict[str, Model]:
    """Models by name, each with the assigned options that concern it: `model.rrea.steps=60`."""
    from divea.models import make_model

    changes = dict(parse_assignment(text) for text in assignments)
    for path in changes:
        if not any(path.startswith(f"model.{name}.") for name in names):
            raise InputError(f"{path} is an option of none of the models {', '.join(names)}")
    models = {}
    for name in names:
        prefix = f"model.{name}."
        own = {path.removeprefix(prefix): value for path, value in changes.items() if path.startswith(prefix)}
        settings: ModelSettings = ModelSettings.checked({"name": name, name: own})
        models[name] = make_model(settings)
    return models
