"""A text encoder: the names of entities as vectors of a sentence-transformers model (`divea[text]`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from divea.config import FeatureSettings
from divea.errors import InputError
from divea.features.base import Feature
from divea.features.names import NameTable, find_names, same_language_first
from divea.graphs import AlignmentTask, Links
from divea.graphs.features import EntityVectors, all_ids
from divea.graphs.labels import LABEL
from divea.io import checksum, file_checksum, usable_path

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

LONGEST = 1000
"""The most characters of a name that are encoded. Most encoders cut texts off after a few hundred tokens."""

BATCH = 64
"""Texts that are encoded at a time."""

_CHUNK = 1 << 14
"""Texts that are given to the encoder at a time; it keeps their vectors as float32."""

_FILES = ("*.json", "*.txt", "*.model", "*.jinja", "*.safetensors")
"""The files of a model. Weights in other formats may be pickles, which can run code."""

_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)
_HUB_OWNER = "sentence-transformers"

Vectors = npt.NDArray[np.float16]


@dataclass(frozen=True)
class _Texts:
    """The distinct texts of both graphs, and those of each entity: one row per name, sorted by entity."""

    distinct: list[str]
    """Sorted by length, so that the texts of a batch are of about the same length."""
    source: npt.NDArray[np.int64]
    """Rows of entity and text, as the position in `distinct`."""
    target: npt.NDArray[np.int64]


class Encoder(Feature):
    """The similarity of names according to a text encoder, which may know synonyms and translations.

    The vector of an entity is the mean of the unit vectors of its distinct names. Names are found as by the
    feature `names`. The model runs on this machine.

    Parameters
    ----------
    settings
        `encoder.model` is the folder of a sentence-transformers model, or the name of one on the Hugging
        Face hub, from which it is downloaded once. `names` says where names come from.

    Examples
    --------
    >>> Encoder(FeatureSettings())
    Traceback (most recent call last):
    ...
    divea.errors.InputError: features.encoder.model is not set: give the folder of a sentence-transformers \
model, or its name on the Hugging Face hub
    """

    name = "encoder"

    def __init__(self, settings: FeatureSettings):
        if not settings.encoder.model:
            raise InputError(
                "features.encoder.model is not set: give the folder of a sentence-transformers model, or its "
                "name on the Hugging Face hub"
            )
        self.model = settings.encoder.model
        self.names = settings.names

    @classmethod
    def from_settings(cls, settings: FeatureSettings) -> Self:
        return cls(settings)

    def compute(
        self,
        task: AlignmentTask,
        known: Links | None = None,
        *,
        random_seed: int = 0,
        device: str = "cpu",
        memory: int | None = None,
    ) -> EntityVectors | None:
        texts = self._texts(task)
        if texts is None:
            return None
        vectors = _encoded(_load(_model_folder(self.model), device), texts.distinct, self.model)
        source = _means(texts.source, vectors, task.source.num_entities)
        target = _means(texts.target, vectors, task.target.num_entities)
        return EntityVectors(self.name, *all_ids(task), source, target)

    def made_from(self, task: AlignmentTask) -> str:
        """A checksum of the model's files and of all texts, which changes if the vectors may change."""
        folder = _model_folder(self.model)
        files = [path for pattern in _FILES for path in folder.rglob(pattern) if path.is_file()]
        parts: list[str | np.ndarray] = []
        for path in sorted(files):
            parts += [path.relative_to(folder).as_posix(), file_checksum(path) or "cannot be read"]
        texts = self._texts(task)
        if texts is not None:
            # Texts may contain any character, so their lengths separate them.
            lengths = np.array([len(text) for text in texts.distinct], dtype=np.int64)
            parts += [lengths, "".join(texts.distinct), texts.source, texts.target]
        sizes = np.array([task.source.num_entities, task.target.num_entities], dtype=np.int64)
        return checksum(sizes, *parts)

    def _texts(self, task: AlignmentTask) -> _Texts | None:
        """The names of both graphs; None if a graph has none."""
        tables = same_language_first(
            find_names(task.source, self.names.source), find_names(task.target, self.names.target)
        )
        rows, texts = zip(*(_names_of(table) for table in tables), strict=True)
        if not all(map(len, rows)):
            return None
        encoded = pa.concat_arrays(texts).dictionary_encode()
        distinct = encoded.dictionary
        order = pc.sort_indices(
            pa.table({"length": pc.utf8_length(distinct), "text": distinct}),
            [("length", "ascending"), ("text", "ascending")],
        ).to_numpy()
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        place = place[encoded.indices.to_numpy()]
        source, target = (
            # An entity may have the same name twice, for example in two languages.
            np.unique(np.stack([entities, part], axis=1), axis=0)
            for entities, part in zip(rows, np.split(place, [len(rows[0])]), strict=True)
        )
        return _Texts(distinct.take(pa.array(order)).to_pylist(), source, target)


def _names_of(table: NameTable) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """The entity and the text of each name, without empty ones."""
    texts = pc.utf8_trim_whitespace(pc.utf8_slice_codeunits(table.texts.cast(LABEL), 0, LONGEST))
    is_text = np.asarray(pc.not_equal(texts, ""))
    return table.entities[is_text].astype(np.int64), texts.filter(pa.array(is_text))


def _means(rows: npt.NDArray[np.int64], vectors: Vectors, entities: int) -> Vectors:
    """The mean vector of each entity; zeros for one without a name."""
    found = np.zeros((entities, vectors.shape[1]), np.float16)
    for first in range(0, entities, _CHUNK):
        last = min(first + _CHUNK, entities)
        start, end = np.searchsorted(rows[:, 0], [first, last])
        if start == end:
            continue
        entity, starts, counts = np.unique(rows[start:end, 0], return_index=True, return_counts=True)
        sums = np.add.reduceat(vectors[rows[start:end, 1]].astype(np.float32), starts)
        found[entity] = sums / counts[:, np.newaxis]
    return found


def _encoded(encoder: SentenceTransformer, texts: list[str], model: str) -> Vectors:
    """A vector of length one for each text."""
    blocks = []
    for first in range(0, len(texts), _CHUNK):
        block = np.asarray(
            encoder.encode(
                texts[first : first + _CHUNK],
                batch_size=BATCH,
                show_progress_bar=False,
                convert_to_numpy=True,
                normalize_embeddings=True,
            )
        )
        if block.ndim != 2 or not np.isfinite(block).all():
            raise InputError(f"the model {model!r} does not give a vector of finite numbers for each text")
        blocks.append(block.astype(np.float16))
    return np.concatenate(blocks)


def _model_folder(model: str) -> Path:
    """The folder of a model: the one that is named, or that of a download from the hub.

    Raises InputError if there is none, or if its weights are not in the format safetensors.
    """
    folder = usable_path(model)
    if not folder.is_dir():
        if folder.exists() or not _HUB_NAME.fullmatch(model):
            raise InputError(f"features.encoder.model: no folder {str(folder.absolute())!r}")
        folder = _downloaded(model, folder)
    if next(folder.rglob("*.safetensors"), None) is None:
        raise InputError(
            "is no sentence-transformers model: it has no weights in a .safetensors file", path=folder
        )
    return folder


def _downloaded(model: str, tried: Path) -> Path:
    _require_package()
    from huggingface_hub import snapshot_download

    name = model if "/" in model else f"{_HUB_OWNER}/{model}"
    try:
        return Path(snapshot_download(name, allow_patterns=list(_FILES)))
    except Exception as error:
        raise InputError(
            f"features.encoder.model: no folder {str(tried.absolute())!r}, and no model {name!r} from the "
            f"Hugging Face hub ({_one_line(error)})"
        ) from error


def _load(folder: Path, device: str) -> SentenceTransformer:
    _require_package()
    import torch
    from sentence_transformers import SentenceTransformer

    # Weights that are missing in a model, and not used, are drawn at random: make them always the same.
    with _without_progress_bars(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        try:
            return SentenceTransformer(str(folder), device=device, trust_remote_code=False)
        except Exception as error:
            message = f"cannot be loaded as a sentence-transformers model ({_one_line(error)})"
            raise InputError(message, path=folder) from error


def _require_package() -> None:
    try:
        import sentence_transformers  # noqa: F401
    except ImportError as error:
        reason = "" if error.name == "sentence_transformers" else f" ({_one_line(error)})"
        raise InputError(
            "the feature 'encoder' needs the package sentence-transformers: "
            f"pip install 'divea[text]'{reason}"
        ) from error


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Hide the progress bars of transformers while a model is loaded."""
    from transformers.utils import logging

    was_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            logging.enable_progress_bar()


def _one_line(error: Exception) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= 200 else f"{text[:200]} ..."
