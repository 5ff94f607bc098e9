"""Embedding tasks together gives the same result as one by one and respects a memory budget."""

import pytest
import torch

from divea.graphs import AlignmentTask
from divea.graphs.planted import planted_pair
from divea.models import Model, embed_all
from divea.types import Embeddings
from tests.models.small_models import small_model

FEW_STEPS = {
    "rrea": ("rrea", {"steps": 6}),
    "rrea with the hard loss": ("rrea", {"steps": 6, "loss": "hard", "batch": 8}),
    "gcn-align": ("gcn-align", {"steps": 25}),
    "dual-amn": ("dual-amn", {"steps": 4, "batch": 8}),
    "label-propagation": ("label-propagation", {"labels": 32, "heads": 16, "rounds": 2}),
}


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("case", FEW_STEPS)
def test_tasks_embedded_together_get_the_same_embeddings_as_alone(case):
    name, options = FEW_STEPS[case]
    model = small_model(name, **options)
    tasks = [
        planted_pair(30 + 7 * number, 250, seeds=9 + number, random_seed=number).task for number in range(3)
    ]
    without_seeds = AlignmentTask(tasks[0].source, tasks[1].target)
    tasks.append(without_seeds)
    random_seeds = [3, 1, 4, 1]
    together = model.embed_many(tasks, random_seeds=random_seeds)
    for task, random_seed, stacked in zip(tasks, random_seeds, together, strict=True):
        alone = model.embed(task, random_seed=random_seed)
        for found, expected in ((stacked.source, alone.source), (stacked.target, alone.target)):
            assert torch.allclose(found, expected, atol=1e-6 * float(expected.abs().max()))


class Recorder(Model):
    """Records how many tasks are embedded together; its embedding is the random seed."""

    def __init__(self, memory_per_task=10):
        self.batches = []
        self.memory_per_task = memory_per_task

    def embed(self, task, *, random_seed=0, device="cpu"):
        return Embeddings(torch.full((1, 1), float(random_seed)), torch.zeros(1, 1))

    def embed_many(self, tasks, *, random_seeds, device="cpu"):
        self.batches.append(len(tasks))
        return super().embed_many(tasks, random_seeds=random_seeds, device=device)

    def memory(self, task):
        return self.memory_per_task


def batches_of(model, memory, count=7):
    """The sizes of the batches in which equal tasks are embedded."""
    task = planted_pair(entities=5, triples=5, seeds=1).task
    found = list(embed_all(model, [task] * count, random_seeds=range(count), memory=memory))
    assert [int(embeddings.source) for embeddings in found] == list(range(count))
    return model.batches


def test_batches_fill_the_budget():
    assert batches_of(Recorder(), memory=1000) == [7]
    assert batches_of(Recorder(), memory=35) == [3, 3, 1]
    assert batches_of(Recorder(), memory=1) == [1] * 7


def test_a_model_without_a_memory_estimate_embeds_one_task_at_a_time():
    assert batches_of(Recorder(memory_per_task=0), memory=1000) == [1] * 7
