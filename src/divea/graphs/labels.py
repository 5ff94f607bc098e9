"""Labels as Arrow strings, and ids as ranks of label hashes.

The id of a label is the rank of its hash among all label hashes of the graph; labels with the same hash are
ranked by their UTF-8 bytes. A graph therefore gets the same ids whatever the order of the lines in its file,
and an id says nothing about where its entity was in the file. In the common benchmark files, matching
entities are at the same position of both files, so a tie that is broken by file order would leak the answer.

Anybody can construct labels with the same hash, or with hashes of their choice. A hash is therefore only the
way to find a label: whether two labels are the same is decided by comparing their text, and labels that were
constructed to meet in a table cost little more than others.
"""

from __future__ import annotations

import secrets
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
_LONG = 1 << 10
"""Bytes of a long label."""
_FEW_LONG = 32
"""Labels that are hashed faster one by one than together."""
_FEW = 100
"""Labels are looked up one by one if there are this many times fewer of them than known ones."""
_MOST_STEPS = 64
"""Steps through a bucket of hashes before a binary search is used. Buckets hold about one hash each."""

# The constants of the hash. Ids depend on them: with other values, no stored task could be opened any more.
_WORD_KEY = np.uint64(0x9E3779B97F4A7C15)
_LENGTH_KEY = np.uint64(0xD6E8FEB86659FD93)
_FOLD = np.uint64(32)
_ALL_BITS = (1 << 64) - 1
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
    Python call per label. Two of two million labels have the same hash with a probability of about 1e-7,
    unless somebody constructed them.

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
    offsets = np.frombuffer(offset_buffer, np.int64, count + 1, offset=8 * labels.offset)
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
    common = min(shortest - shortest % 8, _LONG)
    for at in range(0, common, 8):
        state = _mix(state, word_at[starts + at])
    # Only labels that are long enough have further words; bytes after the end of a label are masked out.
    longer = np.flatnonzero(lengths > common)
    for at in range(common, longest, 8):
        if len(longer) <= _FEW_LONG:
            for row in longer.tolist():
                rest = text[starts[row] + at : starts[row] + lengths[row]]
                state[row] = _mixed_one_by_one(int(state[row]), rest.tobytes())
            break
        bytes_left = np.minimum(lengths[longer] - at, 8)
        state[longer] = _mix(state[longer], word_at[starts[longer] + at] & _FIRST_BYTES[bytes_left])
        longer = longer[lengths[longer] > at + 8]
    return _mix(state, np.uint64(0))


def _mixed_one_by_one(state: int, text: bytes) -> int:
    """The state of one label after this text. For a few long labels this is much faster than array code."""
    words = np.frombuffer(text + bytes(-len(text) % 8), dtype="<u8")
    key, fold = int(_WORD_KEY), int(_FOLD)
    for word in words.tolist():
        state = ((state ^ word) * key) & _ALL_BITS
        state ^= state >> fold
    return state


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
    if len(hashes) < len(known) // _FEW:
        # The buckets cost as much as looking up a part of all known hashes.
        rank = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
        return np.where(known[rank] == hashes, rank, -1).astype(np.int32)
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
    for _ in range(_MOST_STEPS):
        below = below[rank[below] < last]
        if not len(below):
            return rank
        rank[below] += 1
        below = below[known[rank[below]] < hashes[below]]
    # Only labels that were constructed for it have this many hashes in one bucket.
    rank[below] = np.minimum(np.searchsorted(known, hashes[below]), last)
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
    if not len(found):
        return ranks
    wanted = labels.cast(LABEL).take(pa.array(found))
    is_same = pc.equal(wanted, known.take(pa.array(ranks[found]))).to_numpy(zero_copy_only=False)
    if not is_same.all():
        others = wanted.filter(pa.array(~is_same))
        ranks[found[~is_same]] = _find_among_equal_hashes(others, known, known_hashes)
    return ranks


def _find_among_equal_hashes(labels: pa.Array, known: pa.Array, known_hashes: Hashes) -> list[int]:
    """The position of each label among the known labels that share their hash with another one, or -1."""
    repeats = np.flatnonzero(known_hashes[1:] == known_hashes[:-1])
    positions = np.union1d(repeats, repeats + 1)
    position_of = dict(zip(known.take(pa.array(positions)).to_pylist(), positions.tolist(), strict=True))
    return [position_of.get(label, -1) for label in labels.to_pylist()]


class LabelInterner:
    """Assigns ids to a stream of labels, in memory proportional to the number of distinct labels.

    Ids are ranks of hashes, which are known only at the end of the stream. Until then, `add` returns codes,
    which number the labels in the order of their first appearance; `finish` returns the id of each code.

    Labels are found by their hash, in a lossy hash table, and compared as text. A hash has two slots; if both
    are occupied, the newer label replaces the older one in the second slot. A label that was replaced is not
    recognised when it appears again, and gets another code. That is harmless: codes of the same label get the
    same id. Which labels meet in a slot depends on a random key, so it cannot be arranged; ids do not depend
    on it. Labels with the hash of another label, which are constructed, are found in a dictionary.

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
        # The text of all codes, and where each starts: the buffers of an Arrow array that can grow.
        self._text: npt.NDArray[np.uint8] = np.empty(_FIRST_SLOTS, dtype=np.uint8)
        self._start_of_code: npt.NDArray[np.int64] = np.zeros(_FIRST_SLOTS + 1, dtype=np.int64)
        self._code_of_namesake: dict[str, int] = {}
        # Odd numbers: the product of a hash and a random odd number has random upper bits.
        self._slot_keys = [np.uint64(secrets.randbits(64) | 1) for _ in range(2)]

    def add(self, labels: pa.Array) -> Ids:
        """The code of each label; labels that are not recognised get new codes."""
        if pa.types.is_dictionary(labels.type):
            return self._add_dictionary(labels)
        labels = labels.cast(LABEL)
        hashes = hash_labels(labels)
        codes = self._code_in_slot[self._slot(hashes, 0)]
        rows = self._other_labels(codes, hashes, labels)
        if len(rows):
            labels, hashes = labels.take(pa.array(rows)), hashes[rows]
            codes[rows] = self._code_in_slot[self._slot(hashes, 1)]
            other = self._other_labels(codes[rows], hashes, labels)
            if len(other):
                codes[rows[other]] = self._add_new(labels.take(pa.array(other)), hashes[other])
        return codes

    def _add_dictionary(self, labels: pa.Array) -> Ids:
        """The codes of a dictionary-encoded column; only its distinct labels are looked up."""
        rows = labels.indices.to_numpy(zero_copy_only=False)
        # A dictionary may hold labels that no row uses.
        used = np.flatnonzero(np.bincount(rows, minlength=len(labels.dictionary)))
        code_of_entry = np.zeros(len(labels.dictionary), dtype=np.int32)
        code_of_entry[used] = self.add(labels.dictionary.take(pa.array(used)))
        return code_of_entry[rows]

    def finish(self) -> tuple[pa.Array, Ids]:
        """The distinct labels in the order of their ids, and the id of each code.

        The interner cannot be used afterwards. Its arrays are freed as soon as possible.
        """
        del self._code_in_slot, self._code_of_namesake
        labels = self._labels()
        order, is_first = _sorted_by_hash(self._hash_of_code[: self._count], labels)
        del self._hash_of_code
        id_of_code = np.empty(len(order), dtype=np.int32)
        id_of_code[order] = np.cumsum(is_first, dtype=np.int32) - 1
        del self._text, self._start_of_code
        return labels.take(pa.array(order[is_first])), id_of_code

    def _labels(self) -> pa.Array:
        """The label of each code, without a copy; valid until the next code is added."""
        buffers = [None, pa.py_buffer(self._start_of_code), pa.py_buffer(self._text)]
        return pa.Array.from_buffers(LABEL, self._count, buffers)

    def _slot(self, hashes: Hashes, choice: int) -> Hashes:
        """The first or the second slot of each hash."""
        bits = len(self._code_in_slot).bit_length() - 1
        return (hashes * self._slot_keys[choice]) >> np.uint64(64 - bits)

    def _other_labels(self, codes: Ids, hashes: Hashes, labels: pa.Array) -> npt.NDArray[np.int64]:
        """The rows of which the code found in a slot, -1 for an empty slot, belongs to another label."""
        is_other = (self._hash_of_code[codes] != hashes) | (codes < 0)
        found = np.flatnonzero(~is_other)
        if len(found):
            wanted = labels if len(found) == len(labels) else labels.take(pa.array(found))
            is_same = pc.equal(wanted, self._labels().take(pa.array(codes[found])))
            is_other[found] = ~is_same.to_numpy(zero_copy_only=False)
        return np.flatnonzero(is_other)

    def _add_new(self, labels: pa.Array, hashes: Hashes) -> Ids:
        """The codes of labels that are not in their slots; each label gets one code."""
        encoded = labels.dictionary_encode()
        rows, distinct = encoded.indices.to_numpy(), encoded.dictionary
        row_of_label = np.empty(len(distinct), dtype=np.int64)
        row_of_label[rows[::-1]] = np.arange(len(rows) - 1, -1, -1)
        hashes = hashes[row_of_label]
        has_namesake = np.zeros(len(distinct), dtype=bool)
        for choice in range(2):
            codes = self._code_in_slot[self._slot(hashes, choice)]
            has_namesake |= (self._hash_of_code[codes] == hashes) & (codes >= 0)
        namesakes = np.flatnonzero(has_namesake)
        names = distinct.take(pa.array(namesakes)).to_pylist()
        codes = np.full(len(distinct), -1, dtype=np.int32)
        codes[namesakes] = [self._code_of_namesake.get(name, -1) for name in names]
        new = np.flatnonzero(codes < 0)
        codes[new] = self._add_codes(hashes[new], distinct.take(pa.array(new)))
        self._code_of_namesake.update(zip(names, codes[namesakes].tolist(), strict=True))
        return codes[rows]

    def _add_codes(self, hashes: Hashes, labels: pa.Array) -> Ids:
        """New codes for these labels."""
        first = self._count
        codes = np.arange(first, first + len(hashes), dtype=np.int32)
        _, offset_buffer, data = labels.buffers()
        starts = np.frombuffer(offset_buffer, np.int64, len(labels) + 1, offset=8 * labels.offset)
        text = np.frombuffer(data or b"", np.uint8)[starts[0] : starts[-1]]
        text_start = int(self._start_of_code[first])
        self._count += len(hashes)
        self._hash_of_code = _with_room(self._hash_of_code, first, self._count)
        self._start_of_code = _with_room(self._start_of_code, first + 1, self._count + 1)
        self._text = _with_room(self._text, text_start, text_start + len(text))
        self._start_of_code[first : self._count + 1] = starts - starts[0] + text_start
        self._text[text_start : text_start + len(text)] = text
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
        first, second = self._slot(hashes, 0), self._slot(hashes, 1)
        self._code_in_slot[np.where(self._code_in_slot[first] < 0, first, second)] = codes


def _with_room(array: np.ndarray, used: int, needed: int) -> np.ndarray:
    """The array, or a copy of its first `used` elements with room for twice the needed ones."""
    if needed <= len(array):
        return array
    # A copy, because ndarray.resize refuses an array that a view may still use.
    grown = np.zeros(2 * needed, dtype=array.dtype)
    grown[:used] = array[:used]
    return grown


def _sorted_by_hash(hashes: Hashes, labels: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The order of labels by hash and then by text, and whether each is the first of equal labels."""
    order = np.argsort(hashes)
    hashes = hashes[order]
    is_first = np.ones(len(order), dtype=bool)
    repeats = np.flatnonzero(hashes[1:] == hashes[:-1])
    if len(repeats):
        is_same = _equal(labels, order[repeats], order[repeats + 1])
        if not is_same.all():
            rows = np.union1d(repeats, repeats + 1)
            table = pa.table({"hash": hashes[rows], "label": labels.take(pa.array(order[rows]))})
            by_text = pc.sort_indices(table, [("hash", "ascending"), ("label", "ascending")])
            order[rows] = order[rows][by_text.to_numpy()]
            is_same = _equal(labels, order[repeats], order[repeats + 1])
        is_first[repeats[is_same] + 1] = False
    return order, is_first


def _equal(
    labels: pa.Array, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Whether the labels at two positions are the same."""
    is_same = pc.equal(labels.take(pa.array(left)), labels.take(pa.array(right)))
    same: npt.NDArray[np.bool_] = is_same.to_numpy(zero_copy_only=False)
    return same
