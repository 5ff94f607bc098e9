"""Whether a limit on memory holds: a whole run within it, the peak that was measured, and the quality.

    python benchmarks/memory_limit.py ../shared/data/dbp15k/zh_en --gpu-memory 2GiB -n 5 --model rrea
    python benchmarks/memory_limit.py PAIR --memory 3GiB

PAIR is a folder of `divea synth`, or one in the JAPE layout with splits of 20 % seeds. Without -n the plan
chooses the subtasks. The peak is that of the process: of its resident memory, and of what torch has
reserved on the GPU; what else is in use there is the driver's and its libraries', if the GPU is ours alone.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from divea.alignment.loop import Work, run_loop
from divea.alignment.settings import Settings
from divea.alignment.solve import Solved
from divea.division.plan import parse_memory
from divea.evaluation import read_gold
from divea.formats import read_task
from divea.graphs import AlignmentTask, Links, load_task, save_task
from divea.models import resolve_model
from divea.run.budget import fit, for_a_job
from divea.run.executors import make_executor
from divea.run.jobs import Failed, jobs_of
from divea.run.peaks import peak_memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--memory")
    parser.add_argument("--gpu-memory")
    parser.add_argument("-n", type=int, default=1)
    parser.add_argument("--model", default="label-propagation")
    parser.add_argument("--set", type=json.loads, default={}, help="options of the model, as JSON")
    parser.add_argument("--iterations", type=int, default=2)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    task, gold = load(options.folder)
    settings = Settings(
        subtasks=options.n, model=options.model, model_options=options.set, iterations=options.iterations
    )
    text = options.memory if options.device == "cpu" else options.gpu_memory
    memory = None
    if text:
        memory = for_a_job(task, parse_memory(text), options.device)
        settings = fit(task, settings, memory, options.device)
    size = settings.size or "equal size"
    print(f"{options.folder.name}: {settings.model}, limit {text}, {settings.subtasks} subtasks of {size}")
    start = time.perf_counter()
    outcome = run_loop(task, settings, lambda work: solve(work, task, settings, options.device, memory))
    seconds = time.perf_counter() - start
    found = dict(zip(outcome.matches.source.tolist(), outcome.matches.best.tolist(), strict=True))
    pairs = gold.pairs.tolist()
    hits = sum(found[source] == target for source, target in pairs) / len(pairs)
    print(f"H@1 {hits:.4f} (open), {seconds:.0f} s, peak of the process {peak_memory() / 2**20:.0f} MiB")
    if options.device != "cpu":
        print(f"GPU: torch reserved {torch.cuda.max_memory_reserved() / 2**20:.0f} MiB", end=", ")
        print(f"allocated {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB", end=", ")
        free, total = torch.cuda.mem_get_info()
        libraries = total - free - torch.cuda.memory_reserved()
        print(f"all else on the GPU {libraries / 2**20:.0f} MiB")


def load(folder: Path) -> tuple[AlignmentTask, Links]:
    if (folder / "task").is_dir():
        task = load_task(folder / "task")
        return task, read_gold(folder / "gold.tsv", task)
    split = folder / "splits" / "20" / "0"
    task = read_task(folder, seeds=split / "sup_ent_ids")
    return task, read_gold(split / "ref_ent_ids", task, folder=folder)


def solve(
    work: Work, task: AlignmentTask, settings: Settings, device: str, memory: int | None
) -> Iterator[Solved]:
    jobs = jobs_of(work, settings, device=device, memory=memory, threads=torch.get_num_threads())
    with tempfile.TemporaryDirectory() as folder:
        save_task(task, Path(folder) / "task")
        for done in make_executor("inline").run(Path(folder) / "task", jobs):
            if isinstance(done, Failed):
                raise SystemExit(done.log)
            gpu, host = done.peak_gpu_memory / 2**20, done.peak_memory / 2**20
            count = len(jobs[done.position].subtasks)
            name, given = settings.model_at(work.iteration)
            model = resolve_model(name, **given)
            thought = sum(model.memory(subtask.local(work.task)) for subtask in jobs[done.position].subtasks)
            print(
                f"iteration {work.iteration} job {done.position} of {len(jobs)}: {count} subtasks, "
                f"{done.seconds:.1f} s, thought {thought / 2**20:.0f} MiB, peak {host:.0f} MiB, "
                f"GPU {gpu:.0f} MiB {' '.join(done.notes)}",
                flush=True,
            )
            yield from done.solved


if __name__ == "__main__":
    main()
