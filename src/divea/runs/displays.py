"""Where the progress of a run is shown: a terminal, a notebook, or plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from divea.errors import printable

if TYPE_CHECKING:
    from rich.text import Text

UPDATE_SECONDS = 1.0
"""Seconds between two updates of a notebook; each update sends a message to the browser."""

LiveLine = Callable[[], str]
"""Returns the current state of the run as a line of text."""


class Display(Protocol):
    """Shows lines that stay and, where it can, a live line that changes."""

    def start(self, live: LiveLine) -> None:
        """Begin to show the live line, and keep it moving."""

    def line(self, text: str) -> None:
        """Show a line that stays."""

    def stop(self) -> None:
        """Remove the live line."""


def is_watched() -> bool:
    """Whether somebody sees the progress live: in a notebook, or because stderr is a terminal."""
    return _in_notebook() or _is_terminal()


def choose_display() -> Display:
    """The display for this process: a notebook, a terminal, or plain lines."""
    if _in_notebook():
        return Notebook()
    return Terminal() if _is_terminal() else PlainLines()


def _is_terminal() -> bool:
    # A stream may be missing, closed, or no file at all.
    with suppress(AttributeError, ValueError):
        return sys.stderr.isatty()
    return False


def _in_notebook() -> bool:
    """Whether a Jupyter kernel runs this process. Nothing is imported: a kernel has IPython loaded."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class PlainLines:
    """Prints lines to stderr, because stdout is for results."""

    def start(self, live: LiveLine) -> None:
        """There is no live line."""

    def line(self, text: str) -> None:
        # If nobody can read the lines any more, the work continues.
        with suppress(OSError, ValueError):
            print(printable(text), file=sys.stderr, flush=True)

    def stop(self) -> None:
        """There is no live line."""


class Terminal:
    """A live line on stderr below the lines that stay."""

    def __init__(self) -> None:
        self._live: LiveLine = str
        self._status: Any = None

    def start(self, live: LiveLine) -> None:
        from rich.console import Console

        self._live = live
        # The line is rendered again several times a second, so that its times keep moving.
        self._status = Console(stderr=True).status(self)
        with suppress(OSError):
            self._status.start()

    def line(self, text: str) -> None:
        with suppress(OSError):
            self._status.console.print(printable(text), markup=False, highlight=False)

    def stop(self) -> None:
        with suppress(OSError):
            self._status.stop()

    def __rich__(self) -> Text:
        from rich.text import Text

        return Text(self._live())


class Notebook:
    """An output of a notebook cell that is updated: the lines so far, and the live line below them.

    It is plain text and needs no widgets.
    """

    def __init__(self) -> None:
        self._live: LiveLine = str
        self._lines: list[str] = []
        self._handle: Any = None
        self._is_over = threading.Event()
        self._clock = threading.Thread(target=self._keep_moving, daemon=True)

    def start(self, live: LiveLine) -> None:
        from IPython.display import display

        self._live = live
        self._handle = display(self._content(live()), raw=True, display_id=True)
        self._clock.start()

    def line(self, text: str) -> None:
        self._lines.append(printable(text))

    def stop(self) -> None:
        self._is_over.set()
        self._clock.join()
        self._handle.update(self._content(), raw=True)

    def _keep_moving(self) -> None:
        """Update the output, so that the times of the live line keep moving."""
        while not self._is_over.wait(UPDATE_SECONDS):
            self._handle.update(self._content(self._live()), raw=True)

    def _content(self, *live: str) -> dict[str, str]:
        return {"text/plain": "\n".join([*self._lines, *map(printable, live)])}
