"""Dense Sinkhorn and Sinkhorn over each source's nearest targets, on the same embeddings.

    python benchmarks/sinkhorn_kernels.py ../shared/data/dbp15k/zh_en [--validation]

To explain figures, not to choose settings: without --validation it reads test links.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from model_accuracy import load

from divea.matching.sinkhorn import dense_sinkhorn, nearest_targets, sparse_sinkhorn
from divea.models import resolve_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--percent", type=int, default=20)
    parser.add_argument("--split", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nearest", nargs="+", type=int, default=[10, 50, 100, 500, 2000, 5000])
    parser.add_argument("--iterations", nargs="+", type=int, default=[15, 200])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--validation", action="store_true")
    arguments = parser.parse_args()
    task, gold = load(arguments.folder, arguments)
    model = resolve_model("label-propagation")
    embeddings = model.embed(task, seed=arguments.seed, device=arguments.device).normalised()
    sources, candidates = np.sort(task.unmatched_source), np.sort(task.unmatched_target)
    source, target = embeddings.source[sources], embeddings.target[candidates]
    row = torch.from_numpy(np.searchsorted(sources, gold.source)).to(arguments.device)
    true = torch.from_numpy(np.searchsorted(candidates, gold.target)).to(arguments.device)
    reference: torch.Tensor | None = None
    for iterations in arguments.iterations:
        weights = dense_sinkhorn(source @ target.T, iterations=iterations)
        right = weights.argmax(dim=1)[row] == true
        reference = right if reference is None else reference
        report(f"dense, {iterations} iterations", right, reference)
        del weights
        for nearest in arguments.nearest:
            listed = sparse_sinkhorn(
                nearest_targets(source, target, 4 << 30, nearest), len(target), iterations=iterations
            )
            best = listed.columns.gather(1, listed.values.argmax(dim=1, keepdim=True))[:, 0]
            report(f"{nearest} nearest, {iterations} iterations", best[row] == true, reference)


def report(name: str, right: torch.Tensor, reference: torch.Tensor) -> None:
    only, lost = int((right & ~reference).sum()), int((reference & ~right).sum())
    print(
        f"{name}: H@1 {right.float().mean():.4f}, right only here {only}, only with the first {lost}",
        flush=True,
    )


if __name__ == "__main__":
    main()
