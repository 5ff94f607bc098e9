"""Every strategy keeps the contract of a division, on hundreds of odd little tasks."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from divea.division import (
    CPS,
    SBP,
    STRATEGIES,
    DivEA,
    Division,
    EvidenceSettings,
    Feedback,
    Subtask,
    Whole,
    check_division,
    division_strategy,
    write_division,
)
from divea.division.resolver import SIZED
from divea.errors import InputError
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.synth import SynthConfig, synthesise
from tests.strategies import small_label, tasks

odd_tasks = tasks(label=small_label, isolated=True, attributes=True)


@pytest.fixture(scope="module")
def pair():
    return synthesise(SynthConfig(entities=1200, seed=6))


@settings(max_examples=60)
@pytest.mark.parametrize("name", STRATEGIES)
@given(task=odd_tasks, parts=st.integers(1, 6), size=st.integers(2, 40), seed=st.integers(0, 9))
def test_every_strategy_keeps_the_contract(name, task, parts, size, seed):
    limit = size if name in SIZED else None
    strategy = division_strategy(name, parts, size, seed=seed)
    first = check_division(strategy, task, size=limit)
    # A second iteration, after one that found every other candidate of a part to be a match.
    found = [
        pair
        for subtask in first.subtasks
        for pair in zip(subtask.unmatched[::2].tolist(), subtask.candidates[::2].tolist(), strict=False)
    ]
    once = {target: source for source, target in found}
    pseudo_seeds = Links.from_pairs([(source, target) for target, source in once.items()])
    check_division(strategy, task, size=limit, feedback=Feedback(first, pseudo_seeds))


@settings(max_examples=200)
@given(
    task=odd_tasks,
    parts=st.integers(1, 5),
    size=st.integers(2, 40),
    method=st.sampled_from(["first_order", "rounds", "exact"]),
    locality=st.sampled_from(["propagate", "bfs"]),
    delta1=st.sampled_from([None, 0.1, 0.5, 0.9]),
    delta2=st.sampled_from([0.0, 0.3]),
)
def test_divea_keeps_its_promises_whatever_the_settings(task, parts, size, method, locality, delta1, delta2):
    strategy = DivEA(
        parts,
        size,
        locality=locality,
        evidence=EvidenceSettings(method=method),
        delta1=delta1,
        delta2=delta2,
    )
    division = check_division(strategy, task, size=size)
    for subtask in division.subtasks:
        # Anchors are paired: one end inside means that both are.
        left = np.isin(task.seeds.source, subtask.source_entities)
        right = np.isin(task.seeds.target, subtask.target_entities)
        np.testing.assert_array_equal(left, right)
        assert len(subtask.candidates) or len(task.unmatched_target) == 0
        local = subtask.local(task)
        assert local.source.num_entities + local.target.num_entities == subtask.size
        assert len(local.seeds) == len(subtask.seeds)


def test_sizes_are_even(pair):
    division = check_division(DivEA(6, 300), pair.task, size=300)
    sizes = [subtask.size for subtask in division.subtasks]
    assert max(sizes) >= 0.99 * 300
    assert min(sizes) > 0.8 * 300


def test_groups_over_their_share_are_divided_further_and_it_is_said(pair):
    division = DivEA(2, 200).divide(pair.task)
    assert len(division) > 2
    assert "divided further" in division.notes[0]


def test_a_size_without_room_for_seeds_is_said(pair):
    note = DivEA(2, 20).divide(pair.task).notes[-1]
    enough = int(re.search(r"hold no seed.* wants an S of (\d+) or more", note)[1])
    assert not any("hold no seed" in note for note in DivEA(2, enough).divide(pair.task).notes)
    path = KnowledgeGraph.from_triples([(f"{at:02}", "next", f"{at + 1:02}") for at in range(40)])
    one = AlignmentTask(path, path, Links.from_pairs([(0, 0)]))  # out of reach of most groups
    assert re.search("hold no seed.* too few seeds", DivEA(10, 400).divide(one).notes[-1])
    assert not any("hold no seed" in note for note in DivEA(3, 900).divide(pair.task).notes)


def test_the_shares_are_chosen_on_held_out_seeds_and_may_be_set(pair):
    chosen = DivEA(3, 900).divide(pair.task)
    assert "held-out seeds" in chosen.notes[-1]
    half = replace(DivEA(3, 900), delta1=0.6).divide(pair.task)
    assert half.shares.source == 0.6
    both = DivEA(3, 900, delta1=0.6, delta2=0.1).divide(pair.task)
    connecting = [
        len(subtask.target_entities) - len(subtask.candidates) - len(subtask.seeds)
        for subtask in both.subtasks
    ]
    assert all(0 < count <= 36 for count in connecting)


def test_a_later_iteration_keeps_the_source_side(pair):
    strategy = DivEA(4, 700)
    first = strategy.divide(pair.task)
    sure = Links(pair.gold.source[:200], pair.gold.target[:200])
    weights = csr_array((len(first), pair.task.target.num_entities))
    second = strategy.divide(pair.task, Feedback(first, sure, weights))
    for before, after in zip(first.subtasks, second.subtasks, strict=True):
        np.testing.assert_array_equal(before.source_entities, after.source_entities)
        own = np.isin(sure.source, after.unmatched)
        # The targets of pseudo-seeds stand nearest of all, and stay candidates.
        assert np.isin(sure.target[own], after.candidates).mean() > 0.95
    assert any(
        not np.array_equal(before.candidates, after.candidates)
        for before, after in zip(first.subtasks, second.subtasks, strict=True)
    )


def test_isbp_learns_and_sbp_does_not(pair):
    sure = Links(pair.gold.source[:300], pair.gold.target[:300])
    plain = SBP(4).divide(pair.task)
    feedback = Feedback(plain, sure)
    assert SBP(4).divide(pair.task, feedback).subtasks == plain.subtasks
    assert SBP(4, iterative=True).divide(pair.task, feedback).subtasks != plain.subtasks


def test_sbp_holds_more_than_cps(pair):
    for narrow, wide in zip(
        CPS(4).divide(pair.task).subtasks, SBP(4).divide(pair.task).subtasks, strict=True
    ):
        assert np.isin(narrow.source_entities, wide.source_entities).all()
        assert np.isin(narrow.target_entities, wide.target_entities).all()


def shuffled_copy(graph: KnowledgeGraph, seed: int) -> KnowledgeGraph:
    """The same statements, in another order and with heads and entities listed anew."""
    rng = np.random.default_rng(seed)
    labels, relations = graph.entities.to_pylist(), graph.relations.to_pylist()
    rows = graph.triples[rng.permutation(graph.num_triples)]
    return KnowledgeGraph.from_triples(
        [(labels[h], relations[r], labels[t]) for h, r, t in rows.tolist()],
        [labels[i] for i in rng.permutation(len(labels))],
    )


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_order_of_the_files_leaves_no_trace(pair, name):
    task = pair.task
    left, right = task.seeds.labels(task.source, task.target)
    source, target = shuffled_copy(task.source, 1), shuffled_copy(task.target, 2)
    order = np.random.default_rng(3).permutation(len(left))
    seeds = Links.from_labels(
        [left.to_pylist()[i] for i in order], [right.to_pylist()[i] for i in order], source, target
    )
    again = AlignmentTask(source, target, seeds)
    strategy = division_strategy(name, 4, 800)
    for one, other in zip(strategy.divide(task).subtasks, strategy.divide(again).subtasks, strict=True):
        for field, graphs in (
            ("source_entities", (task.source, source)),
            ("target_entities", (task.target, target)),
            ("unmatched", (task.source, source)),
            ("candidates", (task.target, target)),
        ):
            assert graphs[0].label(getattr(one, field)) == graphs[1].label(getattr(other, field))


def test_bad_settings_are_refused(pair):
    with pytest.raises(InputError, match="unknown division"):
        division_strategy("thirds", 3, 10)
    with pytest.raises(InputError, match="needs a size limit"):
        division_strategy("divea", 3)
    with pytest.raises(InputError, match="has no setting"):
        division_strategy("cps", 3, delta1=0.5)
    with pytest.raises(InputError, match="S >= 2"):
        DivEA(3, 1)
    with pytest.raises(InputError, match="delta1"):
        DivEA(3, 100, delta1=1.5).divide(pair.task)
    with pytest.raises(InputError, match="N is at most 100 here"):
        DivEA(500, 2000).divide(pair.task)


def test_as_many_subtasks_as_entities_are_quick_where_they_are_small(pair):
    unmatched = len(pair.task.unmatched_source)
    division = check_division(DivEA(unmatched, 4), pair.task, size=4)
    assert 0.9 * unmatched < len(division) <= unmatched


class Broken:
    """Divides properly, and then breaks one promise."""

    def __init__(self, spoil):
        self.spoil = spoil

    def divide(self, task, feedback=None):
        division = Whole().divide(task)
        return Division((self.spoil(division.subtasks[0], task),), division.groups)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda one, task: replace(one, unmatched=one.unmatched[1:]), "exactly one subtask"),
        (lambda one, task: replace(one, candidates=task.seeds.target[:1]), "anchor as a candidate"),
        (lambda one, task: replace(one, seeds=Links.from_pairs([])), "seeds"),
        (lambda one, task: replace(one, source_entities=one.source_entities[::-1]), "sorted"),
        (lambda one, task: replace(one, target_entities=one.target_entities[:5]), "candidates"),
        (lambda one, task: replace(one, index=3), "stands at 0"),
    ],
)
def test_the_check_finds_what_is_wrong(pair, spoil, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_division(Broken(spoil), pair.task)


def test_the_check_finds_an_oversized_subtask(pair):
    with pytest.raises(AssertionError, match="more than 100"):
        check_division(Whole(), pair.task, size=100)
    assert isinstance(Whole().divide(pair.task).subtasks[0], Subtask)


@pytest.fixture
def torch_threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_threads_change_nothing(monkeypatch, tmp_path, torch_threads):
    """Blocks of parts and subtasks are worked on side by side: the same bytes come out as one by one."""
    task = synthesise(SynthConfig(entities=4000, seed=3)).task
    written = []
    for at_once in (1, 2, 5):
        monkeypatch.setattr("divea.division.threads.AT_ONCE", at_once)
        torch_threads(at_once)
        folder = tmp_path / str(at_once)
        write_division(DivEA(20, 700, delta2=0.1).divide(task), task, folder)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        written.append([(path.relative_to(folder), path.read_bytes()) for path in files])
    assert written[0] == written[1] == written[2]
