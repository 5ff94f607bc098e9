"""`divea settings`: the effective settings, with one line of explanation each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from divea.cli.options import Assignments, Config, Preset, checked_settings, given_settings
from divea.errors import InputError

if TYPE_CHECKING:
    from divea.config.group import Group


def settings(
    run: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="Run whose settings to show.")] = None,
    preset: Preset = None,
    config: Config = None,
    assignments: Assignments = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, which --config reads again.")] = False,
    json_schema: Annotated[bool, typer.Option("--json-schema", help="Print the JSON schema.")] = False,
) -> None:
    """Show every setting that is in use: its path, its value and what it does.

    Without RUN, these are the defaults with --preset, --config and --set applied. A value of null is chosen
    for you when a run starts; `divea settings RUN` shows what was chosen.

    Examples:

        divea settings

        divea settings --preset best --set model.name=rrea

        divea settings --json > settings.json

        divea settings run
    """
    from divea.config import Settings

    if json_schema:
        typer.echo(json.dumps(Settings.model_json_schema(), indent=2))
        return
    given = given_settings(preset, config, assignments, {})
    if run is not None:
        from divea.runs.manifest import Manifest

        if given is not None:
            raise InputError("a run has its settings: leave out --preset, --config and --set")
        found = Manifest.load(run).settings
    else:
        found = checked_settings(given).resolved()
    if as_json:
        typer.echo(json.dumps(found.in_use(), indent=2))
        return
    rows = [(path, json.dumps(value), text) for path, value, text in _explained(found, found.in_use())]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for path, value, text in rows:
        typer.echo(f"{path:{widths[0]}}  {value:{widths[1]}}  {text}")


def _explained(group: Group, shown: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    """Path, value and one line of explanation of every setting that is shown."""
    from divea.config.group import Group, public_name

    names = {public_name(type(group), field): field for field in type(group).model_fields}
    for name, value in shown.items():
        field = names.get(name)
        inner = getattr(group, field) if field is not None else None
        if isinstance(inner, Group):
            yield from _explained(inner, value, f"{prefix}{name}.")
        elif field is not None:
            about = type(group).model_fields[field].description or ""
            yield prefix + name, value, about.partition("\n")[0]
        else:
            for option, given in value.items():
                yield f"{prefix}{name}.{option}", given, "Option of a plug-in model."
