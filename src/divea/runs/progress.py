"""The progress of a run: its events as lines, and a live line where the display can show one."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from divea.runs.displays import Display, PlainLines
from divea.runs.eta import Eta

MOST_STEPS = 2
"""The most subtasks whose training steps fit into the live line."""


class Progress:
    """Listens to the events of a run and shows them.

    Parameters
    ----------
    display
        Where to show them; plain lines on stderr by default.
    verbose
        Show a line for every solved subtask and every stage, too.
    """

    def __init__(self, display: Display | None = None, verbose: bool = False):
        self._display = PlainLines() if display is None else display
        self._verbose = verbose
        self._eta = Eta()
        self._stage = "opening the run"
        self._pseudo_seeds = 0
        self._steps: dict[int, str] = {}
        """The training progress of each job that is being solved, by its first subtask."""

    def __enter__(self) -> Progress:
        self._display.start(self.live_line)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._display.stop()

    def __call__(self, event: str, **facts: Any) -> None:
        self._eta.observe(event, facts, time.time())
        handler = getattr(self, f"_on_{event.replace(' ', '_')}", None)
        if handler is not None:
            handler(**facts)

    def _on_started(self, **facts: Any) -> None:
        self._stage = "dividing"

    def _on_iteration(self, subtasks: int, solved_before: int, **facts: Any) -> None:
        before = f", {solved_before} solved before" if solved_before else ""
        self._line(f"{self._iteration()}: {subtasks} {'subtask' if subtasks == 1 else 'subtasks'}{before}")
        self._stage = "solving"
        self._steps = {}

    def _on_steps(self, subtasks: list[int], done: int, all: int) -> None:
        first, last = subtasks[0], subtasks[-1]
        which = f"subtask {first}" if first == last else f"subtasks {first} to {last}"
        self._steps[first] = f"{which}: step {done} of {all}"

    def _on_solved(self, subtasks: list[int], seconds: float, **facts: Any) -> None:
        self._steps.pop(subtasks[0], None)
        if self._verbose:
            names = ", ".join(str(index) for index in subtasks)
            counted = f"{self._eta.done} of {self._eta.subtasks}"
            times = "; ".join(self._times())
            self._line(f"subtask {names} solved in {seconds:.1f} s ({counted}); {times}")

    def _on_features(self, weights: dict[str, float], **facts: Any) -> None:
        if self._verbose:
            self._line("weights of features: " + ", ".join(f"{name} {w:.2f}" for name, w in weights.items()))

    def _on_learned(self, iteration: int, pseudo_seeds: int) -> None:
        self._pseudo_seeds = pseudo_seeds
        if iteration + 1 < self._eta.iterations:
            self._line(f"iteration {iteration + 1}: {pseudo_seeds} pseudo-seeds")
            self._stage = "dividing"
        else:
            self._stage = "writing"

    def _on_note(self, text: str) -> None:
        self._line(f"note: {text}")

    def _on_failed(self, iteration: int, subtasks: list[int], reason: str, **facts: Any) -> None:
        self._steps.pop(subtasks[0], None)
        self._line(f"iteration {iteration + 1}: subtasks {subtasks} failed: {reason}")

    def _on_stage(self, stage: str, iteration: int, seconds: float, peak_memory: int, **facts: Any) -> None:
        if stage == "solve":
            self._stage = "dividing"
        if self._verbose:
            peak = peak_memory / 2**30
            self._line(f"iteration {iteration + 1}: {stage} took {seconds:.1f} s, peak memory {peak:.2f} GiB")

    def _on_finished_before(self) -> None:
        self._line("this run is finished")

    def _line(self, text: str) -> None:
        self._display.line(text)

    def live_line(self) -> str:
        """How far the run is, and how long it has taken and will take."""
        eta = self._eta
        if eta.began is None:
            return self._stage
        parts = [self._iteration()]
        if self._stage == "solving":
            parts.append(f"{eta.done} of {eta.subtasks} subtasks")
        parts.append(f"{self._pseudo_seeds} pseudo-seeds")
        parts.append(f"{self._stage} for {clock(time.time() - eta.since)}")
        if self._stage == "solving":
            # The line is rendered in another thread than the one that events come from.
            parts += [text for _, text in sorted(self._steps.copy().items())[:MOST_STEPS]]
        return "; ".join([", ".join(parts), *self._times()])

    def _iteration(self) -> str:
        eta = self._eta
        fold = f"cross-validation {eta.fold} of {eta.folds}, " if eta.fold else ""
        return f"{fold}iteration {eta.iteration + 1} of {eta.iterations}"

    def _times(self) -> list[str]:
        now = time.time()
        times = [f"{clock(now - (self._eta.began or now))} so far"]
        left = self._eta.seconds_left(now)
        return times if left is None else [*times, f"about {clock(left)} left"]


def clock(seconds: float) -> str:
    """Seconds as people read them.

    >>> clock(41), clock(3723)
    ('0:41', '1:02:03')
    """
    minutes, rest = divmod(max(round(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
