"""`divea align`: the main job, in a run directory that can be left and continued."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from divea.cli.task_input import Seeds, SkipUnknownSeeds, Source, Target, TaskFolder, open_task
from divea.errors import InputError


def align(
    task: TaskFolder = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Run directory, new or to be continued.")
    ] = None,
    source: Source = None,
    target: Target = None,
    seeds: Seeds = None,
    subtasks: Annotated[
        int | None,
        typer.Option("--subtasks", "-n", help="Number of subtasks, N; from the memory if left out."),
    ] = None,
    size: Annotated[
        int | None, typer.Option("--size", "-s", help="Most entities of a subtask, both graphs together, S.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="fast, or best: more accurate, and far slower without a GPU.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="label-propagation, rrea, dual-amn, gcn-align, or some joined by + as an ensemble."
        ),
    ] = None,
    division: Annotated[
        str | None, typer.Option(help="joint, divea, random, cps, sbp, isbp or whole.")
    ] = None,
    matching: Annotated[str | None, typer.Option(help="sinkhorn, csls or cosine.")] = None,
    iterations: Annotated[int | None, typer.Option(help="Rounds of dividing, solving and learning.")] = None,
    min_confidence: Annotated[
        float | None, typer.Option(help="Leave out pairs that are right with a lower probability.")
    ] = None,
    precision: Annotated[
        float | None, typer.Option(help="Leave out as many pairs as it takes for this share of right ones.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same bytes.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="JSON file of settings; options given here come first.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    memory: Annotated[
        str | None,
        typer.Option(help="Host memory to keep within, as 4GiB, by solving one subtask at a time."),
    ] = None,
    gpu_memory: Annotated[str | None, typer.Option(help="GPU memory to keep within, as 2GiB.")] = None,
    executor: Annotated[
        str, typer.Option(help="Who solves the subtasks: inline, local or ray; auto uses all cores.")
    ] = "auto",
    workers: Annotated[int | None, typer.Option(help="Processes that solve subtasks side by side.")] = None,
    address: Annotated[str | None, typer.Option(help="Ray cluster, as auto or host:port.")] = None,
    gpu_share: Annotated[float, typer.Option(help="Share of a GPU that a job takes on a Ray cluster.")] = 1.0,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds after which a subtask counts as failed.")
    ] = None,
    skip_unknown_seeds: SkipUnknownSeeds = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Write where time went to RUN/profile.txt.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Align two graphs: write a table that says which entity here is which entity there.

    The run directory holds everything. If the command is killed, the same command goes on where it
    was, and ends with the same bytes; so does `divea align --out RUN` alone. With other settings or inputs it
    refuses. `divea status RUN` looks in from another terminal; `divea evaluate RUN --gold FILE`
    compares with known links.

    Without options, the memory of this machine decides into how many subtasks to divide. RUN/mappings.tsv
    has a line for each source that got a target, RUN/ranked.parquet the best targets of every source.

    Examples:

        divea align pair/task --out run

        divea align --source a.nt.gz --target b.ttl --seeds known.tsv --out run -n 20 -s 30000

        divea align zh_en --seeds sup_ent_ids --out run -n 5 -s 7792 --model rrea --iterations 5

        divea align zh_en --seeds sup_ent_ids --out run --config settings.json
    """
    from divea.cli.progress import Progress
    from divea.division.plan import parse_memory
    from divea.run.align import align_in
    from divea.run.directory import is_run
    from divea.run.prepare import Limits
    from divea.run.staff import Staff

    if out is None:
        raise InputError("name a run directory with --out")
    limits = Limits(
        device,
        None if memory is None else parse_memory(memory),
        None if gpu_memory is None else parse_memory(gpu_memory),
    )
    given = _settings(
        preset,
        config,
        subtasks=subtasks,
        size=size,
        model=model,
        division=division,
        matching=matching,
        iterations=iterations,
        min_confidence=min_confidence,
        precision=precision,
        seed=seed,
    )
    staff = Staff(executor, workers, address, timeout, gpu_share)
    read = None
    if (task, source, target, seeds) != (None, None, None, None) or not out.exists():
        read = partial(open_task, task, source, target, seeds, skip_unknown_seeds)
    folder = None if task is None else str(task.absolute())
    try:
        with _profiled(out, profile), Progress(quiet, verbose) as progress:
            unsolved = align_in(out, read, given, limits, staff, progress, folder)
    except KeyboardInterrupt:
        what = f"`divea align --out {out}` goes on from here" if is_run(out) else "nothing was done yet"
        typer.echo(f"interrupted; {what}", err=True)
        raise typer.Exit(130) from None
    if not quiet:
        _say_result(out)
    for item in unsolved:
        last = item.log.strip().splitlines()[-1:] or ["no log"]
        typer.echo(f"divea: iteration {item.iteration}, subtasks {item.subtasks}: {last[0]}", err=True)
    if unsolved:
        typer.echo(f"divea: {len(unsolved)} failed; {out}/log.jsonl has their logs", err=True)
        raise typer.Exit(3)


def _settings(preset: str | None, config: Path | None, **options: Any) -> dict[str, Any]:
    """What was given: options come before a file of settings, and that before a preset."""
    from divea.alignment.settings import PRESETS, Settings

    given: dict[str, Any] = {}
    if preset is not None:
        Settings.preset(preset)
        given = PRESETS[preset]
    if config is not None:
        try:
            found = json.loads(config.read_text())
        except (OSError, ValueError) as error:
            raise InputError(f"cannot be read as JSON: {error}", path=config) from error
        if not isinstance(found, dict):
            raise InputError("holds no settings: expected a JSON object", path=config)
        Settings.of(found, config)
        given = given | found
    return given | {name: value for name, value in options.items() if value is not None}


def _say_result(out: Path) -> None:
    import pyarrow.parquet as pq

    from divea.run.directory import MAPPINGS

    count = pq.read_metadata(out / MAPPINGS).num_rows
    typer.echo(f"{out / 'mappings.tsv'}: {count} pairs; {out / 'ranked.parquet'}: the ranked lists")


@contextmanager
def _profiled(out: Path, wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    import cProfile
    import pstats

    with cProfile.Profile() as profile:
        yield
    with (out / "profile.txt").open("w") as file:
        pstats.Stats(profile, stream=file).sort_stats("cumulative").print_stats(60)
