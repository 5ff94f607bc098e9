"""`divea check`: verifies all files of a run or a task."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from divea.cli.terminal import print_json, print_line
from divea.errors import InputError

if TYPE_CHECKING:
    from divea.runs.check import Finding


def check(
    folder: Annotated[Path, typer.Argument(help="Run directory, or task folder of any layout.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check every file of a run or of a task, and change nothing.

    In a run, these are the manifest, the graphs and seeds, and every committed result and table: checksums,
    ids, ranks and shapes. A task folder is read, with all checks that reading makes. The exit code is 2 if
    anything is damaged. The command that made a run repairs it.

    Examples:

        divea check run

        divea check pair/task --json
    """
    from divea.runs.layout import is_run

    findings = list(_run_findings(folder) if is_run(folder) else _task_findings(folder))
    if as_json:
        print_json([vars(finding) for finding in findings])
    else:
        for finding in findings:
            print_line(f"{'ok     ' if finding.is_valid else 'DAMAGED'} {finding.file}: {finding.detail}")
    damaged = [finding.file for finding in findings if not finding.is_valid]
    if damaged:
        raise InputError(f"{len(damaged)} of {len(findings)} checks failed", path=folder)


def _run_findings(folder: Path) -> Iterable[Finding]:
    from divea.runs.check import check_run

    return check_run(folder)


def _task_findings(folder: Path) -> Iterable[Finding]:
    from divea.formats import read_task
    from divea.runs.check import Finding

    task = read_task(folder)
    yield Finding("source", True, str(task.source))
    yield Finding("target", True, str(task.target))
    yield Finding("seeds", True, f"{len(task.seeds)} pairs")
