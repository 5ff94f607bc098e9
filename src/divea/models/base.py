"""The interface of a model, and how models are made from settings and applied to many tasks.

A model turns two graphs and their seeds into entity embeddings. It sees no test links, no division and no
files.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from pydantic import TypeAdapter, ValidationError

from divea.config import ModelSettings
from divea.errors import InputError
from divea.graphs import AlignmentTask
from divea.registry import MODELS
from divea.resources.budget import pack
from divea.types import Embeddings


class Model(ABC):
    """Embeds the entities of both graphs so that matching entities have similar vectors.

    A subclass implements `embed`; `divea.models.check_model` checks that it meets the contract that the
    rest of divea relies on. A model keeps no state between calls: the same task, random seed and device
    give the same embeddings.

    Examples
    --------
    A model that embeds an entity by its number of triples. It runs, but does not meet the contract,
    because it learns nothing from the seeds.

    >>> import numpy as np
    >>> import torch
    >>> from divea.graphs.planted import planted_pair
    >>> class Degree(Model):
    ...     def embed(self, task, *, random_seed=0, device="cpu"):
    ...         return Embeddings(*(
    ...             torch.from_numpy(graph.adjacency.sum(axis=1).astype(np.float32))[:, None].to(device)
    ...             for graph in (task.source, task.target)
    ...         ))
    >>> Degree().embed(planted_pair().task)
    Embeddings(80 + 80 entities, 1 dimensions)
    """

    options_type: ClassVar[type[Any] | None] = None
    """The class of the constructor's only argument, a dataclass or a pydantic model with a default for every
    field; None for a model without options."""

    in_threads: tuple[str, ...] = ()
    """The devices on which several threads of a process may embed at once, with the same results as one by
    one. Models that train must not do so on a GPU: they allow TF32 for the whole process."""

    @abstractmethod
    def embed(self, task: AlignmentTask, *, random_seed: int = 0, device: str = "cpu") -> Embeddings:
        """Embed every entity of the task's two graphs, in id order, on `device`."""

    def embed_many(
        self, tasks: Sequence[AlignmentTask], *, random_seeds: Sequence[int], device: str = "cpu"
    ) -> list[Embeddings]:
        """Embed several tasks, with one random seed each and the same result as one by one.

        A model may override this to stack the tasks, which is faster on a GPU.
        """
        return [
            self.embed(task, random_seed=random_seed, device=device)
            for task, random_seed in zip(tasks, random_seeds, strict=True)
        ]

    def memory(self, task: AlignmentTask) -> int:
        """A rough estimate of the peak memory that embedding this task needs, in bytes; 0 if unknown.

        Tasks are stacked while the sum of their estimates stays within a budget. Tasks with an unknown need
        are embedded one at a time.
        """
        return 0


def embed_all(
    model: Model,
    tasks: Sequence[AlignmentTask],
    *,
    random_seeds: Sequence[int],
    device: str = "cpu",
    memory: int = 4 << 30,
) -> Iterator[Embeddings]:
    """The embeddings of each task, in order, with the same result as `model.embed` one by one.

    Parameters
    ----------
    random_seeds
        One per task.
    memory
        Bytes. Consecutive tasks are embedded together while the sum of their `model.memory` is at most
        this.

    Examples
    --------
    >>> from divea.graphs.planted import planted_pair
    >>> tasks = [planted_pair(entities=entities).task for entities in (40, 50)]
    >>> model = make_model(ModelSettings(name="label-propagation"))
    >>> list(embed_all(model, tasks, random_seeds=[0, 1]))
    [Embeddings(40 + 40 entities, 2048 dimensions), Embeddings(50 + 50 entities, 2048 dimensions)]
    """
    for batch in pack([model.memory(task) for task in tasks], memory):
        positions = slice(batch.start, batch.stop)
        yield from model.embed_many(tasks[positions], random_seeds=random_seeds[positions], device=device)


def run_in_threads(models: Iterable[ModelSettings], device: str) -> bool:
    """Whether all models may embed in several threads of a process at once.

    >>> [run_in_threads([ModelSettings(name="rrea")], device) for device in ("cpu", "cuda")]
    [True, False]
    """
    different = {id(model): model for model in models}
    return all(device in make_model(model).in_threads for model in different.values())


def make_model(settings: ModelSettings) -> Model:
    """The model that the settings name, with its options; several names joined by + make an ensemble.

    Examples
    --------
    >>> make_model(ModelSettings(name="rrea")).options.steps
    1200
    >>> make_model(ModelSettings.checked({"name": "rrea", "rrea": {"steps": 60}})).options.steps
    60
    >>> len(make_model(ModelSettings(name="label-propagation+rrea")).models)
    2
    """
    models = [
        _make_single(name, settings.options(name), f"{settings.group}.{name}") for name in settings.names
    ]
    if len(models) == 1:
        return models[0]
    from divea.models.ensemble import Ensemble

    return Ensemble(models)


def _make_single(name: str, options: Any, path: str) -> Model:
    """The built-in or plug-in model with this name."""
    model_type: type[Model] = MODELS.load(name)
    if not (isinstance(model_type, type) and issubclass(model_type, Model)):
        raise InputError(f"the plug-in model {name!r} is not a divea.models.Model")
    if model_type.options_type is None:
        if options:
            raise InputError(f"{path}: this model has no options")
        return model_type()
    return model_type(_checked_options(path, model_type.options_type, options))  # type: ignore[call-arg]


def _checked_options(path: str, options_type: type[Any], options: Any) -> Any:
    """The options as an instance of the model's own class.

    The settings have checked the options of built-in models already. Those of a plug-in are plain values,
    which its own class checks here.
    """
    if isinstance(options, options_type):
        return options
    known = list(TypeAdapter(options_type).json_schema().get("properties", {}))
    for option in options:
        if option not in known:
            raise InputError(f"{path}.{option}: unknown setting; {path} has {', '.join(known)}")
    try:
        # From JSON, because strict validation of Python values accepts only instances of a dataclass.
        return TypeAdapter(options_type).validate_json(json.dumps(options), strict=True)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join([path, *map(str, problem["loc"])])
        raise InputError(f"{where}: {problem['msg']}; found {problem['input']!r}") from None
