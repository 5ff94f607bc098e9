import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divea import KnowledgeGraph
from divea.graphs.labels import LabelInterner, as_labels, find_labels, hash_labels, rank_of

words = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=60)


def test_hashes_never_change():
    """Ids depend on these hashes: with other values, no stored task could be opened any more."""
    assert [hex(h) for h in hash_labels(as_labels(["", "a", "http://dbpedia.org/resource/Roma"]))] == [
        "0x0",
        "0xf3b0978bb3a0d2ed",
        "0xd356cf5bf96f5ae0",
    ]


@given(words)
def test_a_hash_depends_on_the_label_alone(values):
    together = hash_labels(as_labels(values))
    alone = [int(hash_labels(as_labels([value]))[0]) for value in values]
    sliced = hash_labels(pa.array(["padding", *values], type=pa.large_string())[1:])
    assert together.tolist() == alone == sliced.tolist()
    assert len(set(alone)) == len(set(values))


def test_hashes_of_similar_labels_are_spread():
    hashes = hash_labels(as_labels([f"http://a.example/E{i}" for i in range(100_000)]))
    assert len(np.unique(hashes)) == 100_000
    # Each bit is set in about half of them: five sigma is 0.8 %.
    share = ((hashes[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)).mean(axis=0)
    assert np.abs(share - 0.5).max() < 0.008


@given(st.lists(st.integers(0, 2**64 - 1), max_size=50), st.lists(st.integers(0, 2**64 - 1), max_size=50))
def test_a_rank_is_the_position_that_a_binary_search_finds(known, others):
    known = np.unique(np.array(known, dtype=np.uint64))
    wanted = np.concatenate([known, np.array(others, dtype=np.uint64)])
    expected = [int(np.searchsorted(known, w)) if w in known else -1 for w in wanted]
    assert rank_of(wanted, known).tolist() == expected


def test_interning_a_dictionary_is_interning_its_values():
    column = pa.array(["b", "a", "b", "c"]).dictionary_encode()[:3]
    interner = LabelInterner()
    codes = interner.add(column)
    labels, id_of_code = interner.finish()
    # "c" is in the dictionary, but in no row.
    assert sorted(labels.to_pylist()) == ["a", "b"]
    assert labels.take(pa.array(id_of_code[codes])).to_pylist() == ["b", "a", "b"]


@given(st.lists(words, max_size=6), st.integers(2, 16))
def test_interning_gives_every_label_one_id(batches, first_size):
    """A tiny table forces collisions, replaced labels and growth."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_BLOCK", "_FIRST_SLOTS"):
            patch.setattr(f"divea.graphs.labels.{name}", 1 << (first_size % 4 + 1))
        interner = LabelInterner()
        codes = [interner.add(as_labels(batch)) for batch in batches]
        labels, id_of_code = interner.finish()
    flat = [value for batch in batches for value in batch]
    assert sorted(labels.to_pylist()) == sorted(set(flat))
    ids = id_of_code[np.concatenate([np.zeros(0, dtype=np.int32), *codes])]
    assert labels.take(pa.array(ids)).to_pylist() == flat
    assert (np.diff(hash_labels(labels).astype(object)) > 0).all()


def test_interning_a_hundred_thousand_labels_in_small_batches():
    values = [f"E{i % 70_000}" for i in range(150_000)]
    interner = LabelInterner()
    codes = [interner.add(as_labels(values[i : i + 999])) for i in range(0, len(values), 999)]
    labels, id_of_code = interner.finish()
    assert len(labels) == 70_000
    assert labels.take(pa.array(id_of_code[np.concatenate(codes)])).to_pylist() == values


@given(words, words)
def test_labels_are_found_at_their_position(known, wanted):
    known = as_labels(sorted(set(known)))
    hashes = hash_labels(known)
    order = np.argsort(hashes)
    known, hashes = known.take(pa.array(order)), hashes[order]
    found = find_labels(as_labels(wanted), known, hashes)
    position = {label: i for i, label in enumerate(known.to_pylist())}
    assert found.tolist() == [position.get(label, -1) for label in wanted]


def test_a_label_with_the_hash_of_another_is_not_found():
    known = as_labels(["a"])
    hash_of_another = hash_labels(as_labels(["b"]))
    assert find_labels(as_labels(["b"]), known, hash_of_another).tolist() == [-1]


NAMESAKES = ["Albert_Einstein1", "izBOU(MfaBwWeY1V"]
"""Two labels with the same hash, found by a search of a second."""


def test_labels_with_the_same_hash_are_two_entities():
    assert len(set(hash_labels(as_labels(NAMESAKES)).tolist())) == 1
    triples = [(NAMESAKES[0], "r", "x"), (NAMESAKES[1], "r", "y"), (NAMESAKES[0], "s", "y")]
    graph, again = (KnowledgeGraph.from_triples(rows) for rows in (triples, triples[::-1]))
    assert graph.num_entities == 4 and graph == again
    assert graph.label(graph.find([*NAMESAKES, "x", "nobody"])) == [*NAMESAKES, "x", None]


@given(st.lists(words, max_size=6), words, st.integers(1, 4))
def test_labels_are_compared_as_text_however_many_share_a_hash(batches, others, hashes):
    def few_hashes(labels):
        return np.array([len(label) % hashes for label in labels.to_pylist()], dtype=np.uint64)

    flat = [value for batch in batches for value in batch]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("divea.graphs.labels.hash_labels", few_hashes)
        interner = LabelInterner()
        codes = [interner.add(as_labels(batch)) for batch in [*batches, *batches]]
        labels, id_of_code = interner.finish()
        found = find_labels(as_labels(flat + others), labels, few_hashes(labels))
    expected = sorted(set(flat), key=lambda label: (len(label) % hashes, label.encode()))
    assert labels.to_pylist() == expected
    ids = id_of_code[np.concatenate([np.zeros(0, dtype=np.int32), *codes])]
    assert labels.take(pa.array(ids)).to_pylist() == flat + flat
    position = {label: i for i, label in enumerate(expected)}
    assert found.tolist() == [position.get(label, -1) for label in flat + others]


def test_an_interner_keeps_the_text_of_a_label_that_shares_its_hash_once():
    """Otherwise a small file of such labels, repeated, could fill the memory."""
    interner = LabelInterner()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("divea.graphs.labels.hash_labels", lambda labels: np.zeros(len(labels), np.uint64))
        for _ in range(100):
            interner.add(as_labels(["a" * 1000, "b" * 1000, "c" * 1000, "d" * 1000] * 5))
        assert interner._count <= 8


@pytest.mark.parametrize("count", [1, 40])
def test_long_labels_have_the_hash_of_their_words(count):
    """Few long labels are hashed one by one, many of them together."""
    values = [chr(97 + number % 26) * (5000 - number) for number in range(count)]
    assert hash_labels(as_labels(values)).tolist() == [reference_hash(value) for value in values]


def reference_hash(label):
    text = label.encode()
    state = len(text) * 0xD6E8FEB86659FD93 % 2**64
    words = [int.from_bytes(text[at : at + 8], "little") for at in range(0, len(text), 8)]
    for word in [*words, 0]:
        state = (state ^ word) * 0x9E3779B97F4A7C15 % 2**64
        state ^= state >> 32
    return state


def test_many_hashes_in_one_bucket_are_found_by_a_binary_search():
    """Their upper bits are equal, so one bucket holds all of them: steps through it would take a minute."""
    known = np.arange(200_000, dtype=np.uint64)
    wanted = known[::-1].copy()
    assert np.array_equal(rank_of(wanted, known), wanted.astype(np.int32))
