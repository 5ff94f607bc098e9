"""The base of every group of settings: immutable, strictly typed, without unknown names.

pydantic checks the values, and a problem becomes one line that names the setting and what is allowed.
Compared with msgspec (docs/notes/configuration.md), pydantic imports .1 s slower, which only commands that
read settings pay. It reads descriptions from the docstrings below the fields, remembers which fields were
given, and lets a plug-in's options be checked by the plug-in's own class."""

from __future__ import annotations

import json
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from divea.errors import InputError

if TYPE_CHECKING:
    _Checked = BaseModel
else:

    class _GroupType(type(BaseModel)):
        """Turns the validation error of a direct call, `Settings(subtasks=0)`, into one line."""

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            try:
                return super().__call__(*args, **kwargs)
            except ValidationError as error:
                raise InputError(one_line(error, cls)) from None

    class _Checked(BaseModel, metaclass=_GroupType):
        pass


class Group(_Checked):
    """A group of settings. A field whose value is None is chosen for you when the run is prepared."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )
    named: ClassVar[str] = ""
    """What messages call the group, if it is not part of another one."""

    @classmethod
    def checked(cls, values: Any, **context: bool) -> Any:
        """Validate plain values; raises InputError with one line that names the path."""
        try:
            return cls.model_validate(values, context=context)
        except ValidationError as error:
            raise InputError(one_line(error, cls)) from None

    def plain(self) -> dict[str, Any]:
        """All values as plain JSON types."""
        return self.model_dump(mode="json")


class NamedGroup(Group):
    """A group whose first field chooses a component: the bare name may stand for the whole group."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, values: Any) -> Any:
        return {next(iter(cls.model_fields)): values} if isinstance(values, str) else values


def public_name(group: type[BaseModel], field: str) -> str:
    """The name of a field in files, paths and messages, where `-` may stand for the `_` of Python."""
    about = group.model_fields.get(field)
    return field if about is None or about.serialization_alias is None else about.serialization_alias


def one_line(error: ValidationError, group: type[Group]) -> str:
    """The first problem of a validation as one line.

    >>> from divea.config import Settings
    >>> Settings.checked({"subtasks": 0})
    Traceback (most recent call last):
    ...
    divea.errors.InputError: subtasks: expected an integer from 1 to 10000000, or null; found 0
    """
    # The deepest problem says most: a bad value inside a group is also "no such group" one level up.
    problem = max(error.errors(include_url=False), key=lambda found: len(found["loc"]))
    schema = group.model_json_schema()
    path = [str(part) for part in problem["loc"]]
    if problem["type"] == "unknown_option":
        path.append(str(problem["ctx"]["name"]))
    shown = ".".join([group.named, *path] if group.named else path)
    if problem["type"] in ("value_error", "assertion_error"):
        text = str(problem["ctx"]["error"])
        return f"{shown}: {text}" if path else f"{shown}.{text}" if shown else text
    if problem["type"] in ("extra_forbidden", "unknown_option"):
        return f"{shown or repr('')}: {_unknown(path, schema)}"
    node = _node(schema, path)
    return f"{shown or 'settings'}: expected {allowed(node, schema)}; found {shown_value(problem['input'])}"


def allowed(node: dict[str, Any], schema: dict[str, Any]) -> str:
    """What a setting may be, in words, from its part of the JSON schema.

    >>> allowed({"type": "integer", "minimum": 1}, {})
    'an integer, at least 1'
    """
    if "anyOf" in node:
        return ", or ".join(allowed(resolved(branch, schema), schema) for branch in node["anyOf"])
    if "enum" in node:
        return f"one of {', '.join(map(repr, node['enum']))}"
    words = [_TYPES.get(node.get("type", ""), "another value")]
    if "minimum" in node and "maximum" in node:
        return f"{words[0]} from {node['minimum']} to {node['maximum']}"
    for key, phrase in _BOUNDS.items():
        if key in node:
            words.append(f"{phrase} {node[key]}")
    return ", ".join(words)


_TYPES = {
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "boolean": "true or false",
    "object": "a group of settings",
    "array": "a list",
    "null": "null",
}
_BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}


def resolved(node: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """A schema node with its reference followed; of a group or null, the group."""
    while True:
        groups = [branch for branch in node.get("anyOf", []) if "$ref" in branch]
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        elif groups:
            node = groups[0]
        else:
            return node


def _unknown(path: list[str], schema: dict[str, Any]) -> str:
    known = list(_node(schema, path[:-1]).get("properties", {}))
    elsewhere = [found for found in _paths(schema, schema) if found.endswith(f".{path[-1]}")]
    close = elsewhere[:1] or get_close_matches(path[-1], known, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    group = f"{'.'.join(path[:-1])} has" if len(path) > 1 else "there are"
    return f"unknown setting; {hint}{group} {', '.join(known)}"


def _node(schema: dict[str, Any], path: list[str]) -> dict[str, Any]:
    """The part of a JSON schema that describes the setting at this path."""
    node = schema
    for name in path:
        properties = resolved(node, schema).get("properties", {})
        # A path may spell `_` for `-`. pydantic also puts the branch of a union into it, which is no name.
        node = properties.get(name) or properties.get(name.replace("_", "-")) or node
    return resolved(node, schema)


def _paths(node: dict[str, Any], schema: dict[str, Any], prefix: str = "") -> list[str]:
    """The paths of all settings below a schema node."""
    paths = []
    for name, child in resolved(node, schema).get("properties", {}).items():
        paths += [prefix + name, *_paths(child, schema, f"{prefix}{name}.")]
    return paths


def flattened(nested: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by path.

    >>> flattened({"model": {"name": "rrea"}})
    {'model.name': 'rrea'}
    """
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        flat |= flattened(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat


def shown_value(value: object) -> str:
    """A wrong value as a message quotes it, in at most 80 characters."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write an integer of thousands of digits
        return "a number that is far too large"
    return text if len(text) <= 80 else f"{text[:77]}..."
