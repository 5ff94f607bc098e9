"""Tasks done together: equal to one by one, and within a budget."""

import pytest
import torch

from divea.graphs import AlignmentTask
from divea.matching import Embeddings
from divea.models import Model, embed_all, resolve_model
from tests.models.planted import planted

FEW_STEPS = {
    "rrea": {"steps": 6},
    "rrea with the hard loss": {"steps": 6, "loss": "hard", "batch": 8},
    "gcn-align": {"steps": 25},
    "dual-amn": {"steps": 4, "batch": 8},
    "label-propagation": {"labels": 32, "heads": 16, "rounds": 2},
}


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("name", FEW_STEPS)
def test_together_is_one_by_one(name):
    model = resolve_model(name.partition(" ")[0], **FEW_STEPS[name])
    tasks = [planted(seed=seed, entities=30 + 7 * seed, seeds=9 + seed)[0] for seed in range(3)]
    tasks.append(AlignmentTask(tasks[0].source, tasks[1].target))  # one without seeds
    seeds = [3, 1, 4, 1]
    together = model.embed_many(tasks, seeds=seeds)
    for task, seed, stacked in zip(tasks, seeds, together, strict=True):
        alone = model.embed(task, seed=seed)
        for ours, theirs in ((stacked.source, alone.source), (stacked.target, alone.target)):
            assert torch.allclose(ours, theirs, atol=1e-6 * float(theirs.abs().max()))


class Recorder(Model):
    """Notes how many tasks come at once."""

    def __init__(self):
        self.batches = []

    def embed(self, task, *, seed=0, device="cpu"):
        return Embeddings(torch.full((1, 1), float(seed)), torch.zeros(1, 1))

    def embed_many(self, tasks, *, seeds, device="cpu"):
        self.batches.append(len(tasks))
        return super().embed_many(tasks, seeds=seeds, device=device)

    def memory(self, task):
        return 10


def run(model, count=7, memory=1000):
    task = planted(entities=5, triples=5, seeds=1)[0]
    done = list(embed_all(model, [task] * count, seeds=range(count), memory=memory))
    assert [int(embeddings.source) for embeddings in done] == list(range(count))
    return model.batches


def test_batches_fill_the_budget():
    assert run(Recorder(), memory=1000) == [7]
    assert run(Recorder(), memory=35) == [3, 3, 1]
    assert run(Recorder(), memory=1) == [1] * 7


def test_a_model_that_cannot_say_gets_tasks_one_at_a_time():
    class Silent(Recorder):
        def memory(self, task):
            return 0

    assert run(Silent()) == [1] * 7
