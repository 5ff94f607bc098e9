"""One full-graph training step of RREA next to a plain gather and scatter version of the same equations.

DBP15K zh-en, split 30/0. Both versions start from the same parameters and draw the same negatives, so their
first losses must be equal. Every measurement is a new process; memory is the peak beyond graph, parameters
and optimiser. Aim: twice as fast with half the memory.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
from torch import Tensor

from benchmarks.common import (
    DBP15K,
    DataSet,
    Figures,
    Needs,
    Spread,
    add_data,
    add_device,
    add_rounds,
    clock,
    in_turns,
    measure_in_child,
)
from divea.config import RreaOptions
from divea.models.rrea import Rrea, RreaEncoder
from divea.models.stacking import StackedGraph
from divea.models.training import Draws

NEEDS = Needs("DBP15K", "CPU or GPU", "2 min (GPU), 5 min")

LOSS_DIFFERENCE = 1e-4
"""Largest relative difference of the first losses: both versions add up in another order."""


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data(parser, DBP15K, ["zh-en"])
    add_device(parser)
    parser.add_argument("--steps", type=int, help="timed steps (default: 20 on a GPU, 3 on a CPU)")
    add_rounds(parser, 3)


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    steps = options.steps or (20 if options.device == "cuda" else 3)
    units = {"data": "", "version": "", "first loss": "", "step": "ms", "peak memory": "MiB"}
    table = figures.table("training step", units)
    for name in options.sets:
        arguments = DataSet(name, options.data, percent=30), options.device, steps
        works = {
            version: partial(measure_in_child, prepare, version, *arguments, device=options.device)
            for version in VERSIONS
        }
        found = in_turns(works, options.rounds)
        for version, rounds in found.items():
            table.add(
                {
                    "data": name,
                    "version": version,
                    "first loss": rounds.results[0][0],
                    "step": Spread.of(1000 * seconds for _, seconds in rounds.results),
                    "peak memory": rounds.memory,
                }
            )
        sparse, plain = found["sparse"], found["plain"]
        (loss, _), (plain_loss, _) = sparse.results[0], plain.results[0]
        if abs(loss / plain_loss - 1) > LOSS_DIFFERENCE:
            figures.fail(f"{name}: the first losses are {loss} and {plain_loss}")
        by_round = list(zip(plain.results, sparse.results, strict=True))
        figures.add(f"{name}, plain / sparse, time", Spread.of(slow[1] / fast[1] for slow, fast in by_round))
        memory = zip(plain.measurements, sparse.measurements, strict=True)
        figures.add(
            f"{name}, plain / sparse, memory",
            Spread.of(large.memory / small.memory for large, small in memory),
        )
    return figures


def prepare(version: str, data_set: DataSet, device: str, steps: int) -> Callable[[], tuple[float, float]]:
    """Work that returns the first loss, and the median seconds of the steps after the first."""
    options = RreaOptions()
    graph = StackedGraph([data_set.task()], device)
    draws = Draws(graph, [0])
    make_model, make_encoder = VERSIONS[version]
    model, encoder = make_model(options), make_encoder(graph, draws, options)
    optimiser = torch.optim.RMSprop(encoder.parameters(), options.learning_rate, 0.9, 1e-7)
    loss_of = model._loss(graph, draws)
    losses: list[Tensor] = []

    def step() -> None:
        loss = loss_of(draws.dropout(encoder(), options.dropout))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(loss.detach())

    def work() -> tuple[float, float]:
        seconds = [clock(step, device) for _ in range(steps + 1)]
        return losses[0].item(), median(seconds[1:])

    return work


class PlainEncoder(RreaEncoder):
    """The equations as most code writes them: a row per edge for everything that an edge needs."""

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
    """The margin loss with a row for both ends of every pair."""

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


VERSIONS: dict[str, tuple[type[Rrea], type[RreaEncoder]]] = {
    "sparse": (Rrea, RreaEncoder),
    "plain": (PlainRrea, PlainEncoder),
}
