"""Configuration: one validated object that holds every setting of an alignment."""

from divea.config.features import FeatureSettings
from divea.config.models import (
    DualAmnOptions,
    GcnAlignOptions,
    LabelPropagationOptions,
    ModelSettings,
    RreaOptions,
)
from divea.config.settings import PRESETS, DivisionSettings, EvidenceSettings, Settings
from divea.config.sources import combine_settings, parse_assignment, read_settings_file

__all__ = [
    "PRESETS",
    "DivisionSettings",
    "DualAmnOptions",
    "EvidenceSettings",
    "FeatureSettings",
    "GcnAlignOptions",
    "LabelPropagationOptions",
    "ModelSettings",
    "RreaOptions",
    "Settings",
    "combine_settings",
    "parse_assignment",
    "read_settings_file",
]
