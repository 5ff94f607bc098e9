"""Models: what turns two graphs and their seeds into embeddings that matching can compare."""

from divea.models.batching import embed_all
from divea.models.contract import check_model
from divea.models.interface import Model
from divea.models.resolver import model_names, resolve_model

__all__ = ["Model", "check_model", "embed_all", "model_names", "resolve_model"]
