"""`divea explain`: why two entities were matched, or were not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from divea.cli.terminal import print_json, print_line, working


def explain(
    run: Annotated[Path, typer.Argument(help="Run directory of `divea align`.")],
    source: Annotated[str, typer.Argument(help="Label (IRI) of an entity of the source graph.")],
    target: Annotated[
        str | None,
        typer.Argument(help="Label of a target entity; default: the match, or else the best candidate."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(help="Draw both neighbourhoods side by side into this .svg file."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the explanation as JSON.")] = False,
) -> None:
    """Explain why two entities were matched, or were not.

    The confidence of a pair is a sum of contributions in log odds, and the explanation shows each of them.
    Then follow the neighbours that match each other, with their part of the structural evidence; literals
    that agree or differ; and the other candidates. Everything comes from what the run kept.

    Examples:

        divea explain run http://source.example/resource/E102

        divea explain run http://source.example/resource/E102 --json

        divea explain run http://source.example/resource/E102 --picture why.svg
    """
    from divea import explanations
    from divea.explanations.picture import require_svg
    from divea.io import usable_path
    from divea.runs.finished import open_finished

    if picture is not None:
        require_svg(picture)
    with working("explaining"):
        found = explanations.explain(open_finished(usable_path(run)), source, target)
    if picture is not None:
        found.save(picture)
    if as_json:
        print_json(found.as_dict())
        return
    for line in str(found).split("\n"):
        print_line(line)
