"""The methods that the paper compares, as settings of the same loop.

All methods run alike: Sinkhorn matching, mutual best pairs above a weight of .5 (.2 with GCN-Align) as
pseudo-seeds, no seeds held back, every source's own ranked list. Two things differ from the paper: a model
starts from scratch in each iteration, where the paper's continues training, and RREA has a loss that needs
fewer steps. A supervised run is one iteration, because five times as many steps were worse on held-out
seeds (docs/notes/reproduce.md).

`DivEA` is our division: joint, with scores averaged over iterations. `DivEA (paper)` is the paper's.
Averaging helps any division, so the rivals are also run with it ("averaged").

Methods "with names" use the names of entities too. In the paper, pairs with similar names only augment the
seeds before the division. Here they do that as well: pairs that names are sure of are the pseudo-seeds of
the first division. Beyond the paper, names also rank candidates and count in matching.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from divea.config import Settings, combine_settings, parse_assignment
from divea.config.effects import leaf_paths, with_effect
from divea.errors import InputError

METHODS: dict[str, dict[str, Any]] = {
    "CPS (sup)": {"division": "cps"},
    "CPS (semi)": {"division": "cps"},
    "CPS (semi), with names": {"division": "cps", "features": "names"},
    "CPS (semi), averaged": {"division": "cps", "matching.average": 3},
    "CPS (semi), averaged, with names": {"division": "cps", "matching.average": 3, "features": "names"},
    "SBP (sup)": {"division": "sbp"},
    "SBP (semi)": {"division": "sbp"},
    "SBP (semi), averaged": {"division": "sbp", "matching.average": 3},
    "I-SBP": {"division": "isbp"},
    "I-SBP, averaged": {"division": "isbp", "matching.average": 3},
    "DivEA": {"division": "joint", "matching.average": 3},
    "DivEA, with names": {"division": "joint", "matching.average": 3, "features": "names"},
    "DivEA (paper)": {"division": "divea"},
    "DivEA (paper), with names": {"division": "divea", "features": "names"},
    "DivEA (paper), locality only": {"division": "divea", "division.nearest": 0},
    "DivEA (paper), random groups": {"division": "random"},
}

COMMON: dict[str, Any] = {
    "iterations": 5,
    "features": "none",
    "matching": {"method": "sinkhorn", "threshold": 0.5, "average": 1},
    "confidence.held_back": 0.0,
    # A target further down adds less than .01 to the reciprocal rank.
    "output": {"top": 100, "one_to_one": False},
}

SHARES = {"cps": {"delta1": 0.5, "delta2": 0.0}, "sbp": {"delta1": 0.4, "delta2": 0.0}}
"""Shares of the subtask size in the paper's code, for each size. `DivEA` chooses its own."""

MODELS: dict[str, dict[str, Any]] = {
    "rrea": {"model.rrea": {"loss": "hard", "steps": 60}},
    "gcn-align": {"model.gcn-align": {"steps": 400}, "matching.threshold": 0.2},
}
"""Settings of a model in an iteration; other models run with their defaults. GCN-Align's matching weights
are lower, and so is its threshold for pseudo-seeds (docs/notes/results.md)."""

_FIXED = ("subtasks", "size", "random_seed", "model.name", "division.name")


def settings_for(method: str, model: str, scale: str, changes: dict[str, Any]) -> dict[str, Any]:
    """The settings of a method as nested values, with changes by path applied where they have an effect."""
    sources: list[dict[str, Any]] = [COMMON, {"model": model}, MODELS.get(model, {}), METHODS[method]]
    if METHODS[method]["division"] in ("divea", "random"):
        sources.append({"division": SHARES[scale]})
    sources += [{path: value} for path, value in changes.items()]
    if method.endswith("(sup)"):
        sources.append({"iterations": 1})
    settings = combine_settings(*sources)
    # Most cells have several subtasks; the settings of those with one lose their division later.
    checked: Settings = Settings.checked({**settings, "subtasks": 2}, allow_unused=True)
    return with_effect(checked, settings)


def read_changes(texts: Sequence[str], models: Sequence[str]) -> dict[str, Any]:
    """Settings to change for all methods alike, as `model.rrea.steps=100`; checked against every model."""
    changes = dict(parse_assignment(text) for text in texts)
    for path in leaf_paths(combine_settings(changes)):
        if path in _FIXED:
            raise InputError(f"{path} is part of the experiment and cannot be set")
        group, _, rest = path.partition(".")
        if group == "model" and not any(_is_option_of(rest, model) for model in models):
            raise InputError(f"{path} has no effect: the models are {', '.join(models)}")
    for model in models:
        own = {
            path: value
            for path, value in changes.items()
            if not path.startswith("model.") or _is_option_of(path.removeprefix("model."), model)
        }
        Settings.checked(combine_settings(COMMON, {"model": model}, own), allow_unused=True)
    return changes


def _is_option_of(option: str, model: str) -> bool:
    return option.partition(".")[0] in model.split("+")
