"""`divea evaluate`: how good an alignment is, judged by links that it never saw."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from divea.cli.terminal import print_json, print_line, working


def evaluate(
    run: Annotated[Path, typer.Argument(help="Run directory of `divea align`.")],
    gold: Annotated[Path, typer.Option(help="Links to evaluate on; those that are seeds are left out.")],
    protocol: Annotated[
        str, typer.Option(help="open: rank all targets without a seed; closed: those of the gold links only.")
    ] = "open",
    min_confidence: Annotated[
        float | None,
        typer.Option(help="Evaluate all assigned pairs above this confidence, not those in the mappings."),
    ] = None,
    task: Annotated[Path | None, typer.Option(help="Task folder whose own ids the gold file uses.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all figures as JSON: coverage, hits@1, recall, precision.")
    ] = False,
) -> None:
    """Compare an alignment with known links.

    Coverage is the share of links whose target was a candidate in its source's subtask. Hits@k and MRR say
    where the true target is in the ranked list of its source; a link whose target is not in the list
    counts 0. Precision and recall are those of the mappings. docs/glossary.md defines each figure.

    Examples:

        divea evaluate run --gold pair/gold.tsv

        divea evaluate run --gold pair/gold.tsv --protocol closed --json
    """
    from divea.api import Alignment

    with working("evaluating"):
        found = Alignment(run).evaluate(gold, protocol, min_confidence=min_confidence, folder=task)  # type: ignore[arg-type]
    if as_json:
        print_json(found.as_dict())
        return
    note = "" if protocol == "open" else " (closed protocol: only targets of the links are ranked)"
    print_line(f"{found.links} gold links{note}")
    for name, value in found.ranking().items():
        print_line(f"{name:10}{value:.4f}")
    pairs = found.pairs
    which = "in the mappings" if min_confidence is None else f"with a confidence of {min_confidence} or more"
    print_line(f"{pairs.given} pairs {which}, {pairs.judged} of them with an end in a gold link")
    for name, value, meaning in (
        ("recall", pairs.recall, "of the gold links"),
        ("precision", pairs.judged_precision, "of the pairs with an end in a gold link"),
        ("by ends", pairs.end_precision, "precision by ends: the figure that confidence predicts"),
        ("strict", pairs.strict_precision, "precision if pairs unknown to gold count as wrong"),
    ):
        print_line(f"{name:10}{value:.4f}  {meaning}")
