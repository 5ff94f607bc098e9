"""Models: they turn two graphs and their seeds into embeddings that matching can compare."""

from divea.models.base import Model, embed_all, make_model
from divea.models.check import check_model

__all__ = ["Model", "check_model", "embed_all", "make_model"]
