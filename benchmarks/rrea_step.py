"""One full-graph training step of RREA beside a plain gather/scatter version of the same equations.

    python benchmarks/rrea_step.py ../shared/data/dbp15k/zh_en [--device cuda]

Both start from the same parameters and draw the same negatives; their losses are compared before
anything is timed. Peak memory is what torch allocates beyond graph, parameters and optimiser.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from divea.formats import read_task
from divea.models.rrea import Rrea, RreaEncoder, RreaOptions
from divea.models.stacking import StackedGraph
from divea.models.training import Draws


class PlainEncoder(RreaEncoder):
    """The equations as most code writes them: a row per edge for each thing that an edge needs."""

    def layer(self, rows: Tensor, types: Tensor, attention: Tensor) -> Tensor:
        edges = self.edges
        left, right, kind = edges.neighbours.left, edges.neighbours.right, edges.types.right
        neighbour, relation = rows[right], types[kind]
        reflected = neighbour - 2 * (neighbour * relation).sum(dim=1, keepdim=True) * relation
        logits = torch.cat([reflected, relation], dim=1) @ attention[0]
        largest = torch.full((len(rows),), -torch.inf, device=rows.device)
        largest = largest.scatter_reduce(0, left, logits.detach(), "amax")
        share = (logits - largest[left]).exp()
        total = torch.zeros(len(rows), device=rows.device).index_add(0, left, share)
        weighted = reflected * (share / total[left])[:, None]
        return torch.zeros_like(rows).index_add(0, left, weighted)


class PlainRrea(Rrea):
    """The margin loss with a row for every end of every pair."""

    def _loss(self, graph: StackedGraph, draws: Draws) -> Callable[[Tensor], Tensor]:
        seeds, count = graph.seeds[0].long(), graph.blocks[0].nodes

        def loss(rows: Tensor) -> Tensor:
            false_right, false_left = draws.nodes([count]), draws.nodes([count])
            turn = torch.arange(count, device=rows.device) % len(seeds)
            left, right = rows[seeds[turn, 0]], rows[seeds[turn, 1]]
            close = (left - right).abs().sum(dim=1) + self.options.margin
            to_right = torch.relu(close - (left - rows[false_right]).abs().sum(dim=1))
            to_left = torch.relu(close - (rows[false_left] - right).abs().sum(dim=1))
            return (to_right + to_left).sum() / count

        return loss


KINDS = {"sparse": (Rrea, RreaEncoder), "plain": (PlainRrea, PlainEncoder)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=0, help="timed steps; 20 on a GPU, 3 on a CPU")
    parser.add_argument("--only", choices=KINDS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        measure(arguments.only, arguments)
        return
    figures: dict[str, list[float]] = {}
    # A process each: the peak of one must not hide the other's.
    for kind in KINDS:
        command = [sys.executable, *sys.argv, "--only", kind, "--device", arguments.device]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        loss, milliseconds, peak = figures[kind] = json.loads(output)
        print(f"{kind}: first loss {loss:.4f}, {milliseconds:.1f} ms a step, peak {peak:.0f} MiB", flush=True)
    (_, fast, small), (_, slow, large) = figures["sparse"], figures["plain"]
    print(f"plain / sparse: time {slow / fast:.2f}, memory {large / small:.2f}")


def measure(kind: str, arguments: argparse.Namespace) -> None:
    device, options = arguments.device, RreaOptions()
    task = read_task(arguments.folder, seeds=arguments.folder / "splits/30/0/sup_ent_ids")
    graph = StackedGraph([task], device)
    draws = Draws(graph, [0])
    make_model, make_encoder = KINDS[kind]
    model, encoder = make_model(options), make_encoder(graph, draws, options)
    optimiser = torch.optim.RMSprop(encoder.parameters(), options.learning_rate, 0.9, 1e-7)
    measured = model._loss(graph, draws)
    loss, times, on_gpu = 0.0, [], device == "cuda"
    before = baseline(on_gpu)
    for step in range((arguments.steps or (20 if on_gpu else 3)) + 1):
        start = time.perf_counter()
        value = measured(draws.dropout(encoder(), options.dropout))
        optimiser.zero_grad(set_to_none=True)
        value.backward()
        optimiser.step()
        if on_gpu:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        loss = loss if step else value.item()
    peak = (torch.cuda.max_memory_allocated() if on_gpu else peak_resident()) - before
    print(json.dumps([loss, statistics.median(times[1:]) * 1e3, peak / 2**20]))


def baseline(on_gpu: bool) -> int:
    if on_gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    return peak_resident()


def peak_resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
