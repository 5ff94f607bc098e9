"""Every setting of an alignment in one object that saves to JSON, so that a run can be made again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from divea.errors import InputError


@dataclass(frozen=True)
class Settings:
    """What decides the result of an alignment, beside the task itself.

    >>> Settings(model="rrea").model
    'rrea'
    """

    subtasks: int = 1
    """N. With 1 the whole graph is one subtask, unless `division` says otherwise."""
    size: int | None = None
    """S, the most entities of a subtask, both graphs together; (source + target) / N if left out."""
    division: str = "joint"
    division_options: dict[str, Any] = field(default_factory=dict)
    """Settings of `divea.division.DivEA`: delta1, delta2, partitioner, locality, beta."""
    model: str = "label-propagation"
    model_options: dict[str, Any] | None = None
    """None for those of `IN_THE_LOOP`, or else the model's own defaults."""
    last_model: str | None = None
    """Another model for the end of the run, trained on the pseudo-seeds of the first one."""
    last_model_options: dict[str, Any] = field(default_factory=dict)
    last_iterations: int = 2
    """How many iterations the last model has. Where confidence is calibrated it needs two, because scores of
    one model say nothing about the scores of another."""
    matching: str = "sinkhorn"
    iterations: int = 3
    average: int = 3
    """Over how many of a model's latest iterations scores are averaged; 1 for the latest alone. Divisions
    differ between iterations, so a pair that one of them separated may have met in another."""
    supervised: bool = False
    """Whether models see the given seeds only. Pseudo-seeds then guide the division alone."""
    threshold: float | None = 0.5
    """Score above which a mutual match becomes a pseudo-seed; None for mutuality alone, the paper's rule.
    .5 fits Sinkhorn's scores, which are weights between 0 and 1."""
    held_back: float = 0.1
    """Share of the seeds that all iterations but the last hide, to calibrate confidence on; 0 for none."""
    one_to_one: bool = True
    """Whether a target that two sources claim goes to the surer one only."""
    min_confidence: float = 0.5
    """Confidence below which a pair is left out of the mappings; it needs `held_back` seeds."""
    precision: float | None = None
    """Share of right pairs that the mappings shall have; it takes the place of `min_confidence`."""
    alpha: float = 0.9
    nearest: int = 10
    """alpha and K of the similarity weight (Eqs. 3-5), which the divisions `divea` and `random` use; K = 0
    for no such weight."""
    top: int = 50
    """Length of the ranked lists."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("subtasks", "iterations", "last_iterations", "average", "top"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("nearest", "seed"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} must not be negative, and is {getattr(self, name)}")
        if not 0 <= self.min_confidence <= 1:
            raise InputError(f"min_confidence is a probability from 0 to 1, not {self.min_confidence}")
        if self.precision is not None and not 0 < self.precision < 1:
            raise InputError(f"precision is a share between 0 and 1, not {self.precision}")
        if not 0 <= self.held_back < 1:
            raise InputError(f"held_back is a share from 0 to below 1, not {self.held_back}")

    @property
    def calibrates(self) -> bool:
        """Whether seeds are held back: it takes an iteration without them and one with them."""
        return self.held_back > 0 and self.iterations > 1

    @property
    def weighs_candidates(self) -> bool:
        """Whether the division asks for similarity weights."""
        return self.nearest > 0 and self.division in ("divea", "random") and self.subtasks > 1

    def model_at(self, iteration: int) -> tuple[str, dict[str, Any]]:
        """Name and options of an iteration's model: the first iteration never has the last one."""
        first_of_last = max(self.iterations - self.last_iterations, 1)
        if self.last_model is not None and iteration >= first_of_last:
            return self.last_model, self.last_model_options
        if self.model_options is None:
            return self.model, IN_THE_LOOP.get(self.model, {})
        return self.model, self.model_options

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Settings:
        """Settings that were found to work: one of `PRESETS`, with these changes.

        >>> Settings.preset("best", seed=3).last_model
        'label-propagation+rrea+dual-amn'
        """
        if name not in PRESETS:
            raise InputError(f"unknown preset {name!r}; choose from {', '.join(PRESETS)}")
        return cls.of({**PRESETS[name], **changes})

    def save(self, path: str | Path) -> None:
        """Write as JSON; `Settings.load` reads it."""
        Path(path).write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def load(cls, path: str | Path, **changes: Any) -> Settings:
        """Read from JSON, with these changes."""
        try:
            found = json.loads(Path(path).read_text())
        except (OSError, ValueError) as error:
            raise InputError(f"cannot be read as JSON: {error}", path=path) from error
        if not isinstance(found, dict):
            raise InputError("holds no settings: expected a JSON object", path=path)
        return cls.of({**found, **changes}, path)

    @classmethod
    def of(cls, values: dict[str, Any], path: object = None) -> Settings:
        """From a dictionary, with an error that names what is unknown or of the wrong kind."""
        known = {item.name: item for item in fields(cls)}
        for name, value in values.items():
            if name not in known:
                raise InputError(
                    f"unknown setting {name!r}; there are {', '.join(known)}",
                    path=None if path is None else str(path),
                )
            _check_kind(name, value, str(known[name].type), path)
        return cls(**values)


IN_THE_LOOP: dict[str, dict[str, Any]] = {
    "label-propagation": {"labels": 512, "heads": 256, "draft_heads": 128, "rounds": 3},
}
"""Options of models where iterations do part of their work: half of label propagation's own widths and
rounds, which docs/alignment.md compares."""

PRESETS: dict[str, dict[str, Any]] = {
    "fast": {},
    "best": {
        "iterations": 7,
        "model_options": {},
        "last_model": "label-propagation+rrea+dual-amn",
        "last_model_options": {
            "label-propagation": {"rounds": 2},
            "rrea": {"loss": "hard", "steps": 60},
            "dual-amn": {"steps": 60},
        },
        "last_iterations": 4,
    },
}
"""`fast` is label propagation alone. `best` goes on with an ensemble of it and two trained models, which
learn from what it found; several points more accurate, and many times slower without a GPU."""

_KINDS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "bool": (bool,),
    "dict[str, Any]": (dict,),
    "None": (type(None),),
}


def _check_kind(name: str, value: object, annotation: str, path: object) -> None:
    allowed = tuple(kind for part in annotation.split(" | ") for kind in _KINDS[part])
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        raise InputError(
            f"the setting {name!r} is {annotation}, not {value!r}", path=None if path is None else str(path)
        )
