"""`divea synth`: generates a pair of graphs with known matches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from divea.cli.terminal import print_line, working


def synth(
    out: Annotated[Path, typer.Argument(help="New folder for the pair.")],
    entities: Annotated[int, typer.Option(help="Entities of each graph.")] = 15_000,
    triples_per_entity: Annotated[float, typer.Option(help="Triples per entity.")] = 4.0,
    matched: Annotated[float, typer.Option(help="Share of entities that have a counterpart.")] = 0.77,
    common: Annotated[float, typer.Option(help="Share of triples that are in both graphs.")] = 0.55,
    seed_share: Annotated[
        float, typer.Option(help="Share of the links that are seeds; 0 for a task without seeds.")
    ] = 0.2,
    random_seed: Annotated[int, typer.Option(help="Same random seed, same bytes.")] = 0,
    names: Annotated[
        bool,
        typer.Option(
            "--names",
            help="Give the entities names, identifiers, dates, numbers, categories, addresses and texts.",
        ),
    ] = False,
    name_noise: Annotated[
        float,
        typer.Option(
            help="Share of the target's names that differ from the source's; a sixth as many are missing."
        ),
    ] = 0.3,
) -> None:
    """Generate two knowledge graphs with known matches that resemble real ones.

    Writes OUT/task, a task folder for the other commands, and OUT/gold.tsv, the links that are not seeds, for
    evaluation. Two million entities take about a minute and 2.3 GiB; with names, twice as long and 3.3 GiB.

    With --names, the source has a label and the target a name, under another predicate. A name that differs
    has a typing error, an initial for its first word, its last word in front, or a word less. The other
    attributes also have another predicate and format in the target, and some of them are wrong. The triples
    and links do not depend on --names.

    Examples:

        divea synth demo --entities 15000

        divea synth named --names --seed-share 0

        divea synth noisy --names --name-noise 0.6
    """
    from divea.formats import mapping_table, write_mappings, write_task
    from divea.graphs.synth import SynthConfig, synthesise
    from divea.io import new_folder

    config = SynthConfig(
        entities, triples_per_entity, matched, common, seed_share, random_seed, names, name_noise
    )
    with new_folder(out) as temporary:
        with working(f"generating two graphs of {entities} entities"):
            pair = synthesise(config)
        with working(f"writing {out}"):
            write_task(pair.task, temporary / "task")
            gold = pair.gold.labels(pair.task.source, pair.task.target)
            write_mappings(mapping_table(*gold).select(["source", "target"]), temporary / "gold.tsv")
    print_line(f"{out / 'task'}: {pair.task.source} and {pair.task.target}, {len(pair.task.seeds)} seeds")
    print_line(f"{out / 'gold.tsv'}: {len(pair.gold)} links for evaluation")
