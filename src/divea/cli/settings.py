"""`divea settings`: the effective settings, with one line of explanation each."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from divea.cli.options import Assignments, Config, Preset, checked_settings, given_settings
from divea.cli.terminal import print_json, print_line
from divea.errors import InputError

if TYPE_CHECKING:
    from divea.config import ModelSettings, Settings
    from divea.config.group import Group


def settings(
    run: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="Run whose settings to show.")] = None,
    preset: Preset = None,
    config: Config = None,
    assignments: Assignments = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, which --config reads again.")] = False,
    all_settings: Annotated[
        bool, typer.Option("--all", help="Show settings that are not in use, and the options of every model.")
    ] = False,
    json_schema: Annotated[bool, typer.Option("--json-schema", help="Print the JSON schema.")] = False,
) -> None:
    """Show every setting that is in use: its path, its value and what it does.

    Without RUN, these are the defaults with --preset, --config and --set applied. Most values of null are
    chosen for you when a run starts; `divea settings RUN` shows what was chosen. A threshold of null is none.

    Examples:

        divea settings

        divea settings --preset best

        divea settings --set model.name=rrea

        divea settings --all

        divea settings --json > settings.json

        divea settings run
    """
    from divea.config import Settings

    if json_schema:
        print_json(Settings.model_json_schema())
        return
    given = given_settings(preset, config, assignments, {})
    if run is not None:
        from divea.runs.manifest import Manifest

        if given is not None:
            raise InputError("a run has its settings: leave out --preset, --config and --set")
        found = Manifest.load(run).settings
    else:
        found = checked_settings(given).resolved()
    shown = _with_all_models(found).plain() if all_settings else found.in_use()
    if as_json:
        print_json(shown)
        return
    rows = [
        (path, json.dumps(value), text) for path, value, text in _explained(_with_all_models(found), shown)
    ]
    path_width, value_width = (max(len(row[column]) for row in rows) for column in (0, 1))
    indent = " " * (path_width + value_width + 4)
    # A terminal gets its width, a pipe whole lines.
    width = max(get_terminal_size().columns - len(indent), 40) if sys.stdout.isatty() else 1000
    for path, value, text in rows:
        lines = wrap(text, width) or [""]
        print_line(f"{path:{path_width}}  {value:{value_width}}  {lines[0]}")
        for line in lines[1:]:
            print_line(indent + line)


def _with_all_models(settings: Settings) -> Settings:
    """The settings with the options of every built-in model filled in."""
    from divea.config.models import BUILT_IN_OPTIONS

    def filled(model: ModelSettings) -> ModelSettings:
        options = {name.replace("-", "_"): model.options(name) for name in BUILT_IN_OPTIONS}
        return model.model_copy(update=options)

    models = {"model": filled(settings.model), "last_model": filled(settings.last_model)}
    return settings.model_copy(update=models)


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
