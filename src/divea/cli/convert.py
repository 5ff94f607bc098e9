"""`divea convert`: converts graphs, mappings and task folders between formats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from divea.cli.options import (
    KeepSchema,
    Seeds,
    SkipUnknownNames,
    SkipUnknownSeeds,
    Source,
    SourceNames,
    Target,
    TargetNames,
    open_task,
)
from divea.cli.terminal import print_line, print_note, working
from divea.errors import InputError

if TYPE_CHECKING:
    from divea.graphs import AlignmentTask


def convert(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="[INPUT] OUTPUT", help="The file or folder to read, and the one to write."),
    ],
    to: Annotated[
        str, typer.Option(help="Layout of a task folder to write: divea, jape, openea or parquet.")
    ] = "divea",
    source: Source = None,
    target: Target = None,
    seeds: Seeds = None,
    skip_unknown_seeds: SkipUnknownSeeds = False,
    source_names: SourceNames = None,
    target_names: TargetNames = None,
    skip_unknown_names: SkipUnknownNames = False,
    keep_schema: KeepSchema = False,
    for_spreadsheet: Annotated[
        bool,
        typer.Option(
            "--for-spreadsheet",
            help="Write a .tsv or .csv file for people: an apostrophe before labels that look like formulas.",
        ),
    ] = False,
) -> None:
    """Convert a graph, a file of mappings, or a whole task.

    The suffix of the output selects the format. Graphs: .nt, .ttl, .tsv, .csv or .parquet. Mappings:
    .sssom.tsv, .tsv, .csv, .parquet, .nt (owl:sameAs) or .rdf (OAEI). All but Parquet are compressed if
    .gz, .bz2, .xz or .zst follows. The tables of a run are mappings. A task folder, or two graphs with seeds,
    become a task folder in the layout of --to. Test links are not copied. Names from files become literals of
    the task.

    Examples:

        divea convert graph.ttl.gz graph.parquet

        divea convert run/mappings.tsv mappings.sssom.tsv

        divea convert pair/task pair-openea --to openea

        divea convert --source a.nt --target b.nt --seeds known.tsv task

        divea convert pair/task named --source-names names.tsv
    """
    if len(paths) > 2:
        raise InputError("expected one input and one output")
    from divea.config.given_names import GivenNames

    names = GivenNames.of(source_names, target_names)
    if names.settings:
        raise InputError("a property that names entities is for `divea align`; names to convert are a file")
    given, output = (paths[0] if len(paths) == 2 else None), paths[-1]
    if given is None and source is None and target is None:
        raise InputError("name an input and an output")
    if given is not None and not _is_folder(given):
        if any(option is not None for option in (source, target, seeds, source_names, target_names)):
            raise InputError(
                "--source, --target and --seeds make a task, as names do; none of them is for a single file"
            )
        _convert_file(given, output, for_spreadsheet)
    else:
        if for_spreadsheet:
            raise InputError("--for-spreadsheet writes a single file, not a task")
        task = open_task(
            given, source, target, seeds, skip_unknown_seeds, keep_schema, names.tables, skip_unknown_names
        )
        _write_task(task, output, to)


def _is_folder(path: Path) -> bool:
    from divea.formats.stream import reading

    with reading(path):
        return path.is_dir()


def _convert_file(given: Path, output: Path, for_spreadsheet: bool) -> None:
    from divea.formats import read_graph, read_mappings, write_graph, write_mappings
    from divea.formats.mapping_files import holds_mappings, unread_columns
    from divea.formats.sniff import suffix_of

    notes = []
    with working(f"converting {given}"):
        if holds_mappings(given):
            lost = unread_columns(given)
            if "given" in lost and suffix_of(output) == ".nt":
                raise InputError(
                    "ranked lists cannot be written as owl:sameAs; convert the mappings", path=given
                )
            mappings = read_mappings(given)
            if lost:
                notes.append(f"columns that are not part of a mapping are left out: {', '.join(lost)}")
            notes += write_mappings(mappings, output, for_spreadsheet=for_spreadsheet)
            result = f"{len(mappings)} mappings"
        else:
            graph = read_graph(given)
            write_graph(graph, output, for_spreadsheet=for_spreadsheet)
            result = str(graph)
    if for_spreadsheet:
        notes.append("this file is for people: read back, labels after an apostrophe would be others")
    print_line(f"{output}: {result}")
    for note in notes:
        print_note(f"note: {note}")


def _write_task(task: AlignmentTask, output: Path, to: str) -> None:
    from divea.formats import write_task

    with working(f"writing {output}"):
        left_out = write_task(task, output, to)
    print_line(f"{output}: {task.source} and {task.target}, {len(task.seeds)} seeds")
    for sentence in left_out:
        print_note(f"note: {sentence} (the layout {to} cannot hold them)")
