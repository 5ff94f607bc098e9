"""The progress of a run: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

import typer


class Progress:
    """Prints the events of a run to stderr, because stdout is for results."""

    def __init__(self, quiet: bool = False, verbose: bool = False):
        self._quiet, self._verbose = quiet, verbose
        self._iterations = self._iteration = self._subtasks = self._done = 0
        self._solved_now, self._solving = 0, 0.0
        self._pseudo_seeds = 0
        self._since = 0.0
        self._live: Any = None

    def __enter__(self) -> Progress:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console

            self._live = Console(stderr=True).status("opening the run")
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, event: str, **facts: Any) -> None:
        if self._quiet:
            return
        handler = getattr(self, f"_on_{event.replace(' ', '_')}", None)
        if handler is not None:
            handler(**facts)

    def _on_started(self, iterations: int, subtasks: int) -> None:
        self._iterations, self._subtasks = iterations, subtasks
        self._show("dividing")

    def _on_iteration(self, iteration: int, subtasks: int, solved_before: int) -> None:
        self._iteration, self._subtasks, self._done = iteration, subtasks, solved_before
        self._since = time.monotonic()
        before = f", {solved_before} solved before" if solved_before else ""
        self._line(f"iteration {iteration + 1} of {self._iterations}: {subtasks} subtasks{before}")
        self._show("solving")

    def _on_solved(self, subtasks: list[int], seconds: float, **facts: Any) -> None:
        now = time.monotonic()
        self._solving += now - self._since
        self._since = now
        self._done += len(subtasks)
        self._solved_now += len(subtasks)
        if self._verbose:
            names = ", ".join(str(index) for index in subtasks)
            self._line(f"subtask {names} solved in {seconds:.1f} s ({self._done} of {self._subtasks})")
        self._show("solving")

    def _on_learned(self, iteration: int, pseudo_seeds: int) -> None:
        self._pseudo_seeds = pseudo_seeds
        if iteration + 1 < self._iterations:
            self._line(f"iteration {iteration + 1}: {pseudo_seeds} pseudo-seeds")
            self._show("dividing")
        else:
            self._show("writing")

    def _on_note(self, text: str) -> None:
        self._line(f"note: {text}")

    def _on_failed(self, iteration: int, subtasks: list[int], log: str) -> None:
        self._line(f"iteration {iteration + 1}: subtasks {subtasks} failed")

    def _on_stage(self, stage: str, iteration: int, seconds: float, peak_memory: int, **facts: Any) -> None:
        if self._verbose:
            peak = peak_memory / 2**30
            self._line(f"iteration {iteration + 1}: {stage} took {seconds:.1f} s, peak memory {peak:.2f} GiB")

    def _on_finished_before(self) -> None:
        self._line("this run is finished")

    def _line(self, text: str) -> None:
        if self._live is None:
            typer.echo(text, err=True)
        else:
            self._live.console.print(text, markup=False, highlight=False)

    def _show(self, stage: str) -> None:
        if self._live is None:
            return
        left = self._iterations * self._subtasks - self._iteration * self._subtasks - self._done
        parts = [
            f"iteration {self._iteration + 1} of {self._iterations}",
            f"{self._done} of {self._subtasks} subtasks",
            f"{self._pseudo_seeds} pseudo-seeds",
            stage,
        ]
        if self._solved_now and left > 0:
            seconds = round(left * self._solving / self._solved_now)
            parts.append(f"about {seconds // 60}:{seconds % 60:02} left")
        self._live.update(", ".join(parts))
