"""A task that is aligned in a fraction of a second, and what a run of it leaves behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from divea.graphs import save_task
from divea.graphs.synth import SynthConfig, SynthPair, synthesise
from divea.runs.layout import DIVISION, LOG, TABLES

SETTINGS: dict[str, Any] = {
    "subtasks": 2,
    "iterations": 2,
    "division": {"name": "divea", "delta1": 0.5, "delta2": 0.0},
    "model": {"label-propagation": {"labels": 32, "heads": 16, "draft_heads": 16, "rounds": 2}},
    "output": {"top": 10},
}
PAIR = synthesise(SynthConfig(entities=150, random_seed=1))
NAMED_PAIR = synthesise(SynthConfig(entities=150, random_seed=1, names=True, seed_share=0))
"""The same graphs with names and attributes and without seeds."""


def write_inputs(folder: Path, pair: SynthPair = PAIR) -> list[object]:
    """Write the task and the settings, and return the command that aligns them, without --out."""
    save_task(pair.task, folder / "task")
    (folder / "settings.json").write_text(json.dumps(SETTINGS))
    return ["align", folder / "task", "--config", folder / "settings.json", "--device", "cpu"]


def tables(run: Path) -> dict[str, bytes]:
    """The files that must have the same bytes in every run with these settings, by name."""
    files = [*(run / name for name in TABLES), *sorted((run / DIVISION).rglob("*"))]
    return {path.relative_to(run).as_posix(): path.read_bytes() for path in files if path.is_file()}


def events(run: Path) -> list[dict[str, Any]]:
    """The log since the last start."""
    lines = [json.loads(line) for line in (run / LOG).read_text().splitlines()]
    last = max(position for position, line in enumerate(lines) if line["event"] == "started")
    return lines[last:]


def solved_now(run: Path) -> int:
    """The number of subtasks that were solved since the last start."""
    return sum(line["event"] == "solved" for line in events(run))
