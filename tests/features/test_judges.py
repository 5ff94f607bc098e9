"""Structure as a judge: a source entity is never judged by what its own pseudo-seed told."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divea.features import fusion, judges
from divea.features.judges import Structure
from divea.features.propagation import Propagation
from divea.graphs import AlignmentTask, Links
from divea.graphs.planted import planted_pair

PAIR = planted_pair(150, 700, 4, 30, random_seed=2)


@pytest.fixture
def told(monkeypatch):
    """The known pairs of each propagation, and the vectors that it gave."""
    calls = []
    compute = Propagation.compute

    def spy(self, task, known, **options):
        vectors = compute(self, task, known, **options)
        calls.append((known, vectors))
        return vectors

    monkeypatch.setattr(Propagation, "compute", spy)
    return calls


def check_halves(task, pseudo_seeds, structure, calls):
    """No half was told a pseudo-seed of its own sources; the halves hold every source but the anchors."""
    by_vectors = {id(vectors): known for known, vectors in calls if vectors is not None}
    for half in structure.halves:
        known = set(map(tuple, by_vectors[id(half.vectors)].pairs.tolist()))
        own = pseudo_seeds.pairs[np.isin(pseudo_seeds.source, half.sources)]
        assert not known & set(map(tuple, own.tolist()))
        others = pseudo_seeds.pairs[~np.isin(pseudo_seeds.source, half.sources)]
        assert known == {*map(tuple, others.tolist()), *map(tuple, task.seeds.pairs.tolist())}
        assert np.array_equal(half.sources, np.flatnonzero(structure.half_of_source == half.number))
    assert set(np.unique(structure.half_of_source)) <= {-1, 0, 1}
    is_anchor = np.isin(np.arange(task.source.num_entities), task.seeds.source)
    assert np.array_equal(structure.half_of_source == -1, is_anchor)


@pytest.mark.parametrize("seeds", [0, 30])
def test_no_half_is_told_its_own_pseudo_seeds(told, seeds):
    task = AlignmentTask(PAIR.task.source, PAIR.task.target, Links.from_pairs(PAIR.task.seeds.pairs[:seeds]))
    pseudo_seeds = Links.from_pairs(PAIR.gold.pairs[:60])
    structure = Structure.of(task, pseudo_seeds)
    assert len(told) == len(structure.halves) == 2
    check_halves(task, pseudo_seeds, structure, told)
    sources = np.concatenate([half.sources for half in structure.halves])
    assert np.array_equal(np.sort(sources), task.unmatched_source)


@pytest.mark.parametrize("place", range(6))
def test_a_single_pseudo_seed_does_not_judge_its_own_source(told, place):
    """One half has nothing to start from. The other one must not answer for its entities."""
    task = AlignmentTask(PAIR.task.source, PAIR.task.target)
    pseudo_seeds = Links.from_pairs(PAIR.gold.pairs[[place]])
    structure = Structure.of(task, pseudo_seeds)
    check_halves(task, pseudo_seeds, structure, told)
    assert len(structure.halves) == 1
    source, target = pseudo_seeds.source.astype(np.int64), pseudo_seeds.target.astype(np.int64)
    assert structure.similarity(source, target).tolist() == [0.0]
    assert len(structure.nearest(source)[0]) == 0
    assert not np.isin(structure.sure.source, pseudo_seeds.source).any()


def test_the_judgement_of_a_source_does_not_change_with_its_own_pseudo_seed():
    task = AlignmentTask(PAIR.task.source, PAIR.task.target)
    right = PAIR.gold.pairs[:60].copy()
    wrong = right.copy()
    wrong[[0, 1], 1] = right[[1, 0], 1]
    ends = np.repeat(right[:1, 0], 20).astype(np.int64), PAIR.gold.target[:20].astype(np.int64)
    half_of = Structure.of(task, Links.from_pairs(right)).half_of_source
    if half_of[right[0, 0]] != half_of[right[1, 0]]:
        pytest.fail("choose two pseudo-seeds whose sources are in the same half")
    found = [Structure.of(task, Links.from_pairs(pairs)).similarity(*ends) for pairs in (right, wrong)]
    assert np.array_equal(*found)
    assert found[0].any()


def test_structure_finds_what_it_was_not_told():
    task = AlignmentTask(PAIR.task.source, PAIR.task.target)
    sure = Structure.of(task, Links.from_pairs(PAIR.gold.pairs[:90])).sure
    gold = set(map(tuple, PAIR.gold.pairs.tolist())) | set(map(tuple, PAIR.task.seeds.pairs.tolist()))
    right = sum(pair in gold for pair in map(tuple, sure.pairs.tolist()))
    assert len(sure) > 30
    assert right / len(sure) > 0.9


def test_structure_is_sure_only_of_pairs_with_enough_matching_neighbours():
    task, told = AlignmentTask(PAIR.task.source, PAIR.task.target), PAIR.gold.pairs[:60]
    sure = Structure.of(task, Links.from_pairs(told)).sure
    match = {(int(source), int(target)) for source, target in told}
    near = [
        [set(graph.adjacency[[entity]].indices.tolist()) for entity in entities]
        for graph, entities in ((task.source, sure.source), (task.target, sure.target))
    ]
    counts = [
        sum((one, other) in match for one in left for other in right)
        for left, right in zip(*near, strict=True)
    ]
    assert counts and min(counts) >= judges.LEAST_SUPPORT


def test_structure_is_worth_more_to_right_judges_than_to_wrong_ones():
    task = AlignmentTask(PAIR.task.source, PAIR.task.target)
    structure = Structure.of(task, Links.from_pairs(PAIR.gold.pairs[:90]))
    right = PAIR.gold.pairs
    wrong = np.stack([right[:, 0], np.roll(right[:, 1], 1)], axis=1)
    assert structure.weight(Links.from_pairs(right)) > 0.3
    assert structure.weight(Links.from_pairs(wrong)) == 0
    assert structure.weight(Links.from_pairs(right[: fusion.FEWEST_PAIRS - 1])) is None


def test_seeds_do_not_judge_structure_that_was_told_them():
    structure = Structure.of(PAIR.task, Links.from_pairs([]))
    assert structure.weight(PAIR.task.seeds) is None
    assert structure.weight(PAIR.gold) == structure.weight(PAIR.gold.union(PAIR.task.seeds))


def test_without_pseudo_seeds_labels_are_propagated_once(told):
    structure = Structure.of(PAIR.task, Links.from_pairs([]))
    assert len(told) == len(structure.halves) == 1
    check_halves(PAIR.task, Links.from_pairs([]), structure, told)


@settings(max_examples=10)
@given(st.integers(0, 90), st.integers(0, 100))
def test_sure_pairs_are_one_to_one_and_have_no_source_anchor(count, random_seed):
    draw = np.random.default_rng(random_seed)
    pairs = PAIR.gold.pairs[draw.permutation(len(PAIR.gold))[:count]].copy()
    pairs[:, 1] = np.where(draw.random() < 0.5, pairs[:, 1], draw.permutation(pairs[:, 1]))
    structure = Structure.of(PAIR.task, Links.from_pairs(pairs), random_seed=random_seed)
    sure = structure.sure
    assert len(set(sure.source)) == len(set(sure.target)) == len(sure)
    assert not np.isin(sure.source, PAIR.task.seeds.source).any()


def test_similarity_and_nearest_are_those_of_the_dense_cosine(monkeypatch):
    monkeypatch.setattr(fusion, "_BLOCK", 7)
    structure = Structure.of(PAIR.task, Links.from_pairs(PAIR.gold.pairs[:40]))
    count = PAIR.task.source.num_entities
    dense = np.zeros((count, count))
    for half in structure.halves:
        sides = [np.float64(side) for side in (half.vectors.source, half.vectors.target)]
        unit = [side / np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-12) for side in sides]
        dense[half.sources] = (unit[0] @ unit[1].T)[half.sources]
    source, target = np.divmod(np.random.default_rng(0).permutation(count * count)[:500], count)
    assert np.allclose(structure.similarity(source, target), dense[source, target], atol=1e-3)
    assert not structure.similarity(PAIR.task.seeds.source.astype(np.int64), np.zeros(30, np.int64)).any()
    sources = PAIR.task.unmatched_source[:20].astype(np.int64)
    row, near = structure.nearest(sources)
    assert np.array_equal(np.bincount(row, minlength=20), np.full(20, 10))
    for position, one in enumerate(sources):
        expected = np.sort(dense[one])[-10:]
        assert np.allclose(np.sort(dense[one, near[row == position]]), expected, atol=1e-3)


def test_without_pseudo_seeds_and_seeds_structure_says_nothing():
    structure = Structure.of(AlignmentTask(PAIR.task.source, PAIR.task.target), Links.from_pairs([]))
    some = np.arange(5)
    assert not structure.halves and not len(structure.sure)
    assert not structure.similarity(some, some).any()
    assert not len(structure.nearest(some)[0])
