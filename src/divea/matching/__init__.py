"""Matching: from embeddings to each source entity's best targets, within a memory budget."""

from divea.matching.embeddings import Embeddings
from divea.matching.matches import Matches
from divea.matching.methods import METHODS, match
from divea.matching.one_to_one import one_to_one
from divea.matching.similarity import MEMORY_BUDGET

__all__ = ["MEMORY_BUDGET", "METHODS", "Embeddings", "Matches", "match", "one_to_one"]
