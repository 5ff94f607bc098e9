"""Models embed the entities of two graphs, given their seeds, so that matching can compare them."""

from divea.models.base import Model, embed_all, make_model, run_in_threads
from divea.models.check import check_model

__all__ = ["Model", "check_model", "embed_all", "make_model", "run_in_threads"]
