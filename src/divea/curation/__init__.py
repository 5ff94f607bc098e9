"""Curation: what people should judge or label next, as sheets that they fill in."""

from divea.curation.review import review
from divea.curation.suggest import suggest

__all__ = ["review", "suggest"]
