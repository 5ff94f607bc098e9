"""`divea convert`: converts graphs, mappings and task folders between formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from divea.cli.options import Seeds, SkipUnknownSeeds, Source, Target, open_task, working
from divea.errors import InputError


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
) -> None:
    """Convert a graph, a file of mappings, or a whole task.

    The suffix of the output selects the format. Graphs: .nt, .ttl, .tsv, .csv or .parquet. Mappings:
    .sssom.tsv, .tsv, .csv, .parquet, .nt (owl:sameAs) or .rdf (OAEI). All but Parquet are compressed if
    .gz, .bz2, .xz or .zst follows. A task folder, or two graphs with seeds, become a task folder in the
    layout of --to. Test links are not copied.

    Examples:

        divea convert graph.ttl.gz graph.parquet

        divea convert mappings.tsv mappings.sssom.tsv

        divea convert pair/task pair-openea --to openea

        divea convert --source a.nt --target b.nt --seeds known.tsv task
    """
    if len(paths) > 2:
        raise InputError("expected one input and one output")
    given, output = (paths[0] if len(paths) == 2 else None), paths[-1]
    if given is None and source is None and target is None:
        raise InputError("name an input and an output")
    if given is not None and not given.is_dir():
        if source is not None or target is not None or seeds is not None:
            raise InputError(
                "--source, --target and --seeds make a task; they cannot be used with a single file"
            )
        _convert_file(given, output)
    else:
        _convert_task(given, output, to, source, target, seeds, skip_unknown_seeds)


def _convert_file(given: Path, output: Path) -> None:
    from divea.formats import read_graph, read_mappings, write_graph, write_mappings
    from divea.formats.mapping_files import holds_mappings

    with working(f"converting {given}"):
        if holds_mappings(given):
            mappings = read_mappings(given)
            write_mappings(mappings, output)
            typer.echo(f"{output}: {len(mappings)} mappings")
        else:
            graph = read_graph(given)
            write_graph(graph, output)
            typer.echo(f"{output}: {graph}")


def _convert_task(
    given: Path | None,
    output: Path,
    to: str,
    source: Path | None,
    target: Path | None,
    seeds: Path | None,
    skip_unknown: bool,
) -> None:
    from divea.formats import write_task

    task = open_task(given, source, target, seeds, skip_unknown)
    with working(f"writing {output}"):
        left_out = write_task(task, output, to)
    typer.echo(f"{output}: {task.source} and {task.target}, {len(task.seeds)} seeds")
    for sentence in left_out:
        typer.echo(f"note: {sentence} (the layout {to} cannot hold them)", err=True)
