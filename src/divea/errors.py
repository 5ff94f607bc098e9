"""The exception for wrong input; any other exception that reaches the user is a bug in divea."""

from __future__ import annotations

from pathlib import Path


class InputError(Exception):
    """Input that cannot be used: the message says what is wrong, where, and what is allowed.

    The command line prints the message as one line and exits with code 2.

    Parameters
    ----------
    message
        What is wrong. Line breaks, which may come from text that a parser quotes, are escaped.
    path
        The file or folder that the message is about; it starts the message.
    line
        The line of the file, counted from 1.

    Examples
    --------
    >>> str(InputError("expected 3 columns, found 2", path="triples.tsv", line=7))
    'triples.tsv:7: expected 3 columns, found 2'
    """

    def __init__(self, message: str, *, path: str | Path | None = None, line: int | None = None):
        self.path = path
        self.line = line
        where = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        super().__init__(where + "\\n".join(message.splitlines()))
