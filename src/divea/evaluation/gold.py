"""Reading gold links."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from divea.errors import InputError
from divea.formats import read_links
from divea.graphs import AlignmentTask, Links


def read_gold(path: str | Path, task: AlignmentTask, folder: str | Path | None = None) -> Links:
    """The links of a file without the seeds of the task.

    Many data sets have one file with all links. The seeds among them were known and did not have to be
    found, so they are not evaluated.

    Parameters
    ----------
    folder
        The task folder, if the file uses the folder's own ids instead of labels.

    Examples
    --------
    >>> from divea.formats import read_task
    >>> task = read_task("dbp15k/zh_en", seeds="splits/20/0/sup_ent_ids")  # doctest: +SKIP
    >>> gold = read_gold("splits/20/0/ref_ent_ids", task, folder="dbp15k/zh_en")  # doctest: +SKIP
    """
    links = read_links(path, task, folder)
    # Seeds are one-to-one: a link is a seed if the seed of its source has the same target.
    seed_target = np.full(task.source.num_entities, -1, dtype=np.int32)
    seed_target[task.seeds.source] = task.seeds.target
    is_seed = seed_target[links.source] == links.target
    if is_seed.all():
        raise InputError("every link is a seed: nothing is left to evaluate", path=path)
    return Links.from_pairs(links.pairs[~is_seed])
