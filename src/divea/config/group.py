"""The base of every group of settings: immutable, strictly typed, without unknown names.

pydantic checks the values. Compared with msgspec (docs/notes/configuration.md): it imports .1 s slower,
which only commands that read settings pay, but it reads descriptions from the docstrings below the fields,
remembers which fields were given, and lets a plug-in's options be checked by the plug-in's own class."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

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


_TYPES = {
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "boolean": "true or false",
    "object": "a group of settings",
    "array": "a list",
    "null": "null",
}


def one_line(error: ValidationError, group: type[BaseModel]) -> str:
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
    if problem["type"] in ("value_error", "assertion_error"):
        text = str(problem["ctx"]["error"])
        return f"{'.'.join(path)}: {text}" if path else text
    if problem["type"] == "extra_forbidden":
        return _unknown(path, schema)
    node = _node(schema, path)
    expected = allowed(node, schema) if node is not None else problem["msg"]
    return f"{'.'.join(path) or 'settings'}: expected {expected}; found {_shown(problem['input'])}"


def _unknown(path: list[str], schema: dict[str, Any]) -> str:
    known = list((_node(schema, path[:-1]) or {}).get("properties", {}))
    elsewhere = [found for found in _paths(schema, schema) if found.endswith(f".{path[-1]}")]
    close = get_close_matches(path[-1], known, n=1) or elsewhere[:1]
    hint = f"did you mean {close[0]!r}? " if close else ""
    group = f"{'.'.join(path[:-1])} has" if len(path) > 1 else "there are"
    return f"{'.'.join(path)}: unknown setting; {hint}{group} {', '.join(known)}"


def _paths(node: dict[str, Any], schema: dict[str, Any], prefix: str = "") -> list[str]:
    """The paths of all settings below a schema node."""
    paths = []
    for name, child in resolved(node, schema).get("properties", {}).items():
        paths += [prefix + name, *_paths(child, schema, f"{prefix}{name}.")]
    return paths


def _node(schema: dict[str, Any], path: list[str]) -> dict[str, Any] | None:
    """The part of a JSON schema that describes the setting at this path."""
    node: dict[str, Any] = schema
    for name in path:
        found = resolved(node, schema).get("properties", {}).get(name)
        if found is None:
            # The branch of a union, which pydantic puts into the path, is no name of ours.
            continue
        node = found
    return resolved(node, schema)


def resolved(node: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """A schema node with its reference followed; `X or null` counts as X."""
    while True:
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        elif (branches := [b for b in node.get("anyOf", []) if "$ref" in b]) and "properties" not in node:
            node = branches[0]
        else:
            return node


def allowed(node: dict[str, Any], schema: dict[str, Any]) -> str:
    """What a setting may be, in words.

    >>> allowed({"type": "integer", "minimum": 1}, {})
    'an integer, at least 1'
    """
    if "anyOf" in node:
        return ", or ".join(allowed(resolved(branch, schema), schema) for branch in node["anyOf"])
    if "const" in node:
        return repr(node["const"])
    if "enum" in node:
        return f"one of {', '.join(map(repr, node['enum']))}"
    words = [_TYPES.get(node.get("type", ""), "another value")]
    if "minimum" in node and "maximum" in node:
        return f"{words[0]} from {node['minimum']} to {node['maximum']}"
    for key, phrase in (
        ("minimum", "at least"),
        ("exclusiveMinimum", "above"),
        ("maximum", "at most"),
        ("exclusiveMaximum", "below"),
    ):
        if key in node:
            words.append(f"{phrase} {node[key]}")
    return ", ".join(words)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


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


def public_name(group: type[BaseModel], field: str) -> str:
    """The name of a field in files, paths and messages, where `-` may stand for the `_` of Python."""
    about = group.model_fields.get(field)
    return field if about is None or about.serialization_alias is None else about.serialization_alias


class NamedGroup(Group):
    """A group whose first field chooses a component: the bare name may stand for the whole group."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, values: Any) -> Any:
        return {next(iter(cls.model_fields)): values} if isinstance(values, str) else values
