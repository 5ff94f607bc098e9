"""Explanations: why two entities were matched, or why an entity has no match, from what a run kept."""

from divea.explanations.explain import explain
from divea.explanations.explanation import Explanation

__all__ = ["Explanation", "explain"]
