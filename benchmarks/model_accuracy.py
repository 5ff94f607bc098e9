"""Whole-graph accuracy and time of models on folders in the JAPE layout (DBP15K).

    python benchmarks/model_accuracy.py ../shared/data/dbp15k/zh_en --percent 30 \\
        --model rrea dual-amn gcn-align --matching csls --protocol closed

With --validation, the test links stay unread: a fifth of the seeds is held out and plays their
part. Settings are chosen that way.
"""

from __future__ import annotations

import argparse
import ast
import json
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch

from divea.evaluation import RankMetrics, gold_ranks, read_gold
from divea.formats import read_task
from divea.graphs import AlignmentTask, Links
from divea.models import resolve_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--percent", type=int, default=30, help="share of the links that are seeds")
    parser.add_argument("--split", type=int, default=0)
    parser.add_argument("--model", nargs="+", default=["rrea"])
    parser.add_argument("--set", nargs="*", default=[], help="options of the model, as name=value")
    parser.add_argument("--matching", nargs="+", default=["csls"])
    parser.add_argument("--protocol", nargs="+", default=["closed"], choices=["open", "closed"])
    parser.add_argument("--seed", nargs="+", type=int, default=[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--memory", type=int, default=4 << 30, help="bytes for blocks of scores")
    parser.add_argument("--validation", action="store_true")
    parser.add_argument("--json", type=Path, help="append one line per figure to this file")
    arguments = parser.parse_args()
    for folder in arguments.folders:
        task, gold = load(folder, arguments)
        for name in arguments.model:
            for seed in arguments.seed:
                report(folder.name, task, gold, name, seed, arguments)


def load(folder: Path, arguments: argparse.Namespace) -> tuple[AlignmentTask, Links]:
    split = folder / "splits" / str(arguments.percent) / str(arguments.split)
    task = read_task(folder, seeds=split / "sup_ent_ids")
    if not arguments.validation:
        return task, read_gold(split / "ref_ent_ids", task, folder=folder)
    held_out = np.random.default_rng(0).random(len(task.seeds)) < 0.2
    pairs = task.seeds.pairs
    return replace(task, seeds=Links.from_pairs(pairs[~held_out])), Links.from_pairs(pairs[held_out])


def report(
    pair: str, task: AlignmentTask, gold: Links, name: str, seed: int, arguments: argparse.Namespace
) -> None:
    options = {key: literal(value) for key, _, value in (text.partition("=") for text in arguments.set)}
    model = resolve_model(name, **options)
    if arguments.device == "cuda":
        torch.zeros(1, device="cuda")
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    embeddings = model.embed(task, seed=seed, device=arguments.device)
    if arguments.device == "cuda":
        torch.cuda.synchronize()
    embedded = time.perf_counter() - start
    for protocol in arguments.protocol:
        for matching in arguments.matching:
            start = time.perf_counter()
            kinds = {"method": matching, "protocol": protocol, "seed": seed, "memory": arguments.memory}
            metrics = RankMetrics.of(gold_ranks(embeddings, task, gold, **kinds))
            matched = time.perf_counter() - start
            peak = torch.cuda.max_memory_allocated() if arguments.device == "cuda" else 0
            line = {
                "pair": pair,
                "percent": arguments.percent,
                "validation": arguments.validation,
                "model": name,
                "options": options,
                "matching": matching,
                "protocol": protocol,
                "seed": seed,
                "device": arguments.device,
                **{key: round(value, 4) for key, value in asdict(metrics).items()},
                "embed_s": round(embedded, 2),
                "match_s": round(matched, 2),
                "peak_MiB": peak >> 20,
            }
            print(" ".join(f"{key}={value}" for key, value in line.items()), flush=True)
            if arguments.json:
                with arguments.json.open("a") as file:
                    file.write(json.dumps(line) + "\n")


def literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


if __name__ == "__main__":
    main()
