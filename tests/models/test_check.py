"""`check_model` accepts models that meet the contract, and names each way of breaking it."""

import ast
import re
from pathlib import Path

import pytest
import torch

from divea.config import LabelPropagationOptions
from divea.models import Model, check_model
from divea.models.label_propagation import LabelPropagation
from divea.types import Embeddings
from tests.models.small_models import small_model

SHORT = {
    "rrea": {"steps": 15},
    "gcn-align": {"steps": 80},
    "dual-amn": {"steps": 10},
    "label-propagation": {"labels": 128, "heads": 64, "rounds": 2},
}


@pytest.mark.parametrize("name", SHORT)
def test_built_in_models_meet_the_contract(name):
    check_model(small_model(name, **SHORT[name]))


class Diffusion(Model):
    """The smallest useful model: a random vector spreads from every seed over three hops."""

    def embed(self, task, *, random_seed=0, device="cpu"):
        labels = torch.randn(len(task.seeds), 256, generator=torch.Generator().manual_seed(random_seed))
        sides = []
        for graph, anchors in ((task.source, task.seeds.source), (task.target, task.seeds.target)):
            rows = torch.zeros(graph.num_entities, 256)
            rows[torch.from_numpy(anchors).long()] = labels
            hops = [rows]
            for _ in range(3):
                received = torch.from_numpy(graph.adjacency @ hops[-1].numpy())
                hops.append(torch.nn.functional.normalize(received, dim=1))
            sides.append(torch.cat(hops, dim=1).to(device))
        return Embeddings(*sides)


def test_a_model_of_a_few_lines_meets_the_contract():
    check_model(Diffusion())


def test_the_example_model_of_the_contributing_page_has_at_most_20_lines():
    """tests/test_docs.py runs the example, which calls `check_model`."""
    page = Path(__file__).parents[2] / "CONTRIBUTING.md"
    examples = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    (code,) = [example for example in examples if "(Model):" in example]
    (model_type,) = [
        ast.get_source_segment(code, node) for node in ast.parse(code).body if isinstance(node, ast.ClassDef)
    ]
    assert len([line for line in model_type.splitlines() if line.strip()]) <= 20


class Good(LabelPropagation):
    def __init__(self):
        super().__init__(LabelPropagationOptions(labels=64, heads=32, rounds=1))


class NotDeterministic(Good):
    def embed(self, task, *, random_seed=0, device="cpu"):
        found = super().embed(task, random_seed=random_seed, device=device)
        return Embeddings(found.source + 1e-4 * torch.rand(1), found.target)


class NotFinite(Good):
    def embed(self, task, *, random_seed=0, device="cpu"):
        found = super().embed(task, random_seed=random_seed, device=device)
        return Embeddings(found.source / 0, found.target)


class OmitsAnEntity(Good):
    def embed(self, task, *, random_seed=0, device="cpu"):
        found = super().embed(task, random_seed=random_seed, device=device)
        return Embeddings(found.source[1:], found.target)


class LearnsNothing(Model):
    def embed(self, task, *, random_seed=0, device="cpu"):
        generator = torch.Generator().manual_seed(random_seed)
        sides = [torch.randn(g.num_entities, 8, generator=generator) for g in (task.source, task.target)]
        return Embeddings(*sides)


class DependsOnTheOrderOfTriples(Good):
    """Changes its third result: the check embeds a task twice as it is, then with its triples reversed."""

    calls = 0

    def embed(self, task, *, random_seed=0, device="cpu"):
        found = super().embed(task, random_seed=random_seed, device=device)
        self.calls += 1
        return Embeddings(found.source + (1e-4 if self.calls == 3 else 0.0), found.target)


class UsesTheOrderOfIds(Good):
    """Entities with the same id get the same additional dimensions."""

    def embed(self, task, *, random_seed=0, device="cpu"):
        found = super().embed(task, random_seed=random_seed, device=device)
        more = torch.randn(
            max(len(found.source), len(found.target)), 50, generator=torch.Generator().manual_seed(0)
        )
        sides = (found.source, found.target)
        return Embeddings(*(torch.cat([side, 1e-3 * more[: len(side)]], dim=1) for side in sides))


class FailsWithOneSeed(Good):
    def embed(self, task, *, random_seed=0, device="cpu"):
        if len(task.seeds) == 1:
            raise IndexError("no second seed")
        return super().embed(task, random_seed=random_seed, device=device)


class MixesTasks(Good):
    def embed_many(self, tasks, *, random_seeds, device="cpu"):
        return super().embed_many(tasks, random_seeds=random_seeds, device=device)[::-1]


class KeepsAGradient(Good):
    def embed(self, task, *, random_seed=0, device="cpu"):
        found = super().embed(task, random_seed=random_seed, device=device)
        return Embeddings(found.source.requires_grad_(), found.target)


def test_the_good_model_meets_the_contract():
    check_model(Good())


@pytest.mark.parametrize(
    ("model_type", "message"),
    [
        (NotDeterministic, "same task and random seed gave different embeddings"),
        (NotFinite, "not all finite"),
        (OmitsAnEntity, "the source has 80 entities"),
        (LearnsNothing, "of the planted alignment"),
        (DependsOnTheOrderOfTriples, "the order of triples changed the embeddings"),
        (UsesTheOrderOfIds, "match the entity of the same id"),
        (FailsWithOneSeed, "a task with one seed: IndexError: no second seed"),
        (MixesTasks, "embedded together with other tasks"),
        (KeepsAGradient, "still carry a gradient"),
    ],
)
def test_a_broken_contract_is_named(model_type, message):
    with pytest.raises(AssertionError, match=message):
        check_model(model_type())
