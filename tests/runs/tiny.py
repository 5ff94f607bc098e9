"""A task so small that aligning it takes a fraction of a second, and what a run of it leaves behind."""

from __future__ import annotations

import json
from pathlib import Path

from divea.graphs import save_task
from divea.graphs.synth import SynthConfig, synthesise
from divea.run.directory import MAPPINGS, MAPPINGS_TSV, RANKED

SETTINGS = {
    "subtasks": 2,
    "division": "divea",
    "top": 10,
    "iterations": 2,
    "model_options": {"labels": 32, "heads": 16, "draft_heads": 16, "rounds": 2},
    "division_options": {"delta1": 0.5, "delta2": 0.0},
}
PAIR = synthesise(SynthConfig(entities=150, seed=1))


def write_inputs(folder: Path) -> list[object]:
    """Writes task and settings; the command that aligns them, less --out."""
    save_task(PAIR.task, folder / "task")
    (folder / "settings.json").write_text(json.dumps(SETTINGS))
    return ["align", folder / "task", "--config", folder / "settings.json", "--device", "cpu"]


def tables(run: Path) -> dict[str, bytes]:
    """What must be the same, byte for byte, however a run came about."""
    files = [run / MAPPINGS, run / MAPPINGS_TSV, run / RANKED, *sorted((run / "division").rglob("*"))]
    return {path.relative_to(run).as_posix(): path.read_bytes() for path in files if path.is_file()}


def events(run: Path) -> list[dict[str, object]]:
    """The log since the last start."""
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    last = max(at for at, line in enumerate(lines) if line["event"] == "started")
    return lines[last:]


def solved_now(run: Path) -> int:
    """How many subtasks the last start had to solve."""
    return sum(line["event"] == "solved" for line in events(run))
