"""Random ranked lists for property tests, with the cases that are rare in real ones."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from divea.loop.lists import Lists
from divea.types import Matches

SCORES = {
    "distinct": lambda rng, shape: rng.normal(size=shape),
    "repeated": lambda rng, shape: rng.integers(0, 4, size=shape) / 4,
    "equal": lambda rng, shape: np.full(shape, 0.5),
    "negative": lambda rng, shape: -rng.integers(0, 6, size=shape) / 3,
    # Sums of these need more bits than a float of 64 bits has.
    "of all magnitudes": lambda rng, shape: 2.0 ** rng.integers(-70, 3, size=shape) * rng.random(shape),
    "sometimes -inf": lambda rng, shape: np.where(rng.random(shape) < 0.2, -np.inf, rng.random(shape)),
}


@st.composite
def ranked_lists(draw: st.DrawFn, most_sources: int = 30, most_targets: int = 30) -> Matches:
    """Lists of random sources, each best first; some are short, and some have no target."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    sources, targets = draw(st.integers(0, most_sources)), draw(st.integers(1, most_targets))
    width = draw(st.integers(0, targets))
    score = SCORES[draw(st.sampled_from(sorted(SCORES)))](rng, (sources, width)).astype(np.float32)
    score = -np.sort(-score, axis=1)
    target = np.argsort(rng.random((sources, targets)), axis=1)[:, :width].astype(np.int32)
    if draw(st.booleans()):
        is_empty = np.arange(width) >= rng.integers(0, width + 1, size=(sources, 1))
        target[is_empty], score[is_empty] = -1, -np.inf
    source = rng.permutation(2 * most_sources)[:sources].astype(np.int32)
    return Matches(source, target, score, rng.random(sources) < 0.5)


def cut_into_blocks(lists: Matches, random_seed: int) -> Lists:
    """The same lists in random blocks, each sorted by source; a block may be empty, or narrower."""
    rng = np.random.default_rng(random_seed)
    block = rng.integers(0, 3, size=len(lists))
    blocks = []
    for number in range(3):
        rows = np.flatnonzero(block == number)
        rows = rows[np.argsort(lists.source[rows])]
        width = int((lists.target[rows] >= 0).sum(axis=1).max(initial=0)) if number else lists.target.shape[1]
        columns = lists.target[rows, :width], lists.score[rows, :width]
        blocks.append(Matches(lists.source[rows], *columns, lists.mutual[rows]))
    return Lists.of(blocks)


def in_blocks(monkeypatch: Any, module: Any, rows: int, threads: int) -> None:
    """Let a module work in blocks of so many rows, in so many threads."""
    monkeypatch.setattr(module, "_ROWS", rows)
    monkeypatch.setattr("divea.resources.row_blocks.cores", lambda: threads)
