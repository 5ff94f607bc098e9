"""`divea evaluate`: how good an alignment is, on links that it never saw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from divea.cli.task_input import working


def evaluate(
    run: Annotated[Path, typer.Argument(help="Run directory of `divea align`.")],
    gold: Annotated[Path, typer.Option(help="Links to evaluate on; those that are seeds are left out.")],
    protocol: Annotated[
        str, typer.Option(help="open: rank all targets without a seed; closed: those of the gold links only.")
    ] = "open",
    min_confidence: Annotated[
        float | None, typer.Option(help="Judge all pairs at least so sure, not those of the table.")
    ] = None,
    task: Annotated[Path | None, typer.Option(help="Task folder whose own ids the gold file uses.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print coverage, hits@1, hits@5, hits@10 and mrr as JSON.")
    ] = False,
) -> None:
    """Compare an alignment with known links.

    Coverage: the share of links whose target was a candidate in its source's subtask. Hits@k and MRR:
    where the true target stands in the ranked list of its source; a link that is not in the list counts 0.
    Precision and recall are of the pairs in the one-to-one table.

    Examples:

        divea evaluate run --gold pair/gold.tsv

        divea evaluate run --gold ref_ent_ids --protocol closed --json
    """
    from divea.api import Alignment

    with working("evaluating"):
        found = Alignment(run).evaluate(gold, protocol, min_confidence=min_confidence, folder=task)  # type: ignore[arg-type]
    if as_json:
        typer.echo(json.dumps(found.as_dict()))
        return
    note = "" if protocol == "open" else " (closed protocol: only targets of the links are ranked)"
    typer.echo(f"{found.links} gold links{note}")
    for name, value in found.as_dict().items():
        typer.echo(f"{name:10}{value:.4f}")
    pairs = found.pairs
    typer.echo(f"{pairs.given} pairs in the one-to-one table, {pairs.judged} with an end in a gold link:")
    typer.echo(f"precision {pairs.judged_precision:.4f} of those, recall {pairs.recall:.4f}")
    typer.echo(
        f"precision {pairs.end_precision:.4f} by ends, which is what a confidence promises: "
        "of the entities of gold links that got a match, the share that got the right one"
    )
    typer.echo(
        f"strict precision {pairs.strict_precision:.4f}: pairs that gold knows nothing of count as wrong"
    )
