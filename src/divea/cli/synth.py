"""`divea synth`: a pair of graphs to try things on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from divea.cli.task_input import working


def synth(
    out: Annotated[Path, typer.Argument(help="New folder for the pair.")],
    entities: Annotated[int, typer.Option(help="Entities of each graph.")] = 15_000,
    triples_per_entity: Annotated[float, typer.Option(help="Triples for each entity.")] = 4.0,
    matched: Annotated[float, typer.Option(help="Share of entities that have a counterpart.")] = 0.77,
    common: Annotated[float, typer.Option(help="Share of triples that both graphs hold.")] = 0.55,
    seeds: Annotated[float, typer.Option(help="Share of the links given as seeds.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers: same seed, same bytes.")] = 0,
) -> None:
    """Generate two knowledge graphs with known matches that behave like real ones.

    Writes OUT/task, a task folder for every other command, and OUT/gold.tsv, the links that
    are not seeds, for evaluation. Two million entities take minutes and stay within 8 GiB.

    Example:

        divea synth demo --entities 15000 && divea info demo/task
    """
    from divea.atomic import new_folder
    from divea.formats import mapping_table, write_mappings, write_task
    from divea.graphs.synth import SynthConfig, synthesise

    config = SynthConfig(entities, triples_per_entity, matched, common, seeds, seed)
    with new_folder(out) as aside:
        with working(f"generating two graphs of {entities} entities"):
            pair = synthesise(config)
        with working(f"writing {out}"):
            write_task(pair.task, aside / "task")
            gold = pair.gold.labels(pair.task.source, pair.task.target)
            write_mappings(mapping_table(*gold).select(["source", "target"]), aside / "gold.tsv")
    typer.echo(f"{out / 'task'}: {pair.task.source} and {pair.task.target}, {len(pair.task.seeds)} seeds")
    typer.echo(f"{out / 'gold.tsv'}: {len(pair.gold)} links for evaluation")
