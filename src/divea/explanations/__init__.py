"""Explanations: why two entities were matched, or why an entity has no match, from what a run kept."""

from divea.explanations.explain import Explanation, explain

__all__ = ["Explanation", "explain"]
