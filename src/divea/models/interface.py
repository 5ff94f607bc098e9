"""What a model is: two graphs and seeds in, entity embeddings out, nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from divea.graphs import AlignmentTask

if TYPE_CHECKING:
    from divea.matching import Embeddings


class Model(ABC):
    """Embeds the entities of both graphs so that matching entities come to lie close together.

    A subclass implements `embed`; `divea.models.check_model` says whether it keeps the promises
    that the rest of divea relies on. Nothing is kept between calls: the same task, seed and
    device give the same embeddings.
    """

    options_type: ClassVar[type[Any] | None] = None
    """A dataclass of options, all with defaults, which the constructor takes one of; None for none."""

    @abstractmethod
    def embed(self, task: AlignmentTask, *, seed: int = 0, device: str = "cpu") -> Embeddings:
        """Embeddings of every entity of the task's two graphs, in id order, on `device`."""

    def embed_many(
        self, tasks: Sequence[AlignmentTask], *, seeds: Sequence[int], device: str = "cpu"
    ) -> list[Embeddings]:
        """Embeddings of several tasks, the same as one by one; a model may do them in one go."""
        return [self.embed(task, seed=seed, device=device) for task, seed in zip(tasks, seeds, strict=True)]

    def memory(self, task: AlignmentTask) -> int:
        """Bytes that embedding this task takes at its peak, roughly; 0 if the model cannot say.

        Tasks are done together while their sum stays within a budget; a model that cannot say
        gets them one at a time.
        """
        return 0
