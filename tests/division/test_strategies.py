"""Every strategy keeps the contract of a division, on many small and odd tasks."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from divea.config import DivisionSettings, EvidenceSettings, Settings
from divea.config.effects import SIZED_DIVISIONS
from divea.division import (
    CPS,
    ISBP,
    SBP,
    DivEA,
    Division,
    Feedback,
    Joint,
    RandomGroups,
    Subtask,
    Whole,
    check_division,
    make_strategy,
    write_division,
)
from divea.errors import InputError
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.synth import SynthConfig, synthesise
from divea.registry import DIVISIONS
from tests.generators import small_label, tasks

odd_tasks = tasks(label=small_label, isolated=True, attributes=True)


@pytest.fixture(scope="module")
def pair():
    return synthesise(SynthConfig(entities=1200, random_seed=6))


def strategy_named(name, parts, size, random_seed=0):
    return DIVISIONS.load(name).from_settings(parts, size, DivisionSettings(), random_seed=random_seed)


def check_two_iterations(name, task, parts, size, random_seed):
    limit = size if name in SIZED_DIVISIONS else None
    strategy = strategy_named(name, parts, size, random_seed)
    first = check_division(strategy, task, size=limit)
    # The second iteration learns that every other unmatched entity of a part matches a candidate.
    found = [
        pair
        for subtask in first.subtasks
        for pair in zip(subtask.unmatched[::2].tolist(), subtask.candidates[::2].tolist(), strict=False)
    ]
    source_of = {target: source for source, target in found}
    pseudo_seeds = Links.from_pairs([(source, target) for target, source in source_of.items()])
    check_division(strategy, task, size=limit, feedback=Feedback(first, pseudo_seeds))


@pytest.fixture(scope="module")
def one_thread():
    """Switches threads off: they only slow down tiny tasks. Another test shows that they change nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("divea.division.parallel.THREADS", 1)
        yield


def any_division(test):
    """Runs a test on odd tasks, with any number and size of subtasks."""
    return given(
        task=odd_tasks, parts=st.integers(1, 6), size=st.integers(2, 40), random_seed=st.integers(0, 9)
    )(test)


@settings(max_examples=25)
@pytest.mark.parametrize("name", DIVISIONS.names())
@any_division
def test_every_strategy_keeps_the_contract(one_thread, name, task, parts, size, random_seed):
    check_two_iterations(name, task, parts, size, random_seed)


@pytest.mark.slow
@settings(max_examples=100)
@pytest.mark.parametrize("name", DIVISIONS.names())
@any_division
def test_every_strategy_keeps_the_contract_on_many_tasks(one_thread, name, task, parts, size, random_seed):
    check_two_iterations(name, task, parts, size, random_seed)


any_settings_of_divea = st.builds(
    DivisionSettings,
    name=st.just("divea"),
    evidence=st.builds(EvidenceSettings, method=st.sampled_from(["first_order", "rounds", "exact"])),
    locality=st.sampled_from(["propagate", "bfs"]),
    delta1=st.sampled_from([None, 0.1, 0.5, 0.9]),
    delta2=st.sampled_from([0.0, 0.3]),
)


def check_anchors_and_candidates(task, parts, size, division_settings):
    division = check_division(DivEA(parts, size, division_settings), task, size=size)
    for subtask in division.subtasks:
        # Both ends of a seed are inside, or neither is.
        left = np.isin(task.seeds.source, subtask.source_entities)
        right = np.isin(task.seeds.target, subtask.target_entities)
        np.testing.assert_array_equal(left, right)
        assert len(subtask.candidates) or len(task.unmatched_target) == 0
        local = subtask.local(task)
        assert local.source.num_entities + local.target.num_entities == subtask.size
        assert len(local.seeds) == len(subtask.seeds)


@settings(max_examples=25)
@given(odd_tasks, st.integers(1, 5), st.integers(2, 40), any_settings_of_divea)
def test_divea_keeps_anchors_in_pairs_and_has_candidates(one_thread, task, parts, size, division_settings):
    check_anchors_and_candidates(task, parts, size, division_settings)


@pytest.mark.slow
@settings(max_examples=200)
@given(odd_tasks, st.integers(1, 5), st.integers(2, 40), any_settings_of_divea)
def test_divea_keeps_anchors_in_pairs_on_many_tasks(one_thread, task, parts, size, division_settings):
    check_anchors_and_candidates(task, parts, size, division_settings)


def test_rounds_connect_candidates_of_a_single_part():
    """The anchors of a single part are its own, and not those that all parts share."""
    source = KnowledgeGraph.from_triples([("s0", "r", "s1")])
    target = KnowledgeGraph.from_triples([], ["t0", "t1", "t2", "t3"])
    task = AlignmentTask(source, target, Links.from_pairs([(1, 3)]))
    rounds = DivisionSettings(delta1=0.5, delta2=0.3, evidence=EvidenceSettings(method="rounds"))
    check_division(DivEA(1, 10, rounds), task, size=10)


def test_subtasks_are_nearly_equally_large(pair):
    division = check_division(DivEA(6, 300), pair.task, size=300)
    sizes = [subtask.size for subtask in division.subtasks]
    assert max(sizes) >= 0.99 * 300
    assert min(sizes) > 0.8 * 300


def test_groups_above_their_limit_are_divided_further_with_a_note(pair):
    division = DivEA(2, 200).divide(pair.task)
    assert len(division) > 2
    assert "divided further" in division.notes[0]


def test_a_note_says_if_subtasks_hold_no_seed_and_which_size_is_enough(pair):
    note = DivEA(2, 20).divide(pair.task).notes[-1]
    enough = int(re.search(r"hold no seed.* the size should be (\d+) or more", note)[1])
    assert not any("hold no seed" in note for note in DivEA(2, enough).divide(pair.task).notes)
    assert not any("hold no seed" in note for note in DivEA(3, 900).divide(pair.task).notes)


def test_a_note_says_if_there_are_too_few_seeds(pair):
    path = KnowledgeGraph.from_triples([(f"{at:02}", "next", f"{at + 1:02}") for at in range(40)])
    task = AlignmentTask(path, path, Links.from_pairs([(0, 0)]))  # most groups are out of reach of this seed
    assert re.search("hold no seed.* too few seeds", DivEA(10, 400).divide(task).notes[-1])


def test_the_shares_are_chosen_on_held_out_seeds_unless_they_are_given(pair):
    chosen = DivEA(3, 900).divide(pair.task)
    assert "held-out seeds" in chosen.notes[-1]
    given = DivEA(3, 900, DivisionSettings(delta1=0.6)).divide(pair.task)
    assert given.shares.source == 0.6
    both = DivEA(3, 900, DivisionSettings(delta1=0.6, delta2=0.1)).divide(pair.task)
    connecting = [
        len(subtask.target_entities) - len(subtask.candidates) - len(subtask.seeds)
        for subtask in both.subtasks
    ]
    assert all(0 < count <= 36 for count in connecting)


def test_a_later_iteration_keeps_the_source_side_and_chooses_other_candidates(pair):
    strategy = DivEA(4, 700)
    first = strategy.divide(pair.task)
    pseudo_seeds = Links(pair.gold.source[:200], pair.gold.target[:200])
    weights = csr_array((len(first), pair.task.target.num_entities))
    second = strategy.divide(pair.task, Feedback(first, pseudo_seeds, weights))
    for before, after in zip(first.subtasks, second.subtasks, strict=True):
        np.testing.assert_array_equal(before.source_entities, after.source_entities)
        own = np.isin(pseudo_seeds.source, after.unmatched)
        # The targets of pseudo-seeds are the nearest entities of all, so they remain candidates.
        assert np.isin(pseudo_seeds.target[own], after.candidates).mean() > 0.95
    assert any(
        not np.array_equal(before.candidates, after.candidates)
        for before, after in zip(first.subtasks, second.subtasks, strict=True)
    )


def test_isbp_learns_from_pseudo_seeds_and_sbp_does_not(pair):
    pseudo_seeds = Links(pair.gold.source[:300], pair.gold.target[:300])
    first = SBP(4).divide(pair.task)
    feedback = Feedback(first, pseudo_seeds)
    assert SBP(4).divide(pair.task, feedback).subtasks == first.subtasks
    assert ISBP(4).divide(pair.task, feedback).subtasks != first.subtasks


def test_a_subtask_of_sbp_holds_the_one_of_cps(pair):
    for narrow, wide in zip(
        CPS(4).divide(pair.task).subtasks, SBP(4).divide(pair.task).subtasks, strict=True
    ):
        assert np.isin(narrow.source_entities, wide.source_entities).all()
        assert np.isin(narrow.target_entities, wide.target_entities).all()


def shuffled_copy(graph: KnowledgeGraph, random_seed: int) -> KnowledgeGraph:
    """The same triples in another order, with entities listed in another order too."""
    rng = np.random.default_rng(random_seed)
    labels, relations = graph.entities.to_pylist(), graph.relations.to_pylist()
    rows = graph.triples[rng.permutation(graph.num_triples)]
    return KnowledgeGraph.from_triples(
        [(labels[h], relations[r], labels[t]) for h, r, t in rows.tolist()],
        [labels[i] for i in rng.permutation(len(labels))],
    )


@pytest.mark.parametrize("name", DIVISIONS.names())
def test_divisions_do_not_depend_on_the_order_of_the_files(pair, name):
    task = pair.task
    left, right = task.seeds.labels(task.source, task.target)
    source, target = shuffled_copy(task.source, 1), shuffled_copy(task.target, 2)
    order = np.random.default_rng(3).permutation(len(left))
    seeds = Links.from_labels(
        [left.to_pylist()[i] for i in order], [right.to_pylist()[i] for i in order], source, target
    )
    again = AlignmentTask(source, target, seeds)
    strategy = strategy_named(name, 4, 800)
    for one, other in zip(strategy.divide(task).subtasks, strategy.divide(again).subtasks, strict=True):
        for field, graphs in (
            ("source_entities", (task.source, source)),
            ("target_entities", (task.target, target)),
            ("unmatched", (task.source, source)),
            ("candidates", (task.target, target)),
        ):
            assert graphs[0].label(getattr(one, field)) == graphs[1].label(getattr(other, field))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("joint", Joint(DivEA(4, 800, DivisionSettings(name="joint"), 7))),
        ("divea", DivEA(4, 800, DivisionSettings(name="divea"), 7)),
        ("random", RandomGroups(4, 800, DivisionSettings(name="random", partitioner="random"), 7)),
        ("cps", CPS(4, 7)),
        ("sbp", SBP(4, 7)),
        ("isbp", ISBP(4, 7)),
    ],
)
def test_the_settings_name_a_strategy(pair, name, expected):
    values = {"subtasks": 4, "division": name, "random_seed": 7}
    if name in SIZED_DIVISIONS:
        values["size"] = 800
    assert make_strategy(pair.task, Settings.of(None, values)) == expected


def test_without_a_size_the_entities_are_divided_by_the_number_of_subtasks(pair):
    entities = pair.task.source.num_entities + pair.task.target.num_entities
    assert make_strategy(pair.task, Settings(subtasks=7)).first.size == entities // 7


def test_one_subtask_is_the_whole_graph(pair):
    assert make_strategy(pair.task, Settings(subtasks=1)) == Whole()
    assert make_strategy(pair.task, Settings.of(None, {"subtasks": 1, "division": "whole"})) == Whole()


def test_wrong_divisions_are_refused(pair):
    with pytest.raises(InputError, match="unknown division"):
        DivisionSettings(name="thirds")
    with pytest.raises(InputError, match="not chosen yet"):
        make_strategy(pair.task, Settings())
    with pytest.raises(InputError, match=r"5000 is more than the \d+ unmatched source entities"):
        make_strategy(pair.task, Settings(subtasks=5000))
    with pytest.raises(InputError, match=r"division\.delta1 has no effect"):
        Settings.of(None, {"subtasks": 3, "division": {"name": "cps", "delta1": 0.5}})
    with pytest.raises(InputError, match="at least one entity of each graph"):
        DivEA(3, 1)
    with pytest.raises(InputError, match="delta1"):
        DivEA(3, 100, DivisionSettings(delta1=1.5))
    with pytest.raises(InputError, match="use at most 100 subtasks"):
        DivEA(500, 2000).divide(pair.task)


def test_as_many_subtasks_as_entities_are_possible_if_they_are_small(pair):
    unmatched = len(pair.task.unmatched_source)
    division = check_division(DivEA(unmatched, 4), pair.task, size=4)
    assert 0.9 * unmatched < len(division) <= unmatched


class Broken:
    """Divides properly, and then breaks one rule of the contract."""

    def __init__(self, spoil):
        self.spoil = spoil

    def divide(self, task, feedback=None):
        division = Whole().divide(task)
        return Division((self.spoil(division.subtasks[0], task),), division.groups)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda subtask, task: replace(subtask, unmatched=subtask.unmatched[1:]), "exactly one subtask"),
        (lambda subtask, task: replace(subtask, candidates=task.seeds.target[:1]), "anchor among its cand"),
        (lambda subtask, task: replace(subtask, seeds=Links.from_pairs([])), "seeds"),
        (lambda subtask, task: replace(subtask, source_entities=subtask.source_entities[::-1]), "sorted"),
        (lambda subtask, task: replace(subtask, target_entities=subtask.target_entities[:5]), "candidates"),
        (lambda subtask, task: replace(subtask, index=3), "is at position 0"),
    ],
)
def test_the_contract_check_finds_what_is_wrong(pair, spoil, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_division(Broken(spoil), pair.task)


def test_the_contract_check_finds_a_subtask_above_the_size_limit(pair):
    with pytest.raises(AssertionError, match="more than 100"):
        check_division(Whole(), pair.task, size=100)
    assert isinstance(Whole().divide(pair.task).subtasks[0], Subtask)


@pytest.fixture
def torch_threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_the_number_of_threads_does_not_change_a_byte(monkeypatch, tmp_path, torch_threads):
    """Blocks of parts, and subtasks, are computed in parallel."""
    task = synthesise(SynthConfig(entities=1200, random_seed=3)).task
    written = []
    for threads in (1, 2, 5):
        monkeypatch.setattr("divea.division.parallel.THREADS", threads)
        torch_threads(threads)
        folder = tmp_path / str(threads)
        # 20 parts are three blocks.
        division = DivEA(20, 210, DivisionSettings(delta2=0.1)).divide(task)
        write_division(division, task, folder)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        written.append([(path.relative_to(folder), path.read_bytes()) for path in files])
    assert written[0] == written[1] == written[2]
