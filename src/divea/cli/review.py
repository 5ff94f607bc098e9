"""`divea review`: a sheet of the pairs that are worth a person's time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from divea.cli.options import ForSpreadsheet
from divea.cli.terminal import print_line, working


def review(
    run: Annotated[Path, typer.Argument(help="Run directory of `divea align`.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Sheet: a .tsv, .csv or .sssom.tsv file.")],
    pairs: Annotated[int, typer.Option(help="Write this many pairs at most.")] = 200,
    for_spreadsheet: ForSpreadsheet = False,
) -> None:
    """Write the pairs of a run that are worth a person's time, the most valuable first.

    These are the pairs that are most likely wrong, where a verdict also helps with the pairs around them:
    those with several neighbours and few seeds nearby. Each row has names, neighbours of both ends and other
    candidates.

    Fill in the column `verdict`: accept, reject, or the right target as the column target would write it, for
    example its IRI (one of other_1, other_2, ... or any other entity of the target graph). Leave it empty if
    you do not know. Then refine the run with `divea align --from RUN --reviewed SHEET --out NEW`: accepted
    pairs become seeds, and rejected ones never match again.

    In a .sssom.tsv file, write Not into predicate_modifier to reject a row, and your name into
    reviewer_label to accept it.

    Examples:

        divea review run -o sheet.tsv --pairs 50

        divea review run -o sheet.csv --for-spreadsheet

        divea review run -o sheet.sssom.tsv
    """
    from divea.curation import review as write_review
    from divea.io import usable_path
    from divea.runs.finished import open_finished, read_ranked_lists

    with working(f"choosing pairs of {run}"):
        finished = open_finished(usable_path(run))
        lists = read_ranked_lists(finished)
        table = write_review(finished, lists, out, pairs, for_spreadsheet=for_spreadsheet)
    print_line(
        f"{out}: {len(table)} of {len(lists.assigned)} pairs; judge them, then: "
        f"divea align --from {run} --reviewed {out} --out NEW"
    )
