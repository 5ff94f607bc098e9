"""`divea export`: writes pairs of a finished run, with another threshold or with more about each pair."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from divea.cli.options import ForSpreadsheet
from divea.cli.terminal import print_line, print_note, working

if TYPE_CHECKING:
    from divea.runs.export import Exported


def export(
    run: Annotated[Path, typer.Argument(help="Run directory of `divea align`.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write; its suffix selects the format.")],
    precision: Annotated[
        float | None, typer.Option(help="Write the most pairs of which this share should be correct.")
    ] = None,
    min_confidence: Annotated[
        float | None, typer.Option(help="Write the pairs with at least this probability of being correct.")
    ] = None,
    names: Annotated[
        bool, typer.Option("--names", help="Add readable names: source_label and target_label.")
    ] = False,
    seeds: Annotated[
        bool, typer.Option("--seeds", help="Add the seeds, with confidence 1 and the origin seed.")
    ] = False,
    context: Annotated[
        int | None, typer.Option(help="Add up to this many neighbours of both ends, as `relation: name`.")
    ] = None,
    for_spreadsheet: ForSpreadsheet = False,
) -> None:
    """Write the pairs of a finished run to a file, without aligning again.

    Without --precision and --min-confidence, these are the pairs of the run's mappings. With one of them,
    the pairs are chosen again among all that were assigned, so there can be more than in the mappings as
    well as fewer. The end of `divea align` says how many pairs to expect at a precision of 90, 95 and 99 %.

    The suffix selects the format: .sssom.tsv, .tsv, .csv, .parquet, .nt (owl:sameAs) or .rdf (OAEI). All
    but Parquet are compressed if .gz, .bz2, .xz or .zst follows. Names and context are for people who read
    the pairs; .nt and .rdf have no place for them.

    Examples:

        divea export run -o pairs.sssom.tsv

        divea export run -o sure.nt.gz --min-confidence 0.9

        divea export run -o review.csv --min-confidence 0.2 --names --context 3

        divea export run -o all.tsv --seeds --names
    """
    from divea.io import usable_path
    from divea.runs.export import ExportOptions, export_pairs
    from divea.runs.finished import open_finished, read_ranked_lists

    options = ExportOptions(precision, min_confidence, names, seeds, context, for_spreadsheet)
    options.check()
    with working(f"exporting {run}"):
        finished = open_finished(usable_path(run))
        exported = export_pairs(finished, read_ranked_lists(finished), out, options)
    print_line(f"{out}: {_summary(exported, seeds)}")
    for note in exported.notes:
        print_note(f"note: {note}")


def _summary(exported: Exported, with_seeds: bool) -> str:
    from divea.runs.expectation import percent

    found = len(exported.table) - exported.seeds
    text = f"{found} pairs" + (f" and {exported.seeds} seeds" if with_seeds else "")
    figures = exported.figures
    if figures is None or figures["expected_precision"] is None:
        return text
    return (
        f"{text}; expected precision {percent(figures['expected_precision'])}, "
        f"expected recall {percent(figures['expected_recall'])} (the share of the findable matches)"
    )
