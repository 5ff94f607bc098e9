"""Evidence passing: first-order costs and rounds against the exact ones, on the real pairs.

    python benchmarks/evidence.py ../shared/data/dbp15k

Split 20/0, N = 5, S = 7792 (zh-en) and 7930 (fr-en), source side with delta1 = .5, one thread.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from divea.division.columns import tie_draw
from divea.division.context import pick_contexts
from divea.division.evidence import EvidenceSettings
from divea.division.groups import group_source, members_of
from divea.division.yardstick import Yardstick
from divea.formats import read_task


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name, size in (("zh_en", 7792), ("fr_en", 7930)):
        folder = options.data / name
        compare(name, read_task(folder, folder / "splits" / "20" / "0" / "sup_ent_ids"), size)


def compare(name, task, size: int) -> None:
    groups, _ = group_source(task, 5)
    members = members_of(groups, task.unmatched_source)
    counts = [size // 2 - len(own) for own in members]
    draw = tie_draw(task.source.num_entities, 0, "source")
    yardstick = Yardstick.of(task.source.adjacency, task.seeds.source, EvidenceSettings())

    def contexts(method: str):
        began = time.perf_counter()
        picked = list(
            pick_contexts(
                task.source.adjacency,
                members,
                [task.seeds.source],
                counts,
                draw,
                EvidenceSettings(method=method),
            )
        )
        seconds = time.perf_counter() - began
        evidence = sum(
            yardstick.evidence(np.union1d(own, context), own).sum()
            for own, context in zip(members, picked, strict=True)
        )
        return seconds, picked, evidence

    contexts("first_order")  # so that none pays for loading libraries
    repeats = [contexts("first_order") for _ in range(5)]
    first = min(seconds for seconds, _, _ in repeats)
    _, picked, informative = repeats[0]
    in_rounds, _, informative_rounds = contexts("rounds")
    exactly, oracle, informative_exact = contexts("exact")
    same = [len(np.intersect1d(a, b)) / len(b) for a, b in zip(picked, oracle, strict=True)]
    print(
        f"{name}: exact {exactly:.2f} s, first_order {first:.4f} s: {exactly / first:.0f} x faster, "
        f"rounds {in_rounds:.2f} s\n"
        f"    same picks {np.mean(same):.4f} (parts {', '.join(f'{share:.3f}' for share in same)})\n"
        f"    informativeness exact {informative_exact:.1f}, first_order {informative:.1f} "
        f"({informative / informative_exact - 1:+.2%}), rounds {informative_rounds:.1f} "
        f"({informative_rounds / informative_exact - 1:+.2%})",
        flush=True,
    )


if __name__ == "__main__":
    main()
