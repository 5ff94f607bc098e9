"""What a model is: two graphs and seeds in, entity embeddings out, nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from pydantic import TypeAdapter, ValidationError

from divea.config import ModelSettings
from divea.errors import InputError
from divea.graphs import AlignmentTask
from divea.registry import MODELS
from divea.resources.budget import pack
from divea.types import Embeddings


class Model(ABC):
    """Embeds the entities of both graphs so that matching entities come to lie close together.

    A subclass implements `embed`. `divea.models.check_model` checks the promises that the rest of divea
    relies on. Nothing is kept between calls: the same task, random seed and device give the same
    embeddings."""

    options_type: ClassVar[type[Any] | None] = None
    """The class of the constructor's only argument, a dataclass or a pydantic model with defaults for all
    fields; None for a model without options."""

    @abstractmethod
    def embed(self, task: AlignmentTask, *, random_seed: int = 0, device: str = "cpu") -> Embeddings:
        """Embed every entity of the task's two graphs, in id order, on `device`."""

    def embed_many(
        self, tasks: Sequence[AlignmentTask], *, random_seeds: Sequence[int], device: str = "cpu"
    ) -> list[Embeddings]:
        """Embed several tasks, with the same result as one by one; a model may stack them for speed."""
        return [
            self.embed(task, random_seed=random_seed, device=device)
            for task, random_seed in zip(tasks, random_seeds, strict=True)
        ]

    def memory(self, task: AlignmentTask) -> int:
        """A rough estimate of the peak memory that embedding this task takes, in bytes; 0 if unknown.

        Tasks are stacked while their sum stays within a budget. Tasks of unknown need run one at a time.
        """
        return 0


def make_model(settings: ModelSettings) -> Model:
    """The model that the settings name, with its options; several names make an ensemble.

    >>> make_model(ModelSettings(name="rrea")).options.steps
    1200
    """
    models = [_single(name, settings.options(name)) for name in settings.names]
    if len(models) == 1:
        return models[0]
    from divea.models.ensemble import Ensemble

    return Ensemble(models)


def _single(name: str, options: Any) -> Model:
    model: type[Model] = MODELS.load(name)
    if not (isinstance(model, type) and issubclass(model, Model)):
        raise InputError(f"the plug-in model {name!r} is not a divea.models.Model")
    if model.options_type is None:
        if options:
            raise InputError(f"model.{name}: this model has no options")
        return model()
    return model(_checked(name, model.options_type, options))  # type: ignore[call-arg]


def _checked(name: str, kind: type[Any], options: Any) -> Any:
    """The options of a plug-in, checked by its own class; those of built-in models have been checked."""
    if isinstance(options, kind):
        return options
    known = list(TypeAdapter(kind).json_schema().get("properties", {}))
    for option in options:
        if option not in known:
            raise InputError(f"model.{name}.{option}: unknown setting; model.{name} has {', '.join(known)}")
    try:
        return TypeAdapter(kind).validate_python(options, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(["model", name, *map(str, first["loc"])])
        raise InputError(f"{path}: {first['msg']}; found {first['input']!r}") from None


def embed_all(
    model: Model,
    tasks: Sequence[AlignmentTask],
    *,
    random_seeds: Sequence[int],
    device: str = "cpu",
    memory: int = 4 << 30,
) -> Iterator[Embeddings]:
    """The embeddings of each task, in order, with the same result as `model.embed` one by one.

    Consecutive tasks are embedded together while their estimated need stays within `memory` bytes.
    """
    for batch in pack([model.memory(task) for task in tasks], memory):
        rows = slice(batch.start, batch.stop)
        yield from model.embed_many(tasks[rows], random_seeds=random_seeds[rows], device=device)
