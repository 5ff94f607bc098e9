"""check_model passes what keeps the promises and catches each one that is broken."""

import re
from pathlib import Path

import pytest
import torch

from divea.matching import Embeddings
from divea.models import Model, check_model, resolve_model
from divea.models.label_propagation import LabelPropagation, LabelPropagationOptions

SHORT = {
    "rrea": {"steps": 25},
    "gcn-align": {"steps": 120},
    "dual-amn": {"steps": 15},
    "label-propagation": {"labels": 128, "heads": 64, "rounds": 2},
}


@pytest.mark.parametrize("name", SHORT)
def test_built_in_models_keep_the_contract(name):
    check_model(resolve_model(name, **SHORT[name]))


def test_the_example_of_the_docs_keeps_the_contract():
    text = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "class " in block]
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) <= 20
    names: dict = {}
    exec(code, names)
    model = next(
        thing
        for thing in names.values()
        if isinstance(thing, type) and issubclass(thing, Model) and thing is not Model
    )
    check_model(model())


class Good(LabelPropagation):
    def __init__(self):
        super().__init__(LabelPropagationOptions(labels=64, heads=32, rounds=1))


class Undetermined(Good):
    def embed(self, task, *, seed=0, device="cpu"):
        found = super().embed(task, seed=seed, device=device)
        return Embeddings(found.source + 1e-4 * torch.rand(1), found.target)


class NotFinite(Good):
    def embed(self, task, *, seed=0, device="cpu"):
        found = super().embed(task, seed=seed, device=device)
        return Embeddings(found.source / 0, found.target)


class ForgetsEntities(Good):
    def embed(self, task, *, seed=0, device="cpu"):
        found = super().embed(task, seed=seed, device=device)
        return Embeddings(found.source[1:], found.target)


class LearnsNothing(Model):
    def embed(self, task, *, seed=0, device="cpu"):
        generator = torch.Generator().manual_seed(seed)
        sides = [torch.randn(g.num_entities, 8, generator=generator) for g in (task.source, task.target)]
        return Embeddings(*sides)


class LeaksByOrder(Good):
    """Entities of the same id get the same hidden extra."""

    def embed(self, task, *, seed=0, device="cpu"):
        found = super().embed(task, seed=seed, device=device)
        extra = torch.randn(
            max(len(found.source), len(found.target)), 50, generator=torch.Generator().manual_seed(0)
        )
        sides = (found.source, found.target)
        return Embeddings(*(torch.cat([side, 1e-3 * extra[: len(side)]], dim=1) for side in sides))


class FailsWithoutSeeds(Good):
    def embed(self, task, *, seed=0, device="cpu"):
        if len(task.seeds) == 1:
            raise IndexError("no second seed")
        return super().embed(task, seed=seed, device=device)


class MixesTasks(Good):
    def embed_many(self, tasks, *, seeds, device="cpu"):
        return super().embed_many(tasks, seeds=seeds, device=device)[::-1]


class WarnsByGradient(Good):
    def embed(self, task, *, seed=0, device="cpu"):
        found = super().embed(task, seed=seed, device=device)
        return Embeddings(found.source.requires_grad_(), found.target)


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (Undetermined, "same task and seed gave other embeddings"),
        (NotFinite, "not all finite"),
        (ForgetsEntities, "the source has 80 entities"),
        (LearnsNothing, "of a planted alignment"),
        (LeaksByOrder, "match the entity of the same id"),
        (FailsWithoutSeeds, "a task with one seed: IndexError: no second seed"),
        (MixesTasks, "embedded together with other tasks"),
        (WarnsByGradient, "still carry a gradient"),
    ],
)
def test_broken_promises_are_named(model, complaint):
    check_model(Good())
    with pytest.raises(AssertionError, match=complaint):
        check_model(model())
