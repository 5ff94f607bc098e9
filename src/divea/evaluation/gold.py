"""Reading gold links: what the evaluator knows and nothing else may."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from divea.errors import InputError
from divea.formats import read_links
from divea.graphs import AlignmentTask, Links


def read_gold(path: str | Path, task: AlignmentTask, folder: str | Path | None = None) -> Links:
    """The links of a file that are left to be found; `folder` explains ids that are its own.

    Many data sets have one file of all links. Those that are seeds were given, not found, so they
    are no part of the gold.
    """
    links = read_links(path, task, folder)
    # Seeds are one-to-one: a link is a seed where its source's seed has the same target.
    match = np.full(task.source.num_entities, -1, dtype=np.int32)
    match[task.seeds.source] = task.seeds.target
    given = match[links.source] == links.target
    if given.all():
        raise InputError("every link is a seed: nothing is left to evaluate", path=path)
    return Links.from_pairs(links.pairs[~given])
