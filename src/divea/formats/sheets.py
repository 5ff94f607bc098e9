"""Review sheets: tables of pairs that a person judges, and the verdicts that come back.

A sheet is a .tsv or .csv file with a column `verdict`, or an SSSOM file. The verdict of a pair is `accept`,
`reject`, or the label of the target that is the right one; an empty cell is no verdict. In SSSOM, a row with
the predicate modifier `Not` is rejected, and a row that a person signed (a manual justification, or a
reviewer) is accepted.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import TextIOWrapper
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from divea.errors import InputError
from divea.formats.delimited import delimiter_of, write_columns
from divea.formats.mapping_files import mapping_suffix
from divea.formats.output import formula_free, require_spreadsheet
from divea.formats.sniff import kind_of
from divea.formats.sssom import read_judged, sssom_sources, write_sssom
from divea.formats.stream import LONGEST_LINE, open_text
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.io import new_file, usable_path
from divea.types import Ids

ACCEPT, REJECT = "accept", "reject"

SUFFIXES = (".tsv", ".csv", ".sssom.tsv")
"""The suffixes of sheets, before that of a compression."""

HOW_TO = (
    "# verdict: accept, reject, or the right target (one of other_1, other_2, ... or any entity of the "
    "target graph); leave it empty if you do not know"
)
"""The first line of a .tsv or .csv sheet."""

_COLUMNS = ("verdict", "source", "target")


class _Row(NamedTuple):
    """A row of a sheet that has a verdict."""

    line: int
    verdict: str
    source: str
    target: str


@dataclass(frozen=True)
class _Judged:
    """A pair that a person accepted or rejected, in ids."""

    source: int
    target: int
    is_accepted: bool
    path: Path
    line: int


def write_sheet(table: pa.Table, path: str | Path, *, for_spreadsheet: bool = False) -> None:
    """Write a review sheet; the suffix, one of `SUFFIXES`, selects the format.

    Parameters
    ----------
    table
        Pairs with the columns `verdict`, `source` and `target`, and others that help to judge them. An SSSOM
        file has no place for a row without a target.
    for_spreadsheet
        Write an apostrophe before texts that a spreadsheet would take for formulas; `with_verdicts` reads
        such sheets as well.
    """
    path = usable_path(path)
    suffix = sheet_suffix(path)
    if for_spreadsheet:
        require_spreadsheet(path, suffix)
        table = formula_free(table)
    if suffix == ".sssom.tsv" and table["target"].null_count:
        raise InputError("a .sssom.tsv file cannot hold an entity without a target; use .tsv", path=path)
    with new_file(path) as temporary:
        if suffix == ".sssom.tsv":
            write_sssom(table, temporary, for_review=True)
        else:
            write_columns(temporary, table, header=True, top=HOW_TO)


def sheet_suffix(path: Path) -> str:
    """The suffix of `SUFFIXES` that a name has; raises InputError if it has none."""
    try:
        suffix = mapping_suffix(path)
    except InputError:
        suffix = ""
    if suffix not in SUFFIXES:
        raise InputError(f"a sheet is a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file", path=path)
    return suffix


def with_verdicts(task: AlignmentTask, sheets: Iterable[str | Path]) -> AlignmentTask:
    """The task with the verdicts of some sheets: accepted pairs are seeds, and rejected ones are rejected.

    If a verdict names another target, that pair is accepted and the given one rejected. Raises InputError,
    with file and line, for a verdict that cannot be understood, an unknown entity, and verdicts that
    contradict each other or the seeds; and for a sheet without verdicts.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from divea.graphs.planted import planted_pair
    >>> task = planted_pair(seeds=0).task
    >>> with TemporaryDirectory() as folder:
    ...     sheet = Path(folder) / "sheet.csv"
    ...     rows = ["verdict,source,target", "accept,left1,right8", "reject,left3,right4"]
    ...     _ = sheet.write_text("\\n".join(rows))
    ...     reviewed = with_verdicts(task, [sheet])
    >>> len(reviewed.seeds), len(reviewed.rejected)
    (1, 1)
    """
    judged = [item for sheet in sheets for item in _judged(usable_path(sheet), task)]
    _refuse_contradictions(judged, task)
    accepted, rejected = (
        Links.from_pairs([(item.source, item.target) for item in judged if item.is_accepted == wanted])
        for wanted in (True, False)
    )
    return replace(task, seeds=task.seeds.union(accepted), rejected=task.rejected.union(rejected))


def sources_in(sheets: Iterable[str | Path], graph: KnowledgeGraph) -> Ids:
    """The source entities of all rows of some sheets, with or without a verdict."""
    found = [np.zeros(0, dtype=np.int32)]
    for sheet in sheets:
        path = usable_path(sheet)
        is_sssom = kind_of(path) == "sssom"
        texts = sssom_sources(path) if is_sssom else [row.source for row in _read_table(path, judged=False)]
        ids = _find(texts, graph)
        for at in np.flatnonzero(ids < 0)[:1].tolist():
            raise InputError(f"{texts[at][:200]!r} is not an entity of the source graph", path=path)
        found.append(ids)
    return np.unique(np.concatenate(found)).astype(np.int32)


def _judged(path: Path, task: AlignmentTask) -> Iterator[_Judged]:
    """The verdicts of a sheet."""
    is_sssom = kind_of(path) == "sssom"
    rows = [_Row(*row) for row in (read_judged(path) if is_sssom else _read_table(path))]
    if not rows:
        where = "sign rows as a reviewer" if is_sssom else "fill in the column 'verdict'"
        raise InputError(f"has no verdicts: {where}", path=path)
    is_word = [row.verdict.lower() in (ACCEPT, REJECT) for row in rows]
    sources = _find([row.source for row in rows], task.source, path, rows)
    targets = _find([row.target for row in rows], task.target, path, rows)
    named = _find(["" if word else row.verdict for row, word in zip(rows, is_word, strict=True)], task.target)
    for row, word, source, target, other in zip(rows, is_word, sources, targets, named, strict=True):
        _check_row(row, word, int(source), int(target), int(other), path)
        if word:
            yield _Judged(source, target, row.verdict.lower() == ACCEPT, path, row.line)
            continue
        yield _Judged(source, other, True, path, row.line)
        if target not in (-1, other):
            yield _Judged(source, target, False, path, row.line)


def _check_row(row: _Row, is_word: bool, source: int, target: int, named: int, path: Path) -> None:
    """Raise InputError if a verdict or its entities cannot be understood."""
    problem = None
    if source < 0:
        problem = f"{row.source[:200]!r} is not an entity of the source graph"
    elif target < 0 and row.target:
        problem = f"{row.target[:200]!r} is not an entity of the target graph"
    elif is_word and target < 0:
        problem = f"there is no target to {row.verdict.lower()}; name the right target instead"
    elif not is_word and named < 0:
        problem = (
            f"{row.verdict[:200]!r} is neither accept nor reject nor an entity of the target graph; entities "
            "are named as in the columns target and other_1, not by their readable names"
        )
    if problem is not None:
        raise InputError(problem, path=path, line=row.line)


def _find(
    texts: list[str], graph: KnowledgeGraph, path: Path | None = None, rows: Sequence[_Row] = ()
) -> Ids:
    """The id of each cell, -1 for none; quotes and the like that a spreadsheet has added are ignored."""
    found = graph.find(texts)
    for undo in _UNDO:
        again = graph.find([undo(text) for text in texts])
        found = np.where(found < 0, again, found)
    if path is not None:
        # A sheet for spreadsheets writes the label =1 as '=1, which might be another label.
        bare = graph.find([_without_apostrophe(text) for text in texts])
        for at in np.flatnonzero((bare >= 0) & (found >= 0) & (bare != found)).tolist():
            raise InputError(
                f"{texts[at][:200]!r} may be two entities: there is one with the apostrophe and one without",
                path=path,
                line=rows[at].line,
            )
    return found


def _unquoted(text: str) -> str:
    """A cell without the quotes that spreadsheets write around some cells of a .tsv file.

    >>> _unquoted('"say ""hi"", Rome"')
    'say "hi", Rome'
    """
    is_quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return text[1:-1].replace('""', '"') if is_quoted else text


def _without_apostrophe(text: str) -> str:
    return text[1:] if text.startswith("'") else text


_UNDO: tuple[Callable[[str], str], ...] = (
    str.strip,
    lambda text: _unquoted(text.strip()),
    lambda text: _without_apostrophe(_unquoted(text.strip())),
    lambda text: text.strip().removeprefix("<").removesuffix(">"),
)


def _read_table(path: Path, *, judged: bool = True) -> Iterator[_Row]:
    """The rows of a .tsv or .csv file: those that have a verdict, or all."""
    columns: dict[str, int] = {}
    line = 0
    with open_text(path) as stream:
        try:
            for line, cells in _rows(TextIOWrapper(stream, encoding="utf-8", newline=""), path):
                if not columns:
                    if not any(cells) or _unquoted(cells[0]).startswith("#"):
                        continue
                    columns = _header(cells, path, line)
                    continue
                verdict, source, target = (
                    cells[columns[name]] if columns[name] < len(cells) else "" for name in _COLUMNS
                )
                verdict = _unquoted(verdict.strip()).strip()
                if verdict or (source and not judged):
                    yield _Row(line, verdict, source, target)
        except UnicodeDecodeError as error:
            raise InputError("is not UTF-8; save it as UTF-8", path=path, line=line + 1) from error
        except csv.Error as error:
            raise InputError(f"is not valid CSV: {error}", path=path, line=line + 1) from error
    if not columns:
        raise InputError("has no header with the columns verdict, source and target", path=path)


def _rows(text: TextIOWrapper, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Each row with the number of its last line."""
    if delimiter_of(path) == ",":
        csv.field_size_limit(LONGEST_LINE)
        reader = csv.reader(text)
        for row in reader:
            yield reader.line_num, row or [""]
        return
    # A cell of a sheet has no line break, so quotes need not be understood to find the cells.
    for number, line in enumerate(text, start=1):
        yield number, line.rstrip("\r\n").split("\t")


def _header(cells: list[str], path: Path, line: int) -> dict[str, int]:
    names = [_unquoted(cell.strip()).strip().lower() for cell in cells]
    for name in _COLUMNS:
        if names.count(name) != 1:
            problem = "appears twice" if name in names else "is missing"
            raise InputError(f"the column '{name}' {problem}: this is no review sheet", path=path, line=line)
    return {name: names.index(name) for name in _COLUMNS}


def _refuse_contradictions(judged: Sequence[_Judged], task: AlignmentTask) -> None:
    """Raise InputError if two verdicts exclude each other, or if one contradicts what the task knows."""
    known = {(int(source), int(target)): True for source, target in task.seeds.pairs}
    known |= {(int(source), int(target)): False for source, target in task.rejected.pairs}
    target_of = dict(zip(task.seeds.source.tolist(), task.seeds.target.tolist(), strict=True))
    source_of = {target: source for source, target in target_of.items()}
    origin: dict[tuple[int, int], _Judged] = {}
    for item in judged:
        pair = item.source, item.target
        before = origin.setdefault(pair, item)
        if known.setdefault(pair, item.is_accepted) != item.is_accepted:
            other = (
                f"{_place(before, item)} says the opposite"
                if before is not item
                else "the task says the opposite"
            )
            raise InputError(f"{_shown(pair, task)}: {other}", path=item.path, line=item.line)
        if not item.is_accepted:
            continue
        for one, other_end, matches, graph in (
            (item.source, item.target, target_of, task.target),
            (item.target, item.source, source_of, task.source),
        ):
            found = matches.setdefault(one, other_end)
            if found != other_end:
                rival = (one, found) if graph is task.target else (found, one)
                place = _place(origin[rival], item) if rival in origin else "a seed"
                raise InputError(
                    f"{_shown(pair, task)}: {place} gives {graph.label([found])[0]!r} instead; "
                    "accepted pairs and seeds are one-to-one",
                    path=item.path,
                    line=item.line,
                )


def _place(one: _Judged, other: _Judged) -> str:
    return f"line {one.line}" if one.path == other.path else f"{one.path}, line {one.line},"


def _shown(pair: tuple[int, int], task: AlignmentTask) -> str:
    return f"{task.source.label([pair[0]])[0]!r} and {task.target.label([pair[1]])[0]!r}"
