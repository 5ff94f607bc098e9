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

from divea.types import Ids

Hashes = npt.NDArray[np.uint64]


LABEL = pa.large_string()
"""The Arrow type of every label (64-bit offsets: no 2 GiB limit)."""

_BLOCK = 1 << 15
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
        values = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    if not isinstance(values, pa.Array):
        values = pa.array(list(values), type=LABEL)
    return values.cast(LABEL)


def hash_labels(labels: pa.Array) -> Hashes:
    """A 64-bit hash of every label, the same on every machine and in every release.

    Reads the Arrow buffers eight bytes at a time, so the cost is a few array passes per word
    and not a Python call per label. Two million entities collide with a chance of about 1e-7.
    """
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
    """Gives ids to the labels of a stream, in memory proportional to the distinct ones.

    A table of hashes, two places for each, remembers which labels were seen. A hit is certain,
    because the whole hash is compared; a miss at worst gives a label a second code, which
    `finish` maps to the same id.

    >>> interner = LabelInterner()
    >>> codes = [interner.add(as_labels(batch)) for batch in (["b", "a"], ["a"])]
    >>> labels, id_of_code = interner.finish()
    >>> labels.take(pa.array(id_of_code[np.concatenate(codes)])).to_pylist()
    ['b', 'a', 'a']
    """

    def __init__(self) -> None:
        self._table: Ids = np.full(_BLOCK, -1, dtype=np.int32)
        self._hash_of_code: Hashes = np.zeros(_BLOCK, dtype=np.uint64)
        self._count = 0
        self._labels: list[pa.Array] = []

    def add(self, labels: pa.Array) -> Ids:
        """A code for each label; `finish` tells the id of each code."""
        if pa.types.is_dictionary(labels.type):
            return self._add_dictionary(labels)
        hashes = hash_labels(labels)
        codes = self._table[self._place(hashes, 0)]
        missed = np.flatnonzero(self._differs(codes, hashes))
        if len(missed):
            codes[missed] = self._table[self._place(hashes[missed], 1)]
            missed = missed[self._differs(codes[missed], hashes[missed])]
        if len(missed):
            codes[missed] = self._add_codes(hashes[missed])
            self._labels.append(labels.take(pa.array(missed)).cast(LABEL))
        return codes

    def _add_dictionary(self, labels: pa.Array) -> Ids:
        rows = labels.indices.to_numpy(zero_copy_only=False)
        # A dictionary may hold labels that no row uses.
        used = np.flatnonzero(np.bincount(rows, minlength=len(labels.dictionary)))
        codes = np.zeros(len(labels.dictionary), dtype=np.int32)
        codes[used] = self.add(labels.dictionary.take(pa.array(used)).cast(LABEL))
        return codes[rows]

    def finish(self) -> tuple[pa.Array, Ids]:
        """The distinct labels in id order, and the id of each code; the interner is spent."""
        del self._table
        hashes = self._hash_of_code[: self._count]
        order = np.argsort(hashes)
        hashes = hashes[order]
        starts = np.concatenate([[True], hashes[1:] != hashes[:-1]])[: self._count]
        del self._hash_of_code, hashes
        id_of_code = np.empty(len(order), dtype=np.int32)
        id_of_code[order] = np.cumsum(starts, dtype=np.int32) - 1
        chunks = pa.chunked_array(self._labels, type=LABEL)
        del self._labels
        return as_labels(chunks.take(pa.array(order[starts]))), id_of_code

    def _place(self, hashes: Hashes, choice: int) -> Hashes:
        """The first or the second place of each hash in the table."""
        return (hashes >> np.uint64(32 * choice)) & np.uint64(len(self._table) - 1)

    def _differs(self, codes: Ids, hashes: Hashes) -> npt.NDArray[np.bool_]:
        return (self._hash_of_code[codes] != hashes) | (codes < 0)

    def _add_codes(self, hashes: Hashes) -> Ids:
        codes = np.arange(self._count, self._count + len(hashes), dtype=np.int32)
        self._count += len(hashes)
        if self._count > len(self._hash_of_code):
            # Not in place: a resized array would have to own its data alone.
            grown = np.zeros(2 * self._count, dtype=np.uint64)
            grown[: len(self._hash_of_code)] = self._hash_of_code
            self._hash_of_code = grown
        self._hash_of_code[codes] = hashes
        if 3 * self._count > len(self._table):
            size = len(self._table)
            while size < 4 * self._count:
                size *= 2
            self._table = np.full(size, -1, dtype=np.int32)
            self._insert(np.arange(self._count, dtype=np.int32))
        else:
            self._insert(codes)
        return codes

    def _insert(self, codes: Ids) -> None:
        hashes = self._hash_of_code[codes]
        first, second = self._place(hashes, 0), self._place(hashes, 1)
        # Where both places are taken, the older label is forgotten and may get a second code.
        self._table[np.where(self._table[first] < 0, first, second)] = codes
