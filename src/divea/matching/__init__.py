"""Matching: from embeddings to each source entity's best targets, within a memory budget."""

from divea.matching.methods import METHODS, match
from divea.matching.one_to_one import one_to_one

__all__ = ["METHODS", "match", "one_to_one"]
