"""Features: names, attribute values, propagation over the whole graphs, and vectors made elsewhere."""

from divea.features.base import Feature, make_features

__all__ = ["Feature", "make_features"]
