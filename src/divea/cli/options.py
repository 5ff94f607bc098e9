"""Options that several commands share: the ways to name a task, and the ways to give settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from divea.cli.terminal import print_note, working
from divea.errors import InputError

if TYPE_CHECKING:
    from divea.config import Settings
    from divea.graphs import AlignmentTask


TaskFolder = Annotated[
    Path | None,
    typer.Argument(metavar="[TASK]", help="Task folder: divea's own, JAPE/DBP15K, OpenEA or Parquet."),
]
Source = Annotated[
    Path | None,
    typer.Option(help="Source graph (N-Triples, Turtle, TSV, CSV, Parquet; may be compressed)."),
]
Target = Annotated[Path | None, typer.Option(help="Target graph.")]
Seeds = Annotated[
    Path | None,
    typer.Option(help="Known matches (TSV, CSV, Parquet, SSSOM, owl:sameAs, OAEI RDF/XML)."),
]
Reviewed = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="SHEET",
        help="Review sheet with verdicts: accepted pairs are seeds, rejected ones never match. Repeatable.",
    ),
]
SkipUnknownSeeds = Annotated[
    bool, typer.Option("--skip-unknown-seeds", help="Leave out seeds that name unknown entities.")
]

KeepSchema = Annotated[
    bool, typer.Option("--keep-schema", help="Align the classes and properties of RDF graphs too.")
]

SourceNames = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|IRI",
        help="Names of source entities: a TSV, CSV or Parquet file with the columns entity and name, or a "
        "property of the graph.",
    ),
]
TargetNames = Annotated[
    str | None, typer.Option(metavar="FILE|IRI", help="Names of target entities, likewise.")
]
SkipUnknownNames = Annotated[
    bool, typer.Option("--skip-unknown-names", help="Leave out names of unknown entities.")
]

ForSpreadsheet = Annotated[
    bool,
    typer.Option(
        "--for-spreadsheet",
        help="Write a .tsv or .csv file for people: an apostrophe before texts that look like formulas.",
    ),
]


def open_task(
    folder: Path | None,
    source: Path | None,
    target: Path | None,
    seeds: Path | None,
    skip_unknown: bool,
    keep_schema: bool = False,
    names: tuple[Path | None, Path | None] = (None, None),
    skip_unknown_names: bool = False,
    reviewed: Sequence[Path] = (),
) -> AlignmentTask:
    """Read the task that the options name: a folder, or two graph files, and sheets with verdicts.

    Parameters
    ----------
    skip_unknown, skip_unknown_names
        Leave out seeds, or names, of unknown entities.
    names
        The files of source and target names.
    """
    from divea.formats.sheets import with_verdicts

    task = _read_task(folder, source, target, seeds, skip_unknown, keep_schema, names, skip_unknown_names)
    return with_verdicts(task, reviewed) if reviewed else task


def refined_task(
    run: Path, seeds: Path | None, reviewed: Sequence[Path], skip_unknown: bool
) -> AlignmentTask:
    """The task of a run, with more seeds and with verdicts."""
    from divea.runs.refine import with_more

    with working(f"reading {run}"):
        return with_more(run, seeds, reviewed, skip_unknown_seeds=skip_unknown)


def _read_task(
    folder: Path | None,
    source: Path | None,
    target: Path | None,
    seeds: Path | None,
    skip_unknown: bool,
    keep_schema: bool,
    names: tuple[Path | None, Path | None],
    skip_unknown_names: bool,
) -> AlignmentTask:
    from divea.formats import read_task, read_task_files

    if skip_unknown_names and names == (None, None):
        raise InputError("--skip-unknown-names has no effect without a file of names")

    if (folder is None) == (source is None and target is None):
        raise InputError("name either a task folder, or two graphs with --source and --target")
    if folder is not None:
        with working(f"reading {folder}"):
            return read_task(
                folder,
                seeds,
                skip_unknown_seeds=skip_unknown,
                source_names=names[0],
                target_names=names[1],
                skip_unknown_names=skip_unknown_names,
            )
    if source is None or target is None:
        raise InputError("give both --source and --target")
    with working(f"reading {source} and {target}"):
        return read_task_files(
            source,
            target,
            seeds,
            skip_unknown_seeds=skip_unknown,
            keep_schema=keep_schema,
            source_names=names[0],
            target_names=names[1],
            skip_unknown_names=skip_unknown_names,
            add_note=lambda note: print_note(f"note: {note}"),
        )


Preset = Annotated[
    str | None, typer.Option(help="fast, or best: more accurate, and far slower without a GPU.")
]
Config = Annotated[
    Path | None, typer.Option(help="File of settings (.json, .yaml, .toml); it overrides the preset.")
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Any setting, for example iterations=5; `divea settings --all` lists them. Repeatable.",
    ),
]
Subtasks = Annotated[
    int | None,
    typer.Option("--subtasks", "-n", help="N, the number of subtasks; by default as few as fit the memory."),
]
Size = Annotated[
    int | None,
    typer.Option("--size", "-s", help="S: a subtask holds at most this many entities of both graphs."),
]
RandomSeed = Annotated[
    int | None, typer.Option(help="Decides every random draw: the same gives the same bytes.")
]


def given_settings(
    preset: str | None, config: Path | None, assignments: list[str] | None, options: dict[str, Any]
) -> dict[str, Any] | None:
    """The settings that were given; None if there were none.

    Options override --set, which overrides the file, which overrides the preset.
    """
    from divea.config import PRESETS, Settings, combine_settings, parse_assignment

    sources: list[dict[str, Any]] = []
    if preset is not None:
        if preset not in PRESETS:
            raise InputError(f"unknown preset {preset!r}; choose from {', '.join(PRESETS)}")
        sources.append(PRESETS[preset])
    if config is not None:
        sources.append(Settings.read_file(config))
    if assignments:
        sources.append(dict(parse_assignment(text) for text in assignments))
    sources.append({path: value for path, value in options.items() if value is not None})
    return combine_settings(*sources) if preset is not None or any(sources) else None


def checked_settings(given: dict[str, Any] | None) -> Settings:
    """The settings, validated."""
    from divea.config import Settings

    return Settings.of(None, given or {})
