"""`divea align`: the main job, in a run directory that can be continued."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from divea.cli.options import (
    Assignments,
    Config,
    KeepSchema,
    Preset,
    RandomSeed,
    Reviewed,
    Seeds,
    Size,
    SkipUnknownNames,
    SkipUnknownSeeds,
    Source,
    SourceNames,
    Subtasks,
    Target,
    TargetNames,
    TaskFolder,
    checked_settings,
    given_settings,
    open_task,
    refined_task,
)
from divea.cli.terminal import print_line, print_note
from divea.errors import InputError


def align(
    task: TaskFolder = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Run directory, new or to be continued.")
    ] = None,
    source: Source = None,
    target: Target = None,
    seeds: Seeds = None,
    reviewed: Reviewed = None,
    refines: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Finished run to refine with --reviewed or more --seeds: it solves only what they change.",
        ),
    ] = None,
    source_names: SourceNames = None,
    target_names: TargetNames = None,
    subtasks: Subtasks = None,
    size: Size = None,
    preset: Preset = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="names, attributes, propagation, given and encoder, joined by +, or none for structure "
            "alone; names+attributes by default."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="label-propagation, rrea, dual-amn, gcn-align, or several joined by +."),
    ] = None,
    division: Annotated[
        str | None, typer.Option(help="joint, divea, random, cps, sbp, isbp or whole.")
    ] = None,
    matching: Annotated[str | None, typer.Option(help="sinkhorn, csls or cosine.")] = None,
    iterations: Annotated[int | None, typer.Option(help="Rounds of dividing, solving and learning.")] = None,
    min_confidence: Annotated[
        float | None, typer.Option(help="Leave out pairs below this probability of being correct.")
    ] = None,
    precision: Annotated[
        float | None, typer.Option(help="Leave out pairs so that this share of the rest should be correct.")
    ] = None,
    random_seed: RandomSeed = None,
    config: Config = None,
    assignments: Assignments = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    memory: Annotated[
        str | None,
        typer.Option(help="Limit on host memory, all processes together, for example 4GiB."),
    ] = None,
    gpu_memory: Annotated[str | None, typer.Option(help="GPU memory limit, for example 2GiB.")] = None,
    executor: Annotated[
        str,
        typer.Option(help="inline (threads of this process), local (worker processes) or ray; auto chooses."),
    ] = "auto",
    workers: Annotated[int | None, typer.Option(help="Worker processes that solve subtasks.")] = None,
    address: Annotated[str | None, typer.Option(help="Ray cluster, as auto or host:port.")] = None,
    gpu_share: Annotated[
        float | None, typer.Option(help="Share of a GPU that a job takes on a Ray cluster.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds after which a subtask counts as failed.")
    ] = None,
    skip_unknown_seeds: SkipUnknownSeeds = False,
    skip_unknown_names: SkipUnknownNames = False,
    keep_schema: KeepSchema = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Write where time went to RUN/profile.txt.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print more.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Align two graphs: write a table that says which entity here is which entity there.

    The run directory holds everything. If the command is killed, the same command continues where it was
    and ends with the same bytes; so does `divea align --out RUN` alone. With other settings or inputs it
    refuses. `divea status RUN` looks in from another terminal; `divea evaluate RUN --gold FILE` compares
    the result with known links.

    By default the memory of this machine decides how many subtasks there are. RUN/mappings.tsv has a line
    per source that got a target, RUN/ranked.parquet the best targets of every source. `divea settings`
    explains all settings.

    Names and attribute values of the graphs are used where there are any (--features). With them, seeds
    can be few, and there may be none. `divea info` shows what a pair of graphs has.

    --from refines a finished run with the verdicts of a review (`divea review`) or with more seeds. The
    task and the settings are those of that run, and only the last iteration is repeated, in the subtasks
    that the new pairs concern.

    Examples:

        divea align pair/task --out run

        divea align --source a.nt.gz --target b.ttl --seeds known.tsv --out run -n 20 -s 30000

        divea align --source a.nt.gz --target b.ttl --source-names names.tsv --seeds known.tsv --out run

        divea align pair/task --out run -n 5 --model rrea --set model.rrea.loss=hard --set model.rrea.steps=60

        divea align pair/task --out run --config settings.yaml

        divea align --from run --reviewed sheet.tsv --out run2
    """
    from divea.config.executor import ExecutorSettings
    from divea.config.given_names import GivenNames
    from divea.resources.limits import Limits
    from divea.runs.align import align_in
    from divea.runs.displays import choose_display
    from divea.runs.layout import is_run
    from divea.runs.progress import Progress
    from divea.runs.solver import counted_subtasks

    if out is None:
        raise InputError("name a run directory with --out")
    names = GivenNames.of(source_names, target_names)
    options = {
        "features.name": features,
        **names.settings,
        "subtasks": subtasks,
        "size": size,
        "model.name": model,
        "division.name": division,
        "matching.method": matching,
        "iterations": iterations,
        "confidence.min_confidence": min_confidence,
        "confidence.precision": precision,
        "random_seed": random_seed,
    }
    given = given_settings(preset, config, assignments, options)
    settings = None if given is None else checked_settings(given)
    names.require_effect(checked_settings(given))
    executor_options = {
        "name": executor,
        "workers": workers,
        "address": address,
        "timeout": timeout,
        "gpu_share": gpu_share,
    }
    executor_settings = ExecutorSettings.checked(
        {name: value for name, value in executor_options.items() if value is not None}
    )
    limits = Limits.of(device, memory, gpu_memory)
    read_task = None
    if refines is not None:
        if (task, source, target) != (None, None, None) or names.tables != (None, None):
            raise InputError("--from takes the task of the run; name no task, graphs or names beside it")
        if seeds is None and not reviewed:
            raise InputError("--from has no effect without --reviewed or more --seeds")
        if keep_schema or skip_unknown_names:
            flag = "--keep-schema" if keep_schema else "--skip-unknown-names"
            raise InputError(f"{flag} has no effect with --from")
        read_task = partial(refined_task, refines, seeds, reviewed or (), skip_unknown_seeds)
    elif (task, source, target, seeds) != (None, None, None, None) or not out.exists():
        read_task = partial(
            open_task,
            task,
            source,
            target,
            seeds,
            skip_unknown_seeds,
            keep_schema,
            names.tables,
            skip_unknown_names,
            reviewed or (),
        )
    elif skip_unknown_seeds:
        raise InputError("--skip-unknown-seeds has no effect: the run that is continued has its seeds")
    elif reviewed:
        raise InputError("--reviewed has no effect: the run that is continued has its verdicts")
    elif keep_schema:
        raise InputError("--keep-schema has no effect: the run that is continued has its graphs")
    elif names.tables != (None, None) or skip_unknown_names:
        raise InputError("a file of names has no effect: the run that is continued has its names")
    folder = None if task is None else str(task.absolute())
    try:
        watched = nullcontext() if quiet else Progress(choose_display(), verbose)
        with _profiled(out, profile), watched as progress:
            failed = align_in(
                out,
                read_task,
                settings,
                limits=limits,
                executor=executor_settings,
                listener=progress,
                folder=folder,
                refines=refines,
            )
    except KeyboardInterrupt:
        what = f"`divea align --out {out}` continues from here" if is_run(out) else "nothing was done yet"
        print_note(f"interrupted; {what}")
        raise typer.Exit(130) from None
    for item in failed:
        print_note(f"divea: iteration {item.iteration + 1}, subtasks {item.subtasks}: {item.reason}")
    if failed:
        print_note(f"divea: {counted_subtasks(failed)} could not be solved; {out}/log.jsonl has the logs")
    if not quiet:
        _print_result(out)
    if failed:
        raise typer.Exit(3)


def _print_result(out: Path) -> None:
    import pyarrow.parquet as pq

    from divea.graphs.arrays import read_description
    from divea.runs.layout import CALIBRATION, MAPPINGS, MAPPINGS_TSV, RANKED

    with (out / MAPPINGS).open("rb") as file:
        count = pq.read_metadata(file).num_rows
    # TSV cannot hold every label.
    written = out / (MAPPINGS_TSV if (out / MAPPINGS_TSV).is_file() else MAPPINGS)
    has_seeds = read_description(out / CALIBRATION)["seeds"] > 0
    pairs = f"{count} pairs" + (", without the seeds" if has_seeds else "")
    print_line(f"{written}: {pairs}; {out / RANKED}: the ranked lists")


@contextmanager
def _profiled(out: Path, wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    import cProfile
    import pstats

    from divea.io import new_file

    with cProfile.Profile() as profile:
        yield
    with new_file(out / "profile.txt") as temporary, temporary.open("w") as file:
        pstats.Stats(profile, stream=file).sort_stats("cumulative").print_stats(60)
