"""Models with few steps or small widths, for tests that embed many tasks."""

from divea.config import ModelSettings
from divea.models import Model, make_model


def small_model(name: str, **options: object) -> Model:
    """A built-in model with some of its options changed."""
    return make_model(ModelSettings.checked({"name": name, name: options}))
