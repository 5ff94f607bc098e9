"""The one exception that means "the input is wrong", as opposed to "divea is wrong"."""

from __future__ import annotations

from pathlib import Path


class InputError(Exception):
    """Something the user gave cannot be used; the message says what, where, and what to do.

    The command line prints it as one line and exits with code 2. Any other exception that
    reaches the user is a bug of ours.

    >>> str(InputError("expected 3 columns, found 2", path="triples.tsv", line=7))
    'triples.tsv:7: expected 3 columns, found 2'
    """

    def __init__(self, message: str, *, path: str | Path | None = None, line: int | None = None):
        self.path = path
        self.line = line
        where = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        # Whatever a parser quotes from the file, the message stays one line.
        super().__init__(where + "\\n".join(message.splitlines()))
