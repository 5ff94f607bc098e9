"""Gold plays the person who fills in a sheet of `divea review` or `divea suggest`."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from divea.api import Alignment, align
from divea.config import parse_assignment
from divea.formats.sheets import ACCEPT, REJECT, write_sheet
from divea.graphs import AlignmentTask, Links
from divea.graphs.labels import LABEL
from divea.types import Ids

CORRECTED, EMPTY = "corrected", "not judged"


@dataclass(frozen=True)
class Labelled:
    """What a person wrote into a sheet."""

    sources: Ids
    """The source entities of all rows, also of those without a verdict."""
    counts: dict[str, int]
    """Rows by kind of verdict."""
    rejected_labels: frozenset[tuple[str, str]]
    accepted: Links


def filled_in(table: pa.Table, path: Path, gold: Links, task: AlignmentTask) -> Labelled:
    """Write a sheet again, with the verdicts of a person who knows the gold links and nothing else."""
    source, target = task.source.find(table["source"]), task.target.find(_texts(table["target"]))
    target_of, is_known = (
        np.full(task.source.num_entities, -1),
        np.zeros(task.target.num_entities, dtype=bool),
    )
    target_of[gold.source] = gold.target
    is_known[gold.target] = True
    kinds, verdicts = [], []
    for one, given in zip(source.tolist(), target.tolist(), strict=True):
        true = int(target_of[one])
        if true >= 0:
            kinds.append("accepted" if true == given else CORRECTED)
            verdicts.append(ACCEPT if true == given else task.target.label([true])[0])
        else:
            is_wrong = given >= 0 and bool(is_known[given])
            kinds.append("rejected" if is_wrong else EMPTY)
            verdicts.append(REJECT if is_wrong else "")
    write_sheet(table.set_column(0, "verdict", pa.array(verdicts, LABEL)), path)
    has_target = target_of[source] >= 0
    accepted = np.stack([source[has_target], target_of[source[has_target]]], axis=1)
    wrong = [
        (one, given)
        for one, given, kind in zip(
            table["source"].to_pylist(), table["target"].to_pylist(), kinds, strict=True
        )
        if given and kind in (CORRECTED, "rejected")
    ]
    return Labelled(source, dict(Counter(kinds)), frozenset(wrong), Links.from_pairs(accepted))


def _texts(column: pa.ChunkedArray) -> list[str]:
    return [text or "" for text in column.to_pylist()]


def aligned(
    task: AlignmentTask, out: Path, options: argparse.Namespace, reviewed: Sequence[Path] = ()
) -> Alignment:
    """A run of structure alone, with default settings and those of the option --set."""
    changes = dict(parse_assignment(text) for text in options.set)
    return align(
        task,
        reviewed=reviewed,
        features="none",
        subtasks=options.subtasks,
        out=out,
        device=options.device,
        **changes,
    )


def random_links(links: Links, count: int, number: int) -> Links:
    """A random draw of links."""
    order = np.random.default_rng([number, 0x5EED]).permutation(len(links))
    return Links.from_pairs(links.pairs[order[:count]])


def random_entities(task: AlignmentTask, count: int, number: int) -> Ids:
    """A random draw of source entities that are no seeds."""
    entities = task.unmatched_source
    return entities[np.random.default_rng([number, 0xE17]).permutation(len(entities))[:count]]


def links_from(links: Links, sources: Ids) -> Links:
    """The links of some source entities; not all of these need to have one."""
    return Links.from_pairs(links.pairs[np.isin(links.source, sources)])


def without_sources(links: Links, sources: Ids) -> Links:
    """The links without those of some source entities."""
    return Links.from_pairs(links.pairs[~np.isin(links.source, sources)])


def hits_at_1(alignment: Alignment, links: Links) -> float:
    """The share of links whose target is first in the list of its source (open protocol)."""
    return alignment.evaluate(links).h1
