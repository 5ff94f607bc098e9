"""The methods that the paper compares, as settings of the one loop.

All are run alike: matched by Sinkhorn, mutual best pairs of a weight above .5 (.2 with GCN-Align) as
pseudo-seeds, no seeds held back, every source's own ranked list. What departs from the paper is that a model
starts anew in each iteration, where the paper's goes on training, and RREA's loss, which needs fewer steps; a
supervised run is one iteration, because five times as many steps were worse on held-out seeds
(docs/reproduce.md).

`DivEA` is our division: joint, with scores averaged over iterations. `DivEA (paper)` is the paper's.
Averaging helps any division, so the rivals are also run with it ("averaged").
"""

from __future__ import annotations

from typing import Any

from divea.division.resolver import SIZED
from divea.errors import InputError

METHODS: dict[str, dict[str, Any]] = {
    "CPS (sup)": {"division": "cps"},
    "CPS (semi)": {"division": "cps"},
    "CPS (semi), averaged": {"division": "cps", "average": 3},
    "SBP (sup)": {"division": "sbp"},
    "SBP (semi)": {"division": "sbp"},
    "SBP (semi), averaged": {"division": "sbp", "average": 3},
    "I-SBP": {"division": "isbp"},
    "I-SBP, averaged": {"division": "isbp", "average": 3},
    "DivEA": {"division": "joint", "average": 3},
    "DivEA (paper)": {"division": "divea"},
    "DivEA (paper), locality only": {"division": "divea", "nearest": 0},
    "DivEA (paper), random groups": {"division": "random"},
}

COMMON: dict[str, Any] = {
    "iterations": 5,
    "matching": "sinkhorn",
    "threshold": 0.5,
    "average": 1,
    "held_back": 0.0,
    "one_to_one": False,
    # A target further down adds less than .01 to the reciprocal rank.
    "top": 100,
}

SHARES = {"cps": {"delta1": 0.5, "delta2": 0.0}, "sbp": {"delta1": 0.4, "delta2": 0.0}}
"""Of the subtask size, as in the paper's code, for each size. `DivEA` chooses its own."""

MODELS: dict[str, dict[str, Any]] = {
    "rrea": {"loss": "hard", "steps": 60},
    "gcn-align": {"steps": 400},
}
"""Options for an iteration. Other models run with their defaults."""

THRESHOLDS = {"gcn-align": 0.2}
"""Weights above which pairs become pseudo-seeds, for models whose weights are lower (docs/results.md)."""


def settings_for(method: str, model: str, scale: str, changes: dict[str, Any]) -> dict[str, Any]:
    """The settings of a method; `changes` are by name, `matching` or `rrea.steps`."""
    settings = {**COMMON, **METHODS[method], "model_options": dict(MODELS.get(model, {}))}
    settings["threshold"] = THRESHOLDS.get(model, COMMON["threshold"])
    if settings["division"] in ("divea", "random"):
        settings["division_options"] = dict(SHARES[scale])
    for name, value in changes.items():
        part, _, option = name.partition(".")
        if not option:
            settings[part] = value
        elif part == model:
            settings["model_options"][option] = value
        elif part == "division_options" and settings["division"] in SIZED:
            settings.setdefault(part, {})[option] = value
    if method.endswith("(sup)"):
        settings["iterations"] = 1
    return settings


def read_changes(texts: list[str], models: list[str]) -> dict[str, Any]:
    """`rrea.steps=100` and the like, as a dictionary; values are read as JSON where they are JSON."""
    import json
    from dataclasses import fields

    from divea.alignment.settings import Settings

    own = {"model", "subtasks", "size", "seed", "division", "model_options", "division_options"}
    plain = {field.name for field in fields(Settings)} - own
    changes: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        part, _, option = name.partition(".")
        if not equals or (part not in [*models, "division_options"] if option else part not in plain):
            raise InputError(
                f"{text!r} is no setting: give NAME=VALUE with one of {', '.join(sorted(plain))}, or an "
                f"option of a model as {models[0]}.steps=100, or of the division as division_options.beta=2"
            )
        try:
            changes[name] = json.loads(value)
        except ValueError:
            changes[name] = value
    return changes
