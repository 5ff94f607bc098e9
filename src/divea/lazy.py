"""Names that a package exports but imports only when they are first used.

`import divea` and commands such as `divea info` stay quick because torch is loaded by the first name that
needs it, not by the package that exports the name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make the `__getattr__` and `__dir__` of a package.

    Parameters
    ----------
    package
        The package's `__name__`.
    modules
        Exported name -> the module that defines it.

    Examples
    --------
    >>> load, names = lazy_exports("divea", {"InputError": "divea.errors"})
    >>> load("InputError").__name__, names()
    ('InputError', ['InputError'])
    """

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return load, lambda: sorted(modules)
