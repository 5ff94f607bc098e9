"""Whether models give the same bits again on a device, and whether they keep the contract of models there.

DBP15K zh-en, split 20/0, a few steps of each model. The contract is that of `check_model`.
"""

from __future__ import annotations

import argparse

from benchmarks.common import LIGHTEA, DataSet, Figures, Needs, add_data, add_device
from divea.config import ModelSettings
from divea.models import Model, check_model, make_model

NEEDS = Needs("DBP15K", "CPU or GPU", "2 min (GPU)")

SHORT: dict[str, dict[str, int]] = {
    "rrea": {"steps": 40},
    "gcn-align": {"steps": 200},
    "dual-amn": {"steps": 20},
    "label-propagation": {**LIGHTEA, "rounds": 2},
}


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data(parser, ["zh-en"])
    add_device(parser)
    parser.add_argument("--models", nargs="+", choices=list(SHORT), default=list(SHORT))


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    units = dict.fromkeys(("model", "options", "same bits again", "contract"), "")
    table = figures.table(f"repeats on {options.device}", units)
    task = DataSet("zh-en", options.data).task()
    for name in options.models:
        settings: ModelSettings = ModelSettings.checked({"name": name, name: SHORT[name]})
        model = make_model(settings)
        first, again = (model.embed(task, random_seed=1, device=options.device) for _ in range(2))
        is_same = first.source.equal(again.source) and first.target.equal(again.target)
        if not is_same:
            figures.fail(f"{name}: the bits differ")
        kept = contract(model, options.device)
        if kept != "kept":
            figures.fail(f"{name}: {kept}")
        shown = ", ".join(f"{option} {value}" for option, value in SHORT[name].items())
        table.add({"model": name, "options": shown, "same bits again": is_same, "contract": kept})
    return figures


def contract(model: Model, device: str) -> str:
    """ "kept", or what is broken."""
    try:
        check_model(model, device=device)
    except AssertionError as error:
        return f"broken: {error}"
    return "kept"
