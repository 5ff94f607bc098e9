"""The exceptions that a user sees: wrong input and its special kinds. Any other exception is a bug."""

from __future__ import annotations

import re
from pathlib import Path

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, line ends, changes of writing direction, and bytes of a path that are not UTF-8."""


def printable(text: object) -> str:
    r"""The text, with escapes for characters that would control the terminal or cannot be printed.

    Examples
    --------
    >>> printable("a\x1b[2Jb\n")
    'a\\x1b[2Jb\\n'
    """
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


class InputError(Exception):
    """Input that cannot be used: the message says what is wrong, where, and what is allowed.

    The command line prints the message as one line and exits with code 2.

    Parameters
    ----------
    message
        What is wrong. It may quote text of a file or an option: `printable` escapes it.
    path
        The file or folder that the message is about; it starts the message.
    line
        The line of the file, counted from 1.

    Examples
    --------
    >>> str(InputError("expected 3 columns, found 2", path="triples.tsv", line=7))
    'triples.tsv:7: expected 3 columns, found 2'
    """

    exit_code = 2

    def __init__(self, message: str, *, path: str | Path | None = None, line: int | None = None):
        self.message = message
        self.path = path
        self.line = line
        where = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        super().__init__(printable(where + message))


class SubtaskError(InputError):
    """Subtasks that could not be solved, or work on the ranked lists that was lost in every try.

    The message has the first reason.

    The command line exits with code 3. The run can be continued.
    """

    exit_code = 3


class CalibrationError(InputError):
    """A threshold that cannot be kept, because too little is known about how often pairs are correct.

    The command line exits with code 4, and no mappings are written.
    """

    exit_code = 4
