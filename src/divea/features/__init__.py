"""Features: names, attribute values, propagation over the whole graphs, and vectors made elsewhere."""

from divea.features.base import Feature, make_features
from divea.features.check import check_feature

__all__ = ["Feature", "check_feature", "make_features"]
