"""The promises of a model as executable checks, for ours and for anybody's."""

from __future__ import annotations

from divea.models.interface import Model


def check_model(model: Model) -> None:
    """Placeholder."""
