"""Reads YAML that somebody else wrote: without aliases, which let a few bytes stand for gigabytes."""

from __future__ import annotations

from typing import Any


def parse_yaml(text: str, *, typed: bool) -> Any:
    """The value of a YAML text.

    Raises ValueError if the text is not valid YAML, contains aliases or is nested too deeply.

    Parameters
    ----------
    typed
        Read numbers, dates and truth values as such; otherwise every scalar is text.

    Examples
    --------
    >>> parse_yaml("steps: 60", typed=True), parse_yaml("no: 2024-13-45", typed=False)
    ({'steps': 60}, {'no': '2024-13-45'})
    """
    import yaml

    class Loader(yaml.SafeLoader if typed else yaml.BaseLoader):  # type: ignore[misc]
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise ValueError("aliases (*name) are not supported")
            return super().compose_node(parent, index)

    try:
        # Both loaders make plain values only.
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
