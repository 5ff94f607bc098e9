"""`divea suggest`: a sheet of the entities that a person should label next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from divea.cli.options import (
    ForSpreadsheet,
    KeepSchema,
    RandomSeed,
    Seeds,
    SkipUnknownSeeds,
    Source,
    Target,
    open_task,
)
from divea.cli.terminal import print_line, working
from divea.errors import InputError


def suggest(
    out: Annotated[Path, typer.Option("--out", "-o", help="Sheet: a .tsv, .csv or .sssom.tsv file.")],
    task: Annotated[
        Path | None,
        typer.Argument(metavar="[TASK|RUN]", help="Task folder, or run directory of `divea align`."),
    ] = None,
    entities: Annotated[int, typer.Option("--entities", "-k", help="Write this many entities at most.")] = 50,
    source: Source = None,
    target: Target = None,
    seeds: Seeds = None,
    skip_unknown_seeds: SkipUnknownSeeds = False,
    keep_schema: KeepSchema = False,
    random_seed: RandomSeed = None,
    asked: Annotated[
        list[Path] | None,
        typer.Option(metavar="SHEET", help="Earlier sheet, whose entities are left out. Repeatable."),
    ] = None,
    for_spreadsheet: ForSpreadsheet = False,
) -> None:
    """Write the source entities whose counterparts are worth most to know, the best first.

    With two graphs and nothing else, this is the first command: it chooses entities with many neighbours,
    spread over all parts of the graph. With a run, it prefers entities that the run is in doubt about, and
    the sheet has the run's candidates.

    Fill in the column `verdict` with the counterpart as the target graph writes it, for example its IRI; if
    the sheet has candidates, accept takes the one in the column `target`. Leave it empty if you do not know
    or if there is none. Then align with `divea align ... --reviewed SHEET`.

    Examples:

        divea suggest pair/task -k 50 -o labels.tsv

        divea suggest run -k 50 -o labels.tsv

        divea suggest run -k 50 -o more.tsv --asked sheet.tsv

        divea suggest --source a.nt.gz --target b.ttl -k 20 -o labels.csv --for-spreadsheet
    """
    from divea.curation.suggest import suggest_for_run, suggest_for_task
    from divea.io import usable_path
    from divea.runs.finished import open_finished, read_ranked_lists
    from divea.runs.layout import is_run

    out = usable_path(out)
    if task is not None and is_run(usable_path(task)):
        if (
            (source, target, seeds, random_seed) != (None, None, None, None)
            or skip_unknown_seeds
            or keep_schema
        ):
            raise InputError("a run has its graphs, seeds and random seed: give no others", path=task)
        with working(f"choosing entities of {task}"):
            run = open_finished(usable_path(task))
            table = suggest_for_run(
                run, read_ranked_lists(run), out, entities, asked=asked or (), for_spreadsheet=for_spreadsheet
            )
    else:
        found = open_task(task, source, target, seeds, skip_unknown_seeds, keep_schema)
        with working("choosing entities"):
            table = suggest_for_task(
                found,
                out,
                entities,
                asked=asked or (),
                for_spreadsheet=for_spreadsheet,
                random_seed=random_seed or 0,
            )
    print_line(f"{out}: {len(table)} entities; name their counterparts, then align with --reviewed {out}")
