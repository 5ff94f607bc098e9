"""Labels are Arrow strings; an id is the rank of a label's hash.

Ids follow a hash of the label rather than the order of a file. A graph therefore gets the same
ids whatever the order of its lines, and an id tells nothing about where its entity stood: in
the common benchmark files the matching entities stand at the same place of both files, so any
tie broken by file order would leak the answer.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.uint64]
Ids = npt.NDArray[np.int32]

LABEL = pa.large_string()
"""The Arrow type of every label (64-bit offsets: no 2 GiB limit)."""

_BLOCK = 1 << 16
_WORD_KEY = np.uint64(0x9E3779B97F4A7C15)
_LENGTH_KEY = np.uint64(0xD6E8FEB86659FD93)
_FOLD = np.uint64(32)
# _KEEP[k] keeps the first k bytes of a little-endian word.
_KEEP = np.array([(1 << (8 * k)) - 1 for k in range(9)], dtype=np.uint64)


def as_labels(values: Iterable[str] | pa.Array | pa.ChunkedArray) -> pa.Array:
    """Any sequence of strings as one contiguous Arrow label array.

    >>> as_labels(["a", "b"]).to_pylist()
    ['a', 'b']
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if not isinstance(values, pa.Array):
        values = pa.array(list(values), type=LABEL)
    return values.cast(LABEL)


def hash_labels(labels: pa.Array) -> Hashes:
    """A 64-bit hash of every label, the same on every machine and in every release.

    Reads the Arrow buffers eight bytes at a time, so the cost is a few array passes per word
    and not a Python call per label. Two million entities collide with a chance of about 1e-7.
    """
    if pa.types.is_dictionary(labels.type):
        return hash_labels(labels.dictionary)[labels.indices.to_numpy(zero_copy_only=False)]
    labels = labels.cast(LABEL)
    _, offset_buffer, data = labels.buffers()
    count = len(labels)
    if count == 0:
        return np.zeros(0, dtype=np.uint64)
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[labels.offset : labels.offset + count + 1]
    hashes = np.empty(count, dtype=np.uint64)
    for first in range(0, count, _BLOCK):
        bounds = offsets[first : first + _BLOCK + 1]
        base, end = int(bounds[0]), int(bounds[-1])
        # Eight spare bytes let the last label be read as whole words.
        text = np.zeros(end - base + 8, dtype=np.uint8)
        if end > base:
            text[: end - base] = np.frombuffer(data, dtype=np.uint8, count=end - base, offset=base)
        hashes[first : first + _BLOCK] = _hash_block(text, bounds - base)
    return hashes


def _hash_block(text: npt.NDArray[np.uint8], bounds: npt.NDArray[np.int64]) -> Hashes:
    # The word that starts at every byte, overlapping: words[i] holds bytes i .. i+7.
    words = np.ndarray(shape=(len(text) - 7,), dtype="<u8", buffer=text, strides=(1,))
    starts = bounds[:-1]
    lengths = np.diff(bounds)
    state = lengths.astype(np.uint64) * _LENGTH_KEY
    shortest, longest = int(lengths.min()), int(lengths.max())
    alive: npt.NDArray[np.intp] | None = None  # None: every label is this long
    for at in range(0, longest, 8):
        if at + 8 <= shortest:
            state = _mix(state, words[starts + at])
            continue
        alive = np.flatnonzero(lengths > at) if alive is None else alive[lengths[alive] > at]
        left = np.minimum(lengths[alive] - at, 8)
        state[alive] = _mix(state[alive], words[starts[alive] + at] & _KEEP[left])
    return _mix(state, np.uint64(0))


def _mix(state: Hashes, word: Hashes | np.uint64) -> Hashes:
    state = (state ^ word) * _WORD_KEY
    return state ^ (state >> _FOLD)


def rank_of(hashes: Hashes, known: Hashes) -> Ids:
    """Position of each hash in the sorted array `known`, or -1 where it is not there.

    Hashes are spread evenly, so the top bits name a bucket that holds one or two of them: the
    search takes a few steps for any size, where a binary search takes twenty cache misses.
    """
    ranks = np.empty(len(hashes), dtype=np.int32)
    if len(known) == 0:
        ranks.fill(-1)
        return ranks
    bits = max(1, len(known).bit_length())
    shift = np.uint64(64 - bits)
    edges = np.arange(1 << bits, dtype=np.uint64) << shift
    starts = np.searchsorted(known, edges).astype(np.int32)
    last = len(known) - 1
    for first in range(0, len(hashes), _BLOCK):
        wanted = hashes[first : first + _BLOCK]
        at = np.minimum(starts[wanted >> shift], last)
        behind = np.flatnonzero(known[at] < wanted)
        while len(behind):
            behind = behind[at[behind] < last]
            at[behind] += 1
            behind = behind[known[at[behind]] < wanted[behind]]
        ranks[first : first + _BLOCK] = np.where(known[at] == wanted, at, -1)
    return ranks


def find_labels(labels: pa.Array, known: pa.Array, known_hashes: Hashes) -> Ids:
    """Id of each label in `known` (in hash order), or -1; exact, the hash only narrows it down."""
    ranks = rank_of(hash_labels(labels), known_hashes)
    found = np.flatnonzero(ranks >= 0)
    if len(found):
        same = pa.compute.equal(labels.cast(LABEL).take(pa.array(found)), known.take(pa.array(ranks[found])))
        ranks[found[~same.to_numpy(zero_copy_only=False)]] = -1
    return ranks


class LabelInterner:
    """Collects the distinct labels of a stream in memory proportional to the distinct ones.

    A direct-mapped table of hashes remembers what was seen: a hit is certain (the whole hash is
    compared), a miss at worst keeps a label twice until `finish` drops the copy.

    >>> interner = LabelInterner()
    >>> first, second = interner.add(as_labels(["b", "a"])), interner.add(as_labels(["a"]))
    >>> labels, hashes = interner.finish()
    >>> labels.take(pa.array(rank_of(second, hashes))).to_pylist()
    ['a']
    """

    def __init__(self) -> None:
        self._table: Hashes = np.zeros(_BLOCK, dtype=np.uint64)
        self._kept: list[pa.Array] = []
        self._kept_hashes: list[Hashes] = []
        self._count = 0
        self._compact_above = _BLOCK

    def add(self, labels: pa.Array) -> Hashes:
        """Remember these labels; returns their hashes, to be turned into ids after `finish`."""
        hashes = hash_labels(labels)
        slots = hashes & np.uint64(len(self._table) - 1)
        # A hash of 0 looks like an empty slot, so such a label is kept every time.
        missed = np.flatnonzero((self._table[slots] != hashes) | (hashes == 0))
        if len(missed):
            self._table[slots[missed]] = hashes[missed]
            self._kept.append(labels.take(pa.array(missed)).cast(LABEL))
            self._kept_hashes.append(hashes[missed])
            self._count += len(missed)
            if self._count > self._compact_above:
                self._compact()
        return hashes

    def _compact(self) -> None:
        """Drop the copies and fit the table to the distinct labels, four slots for each."""
        labels, hashes = self._distinct()
        self._kept, self._kept_hashes, self._count = [labels], [hashes], len(hashes)
        self._compact_above = max(_BLOCK, 2 * len(hashes))
        size = len(self._table)
        while size < 4 * len(hashes):
            size *= 2
        if size > len(self._table):
            self._table = np.zeros(size, dtype=np.uint64)
            self._table[hashes & np.uint64(size - 1)] = hashes

    def _distinct(self) -> tuple[pa.Array, Hashes]:
        if not self._kept:
            return pa.array([], type=LABEL), np.zeros(0, dtype=np.uint64)
        hashes, first = np.unique(np.concatenate(self._kept_hashes), return_index=True)
        self._kept_hashes = []
        labels = pa.concat_arrays(self._kept)
        self._kept = []
        return labels.take(pa.array(first)), hashes

    def finish(self) -> tuple[pa.Array, Hashes]:
        """The distinct labels in id order, and their hashes (sorted)."""
        self._table = np.zeros(0, dtype=np.uint64)
        return self._distinct()
