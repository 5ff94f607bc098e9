"""The Python interface: `divea.align` and the alignment that it returns."""

from divea.api.aligning import align
from divea.api.alignment import Alignment

__all__ = ["Alignment", "align"]
