"""Labels as Arrow strings, and ids as ranks of label hashes.

The id of a label is the rank of its hash among all label hashes of the graph. A graph therefore gets the
same ids whatever the order of the lines in its file, and an id says nothing about where its entity was in
the file. In the common benchmark files, matching entities are at the same position of both files, so a tie
that is broken by file order would leak the answer.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from divea.types import Ids

Hashes = npt.NDArray[np.uint64]

LABEL = pa.large_string()
"""The Arrow type of every label (64-bit offsets: no 2 GiB limit)."""

_BLOCK = 1 << 15
"""Labels that are hashed, or looked up, at a time: their arrays stay in the cache."""
_FIRST_SLOTS = 1 << 15
"""Slots of a new interner's table; a power of two."""

# The constants of the hash. Ids depend on them: with other values, no stored task could be opened any more.
_WORD_KEY = np.uint64(0x9E3779B97F4A7C15)
_LENGTH_KEY = np.uint64(0xD6E8FEB86659FD93)
_FOLD = np.uint64(32)
_FIRST_BYTES = np.array([(1 << (8 * count)) - 1 for count in range(9)], dtype=np.uint64)
"""Masks: `_FIRST_BYTES[k]` keeps the first k bytes of a little-endian word."""


def as_labels(values: Iterable[str] | pa.Array | pa.ChunkedArray) -> pa.Array:
    """Any sequence of strings as one contiguous Arrow array of labels.

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

    The hash mixes the length of a label with its UTF-8 bytes, one word of eight bytes after the other. Arrow
    stores all labels in one buffer, so a few array operations per word hash many labels at once, without a
    Python call per label. Two of two million labels have the same hash with a probability of about 1e-7.

    >>> hashes = hash_labels(as_labels(["a", "b", "a"])).tolist()
    >>> hashes[0] == hashes[2], hashes[0] == hashes[1]
    (True, False)
    """
    labels = labels.cast(LABEL)
    count = len(labels)
    hashes = np.empty(count, dtype=np.uint64)
    if count == 0:
        return hashes
    _, offset_buffer, data = labels.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[labels.offset : labels.offset + count + 1]
    for first in range(0, count, _BLOCK):
        bounds = offsets[first : first + _BLOCK + 1]
        start, end = int(bounds[0]), int(bounds[-1])
        # Eight spare bytes allow the last label to be read in whole words.
        text = np.zeros(end - start + 8, dtype=np.uint8)
        if end > start:
            text[: end - start] = np.frombuffer(data, dtype=np.uint8, count=end - start, offset=start)
        hashes[first : first + _BLOCK] = _hash_block(text, bounds - start)
    return hashes


def _hash_block(text: npt.NDArray[np.uint8], bounds: npt.NDArray[np.int64]) -> Hashes:
    """The hash of every label `text[bounds[i]:bounds[i + 1]]`."""
    # word_at[i] holds the bytes i to i + 7 of the text: the words overlap.
    word_at = np.ndarray(shape=(len(text) - 7,), dtype="<u8", buffer=text, strides=(1,))
    starts, lengths = bounds[:-1], np.diff(bounds)
    shortest, longest = int(lengths.min()), int(lengths.max())
    state = lengths.astype(np.uint64) * _LENGTH_KEY
    # All labels have this many whole words.
    common = shortest - shortest % 8
    for at in range(0, common, 8):
        state = _mix(state, word_at[starts + at])
    # Only labels that are long enough have further words; bytes after the end of a label are masked out.
    longer = np.flatnonzero(lengths > common)
    for at in range(common, longest, 8):
        bytes_left = np.minimum(lengths[longer] - at, 8)
        state[longer] = _mix(state[longer], word_at[starts[longer] + at] & _FIRST_BYTES[bytes_left])
        longer = longer[lengths[longer] > at + 8]
    return _mix(state, np.uint64(0))


def _mix(state: Hashes, word: Hashes | np.uint64) -> Hashes:
    state = (state ^ word) * _WORD_KEY
    return state ^ (state >> _FOLD)


def rank_of(hashes: Hashes, known: Hashes) -> Ids:
    """The position of each hash in the sorted array `known`, -1 for a hash that is not in it.

    Hashes are spread evenly, so their top bits number buckets that hold about one known hash each. A search
    starts at the first hash of its bucket and takes a few steps whatever the size of `known`; a binary search
    takes about twenty cache misses.

    >>> rank_of(np.array([7, 4], dtype=np.uint64), np.array([2, 7], dtype=np.uint64)).tolist()
    [1, -1]
    """
    if len(known) == 0:
        return np.full(len(hashes), -1, dtype=np.int32)
    bucket_bits = max(1, len(known).bit_length())
    shift = np.uint64(64 - bucket_bits)
    lowest_in_bucket = np.arange(1 << bucket_bits, dtype=np.uint64) << shift
    start_of_bucket = np.searchsorted(known, lowest_in_bucket).astype(np.int32)
    # Buckets after the last known hash would start past the end.
    np.minimum(start_of_bucket, len(known) - 1, out=start_of_bucket)
    ranks = np.empty(len(hashes), dtype=np.int32)
    for first in range(0, len(hashes), _BLOCK):
        block = hashes[first : first + _BLOCK]
        rank = _first_not_below(block, known, start_of_bucket[block >> shift])
        ranks[first : first + _BLOCK] = np.where(known[rank] == block, rank, -1)
    return ranks


def _first_not_below(hashes: Hashes, known: Hashes, rank: Ids) -> Ids:
    """Move each rank, which starts in the hash's bucket, up to the first known hash that is not below it.

    If all known hashes are below, the rank is the last one. Changes and returns `rank`.
    """
    last = len(known) - 1
    below = np.flatnonzero(known[rank] < hashes)
    while len(below):
        below = below[rank[below] < last]
        rank[below] += 1
        below = below[known[rank[below]] < hashes[below]]
    return rank


def find_labels(labels: pa.Array, known: pa.Array, known_hashes: Hashes) -> Ids:
    """The position of each label in `known`, -1 for a label that is not in it.

    The result is exact: labels that a hash finds are compared as text.

    Parameters
    ----------
    known
        Distinct labels in the order of their hashes.
    known_hashes
        Their hashes.
    """
    ranks = rank_of(hash_labels(labels), known_hashes)
    found = np.flatnonzero(ranks >= 0)
    if len(found):
        is_same = pc.equal(labels.cast(LABEL).take(pa.array(found)), known.take(pa.array(ranks[found])))
        ranks[found[~is_same.to_numpy(zero_copy_only=False)]] = -1
    return ranks


class LabelInterner:
    """Assigns ids to a stream of labels, in memory proportional to the number of distinct labels.

    Ids are ranks of hashes, which are known only at the end of the stream. Until then, `add` returns codes,
    which number the labels in the order of their first appearance; `finish` returns the id of each code.

    Labels are recognised by their hash, in a lossy hash table. A hash has two slots; if both are occupied,
    the newer label replaces the older one in the second slot. A label that was replaced is not recognised
    when it appears again, and gets another code; so does a label that is new twice in one batch. That is
    harmless: codes with the same hash get the same id.

    Examples
    --------
    >>> interner = LabelInterner()
    >>> codes = [interner.add(as_labels(batch)) for batch in (["b", "a"], ["a"])]
    >>> labels, id_of_code = interner.finish()
    >>> labels.take(pa.array(id_of_code[np.concatenate(codes)])).to_pylist()
    ['b', 'a', 'a']
    """

    def __init__(self) -> None:
        self._code_in_slot: Ids = np.full(_FIRST_SLOTS, -1, dtype=np.int32)
        self._hash_of_code: Hashes = np.zeros(_FIRST_SLOTS, dtype=np.uint64)
        self._count = 0
        self._labels: list[pa.Array] = []

    def add(self, labels: pa.Array) -> Ids:
        """The code of each label; labels that are not recognised get new codes."""
        if pa.types.is_dictionary(labels.type):
            return self._add_dictionary(labels)
        hashes = hash_labels(labels)
        codes = self._code_in_slot[self._first_slot(hashes)]
        unknown = np.flatnonzero(self._has_other_hash(codes, hashes))
        if len(unknown):
            codes[unknown] = self._code_in_slot[self._second_slot(hashes[unknown])]
            unknown = unknown[self._has_other_hash(codes[unknown], hashes[unknown])]
        if len(unknown):
            codes[unknown] = self._add_codes(hashes[unknown])
            self._labels.append(labels.take(pa.array(unknown)).cast(LABEL))
        return codes

    def _add_dictionary(self, labels: pa.Array) -> Ids:
        """The codes of a dictionary-encoded column; only its distinct labels are looked up."""
        rows = labels.indices.to_numpy(zero_copy_only=False)
        # A dictionary may hold labels that no row uses.
        used = np.flatnonzero(np.bincount(rows, minlength=len(labels.dictionary)))
        code_of_entry = np.zeros(len(labels.dictionary), dtype=np.int32)
        code_of_entry[used] = self.add(labels.dictionary.take(pa.array(used)).cast(LABEL))
        return code_of_entry[rows]

    def finish(self) -> tuple[pa.Array, Ids]:
        """The distinct labels in the order of their ids, and the id of each code.

        The interner cannot be used afterwards. Its arrays are freed as soon as possible.
        """
        del self._code_in_slot
        hashes = self._hash_of_code[: self._count]
        order = np.argsort(hashes)
        hashes = hashes[order]
        is_first = np.concatenate([[True], hashes[1:] != hashes[:-1]])[: self._count]
        del self._hash_of_code, hashes
        id_of_code = np.empty(len(order), dtype=np.int32)
        id_of_code[order] = np.cumsum(is_first, dtype=np.int32) - 1
        chunks = pa.chunked_array(self._labels, type=LABEL)
        del self._labels
        return as_labels(chunks.take(pa.array(order[is_first]))), id_of_code

    def _first_slot(self, hashes: Hashes) -> Hashes:
        """The lowest bits of each hash, as many as number the slots."""
        return hashes & np.uint64(len(self._code_in_slot) - 1)

    def _second_slot(self, hashes: Hashes) -> Hashes:
        """The lowest bits of the upper half of each hash."""
        return self._first_slot(hashes >> np.uint64(32))

    def _has_other_hash(self, codes: Ids, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Whether the code found in a slot, -1 for an empty slot, belongs to another hash."""
        return (self._hash_of_code[codes] != hashes) | (codes < 0)

    def _add_codes(self, hashes: Hashes) -> Ids:
        """New codes for these hashes."""
        codes = np.arange(self._count, self._count + len(hashes), dtype=np.int32)
        self._count += len(hashes)
        if self._count > len(self._hash_of_code):
            # A copy, because ndarray.resize refuses an array that a view may still use.
            grown = np.zeros(2 * self._count, dtype=np.uint64)
            grown[: len(self._hash_of_code)] = self._hash_of_code
            self._hash_of_code = grown
        self._hash_of_code[codes] = hashes
        if 3 * self._count > len(self._code_in_slot):
            self._grow_table()
        else:
            self._insert(codes)
        return codes

    def _grow_table(self) -> None:
        """Make a table with at least four slots per code, and insert all codes into it."""
        slots = len(self._code_in_slot)
        while slots < 4 * self._count:
            slots *= 2
        self._code_in_slot = np.full(slots, -1, dtype=np.int32)
        self._insert(np.arange(self._count, dtype=np.int32))

    def _insert(self, codes: Ids) -> None:
        """Put each code into the first slot of its hash if that is empty, otherwise into the second."""
        hashes = self._hash_of_code[codes]
        first, second = self._first_slot(hashes), self._second_slot(hashes)
        self._code_in_slot[np.where(self._code_in_slot[first] < 0, first, second)] = codes
