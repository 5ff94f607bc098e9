"""Matching: ranked targets for each source entity from embeddings, within a memory budget."""

from divea.matching.methods import METHODS, match
from divea.matching.one_to_one import one_to_one

__all__ = ["METHODS", "match", "one_to_one"]
