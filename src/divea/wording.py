"""Words of messages that differ between the command and Python, such as options and arguments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_reader = "python"
"""The words that messages of this process use: "command" for users of `divea`, "python" for all others."""


def worded(*, command: str, python: str) -> str:
    """The words for whoever reads the messages of this process.

    Every option, and every `divea` command, that a message below the command line mentions is an argument of
    this function.

    Parameters
    ----------
    command
        For users of the `divea` command.
    python
        For users of the library.

    Examples
    --------
    >>> worded(command="--subtasks divides", python="subtasks= divides")
    'subtasks= divides'
    >>> with command_line():
    ...     worded(command="--subtasks divides", python="subtasks= divides")
    '--subtasks divides'
    """
    return command if _reader == "command" else python


@contextmanager
def command_line() -> Iterator[None]:
    """Word messages for users of the `divea` command while the block runs, in all threads."""
    global _reader
    before, _reader = _reader, "command"
    try:
        yield
    finally:
        _reader = before
