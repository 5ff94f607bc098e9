"""`divea review` and `divea suggest`: what they choose, what a sheet shows, and the way back into a run."""

import csv
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import divea
from divea.curation.review import doubts, margins
from divea.curation.worth import _SALT as SALT
from divea.curation.worth import ENOUGH_NEIGHBOURS, SPREAD, choose
from divea.errors import InputError
from divea.formats.sheets import with_verdicts
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.synth import SynthConfig, synthesise
from divea.runs.finished import RankedLists, open_finished, read_ranked_lists
from divea.types import Matches
from tests.command_line import divea as command
from tests.runs.tiny import PAIR, SETTINGS, tables, write_inputs

HELD_BACK = {"confidence": 0.4, "no confidence": 0.0, "names": 0.1}


@pytest.fixture(scope="module", params=["confidence", "no confidence", "names"])
def alignment(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("reviewed") / "run"
    named = request.param == "names"
    share = 0 if named else 0.5
    pair = synthesise(SynthConfig(entities=300, names=named, seed_share=share, random_seed=4))
    held_back = {"confidence": {"held_back": HELD_BACK[request.param]}}
    chosen = {**SETTINGS, "features": "names+attributes" if named else "none", **held_back}
    found = divea.align(pair.task, out=out, device="cpu", **chosen)
    has_confidence = found.ranked["confidence"].null_count < len(found.ranked)
    assert has_confidence == (request.param != "no confidence")
    return found


def dense_choice(graph, own, count, known, ties):
    """The rule of `choose`, written with dense matrices."""
    adjacency = (graph.adjacency.toarray() > 0) * (1 - np.eye(graph.num_entities))
    degree = adjacency.sum(axis=1)
    shares = adjacency / np.maximum(degree, 1)[:, None]
    evidence = shares + shares @ shares
    is_known = np.isin(np.arange(graph.num_entities), known).astype(float)
    chosen = []
    while len(chosen) < count and any((own > 0) & ~np.isin(np.arange(len(own)), chosen)):
        worth = own * np.minimum(degree / ENOUGH_NEIGHBOURS, 1) * np.exp(-SPREAD * (evidence @ is_known))
        worth[chosen] = 0
        best = np.flatnonzero(np.isclose(worth, worth.max(), rtol=1e-9, atol=0))
        if worth.max() == 0:
            best = np.flatnonzero((own > 0) & ~np.isin(np.arange(len(own)), chosen))
        entity = best[np.argmin(ties[best])]
        chosen.append(int(entity))
        is_known[entity] += 1
    return chosen


@settings(max_examples=60, deadline=None)
@given(
    edges=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30),
    known=st.sets(st.integers(0, 11), max_size=3),
    random_seed=st.integers(0, 1000),
)
def test_the_choice_is_that_of_the_rule(edges, known, random_seed):
    names = [f"e{number:02}" for number in range(12)]
    graph = KnowledgeGraph.from_triples([(names[a], "r", names[b]) for a, b in edges], extra_entities=names)
    draw = np.random.default_rng(random_seed)
    own = draw.random(12) * draw.integers(0, 2, 12)
    ties = np.random.default_rng([random_seed, SALT]).permutation(12)
    seeds = np.array(sorted(known), dtype=np.int32)
    chosen = choose(graph, own, 8, known=seeds, random_seed=random_seed)
    assert chosen.tolist() == dense_choice(graph, own, 8, seeds, ties)
    assert (own[chosen] > 0).all() and len(chosen) == min(8, (own > 0).sum())


def test_the_choice_spreads_over_the_parts_of_a_graph():
    """Ten equal stars and ten chosen: each star gets one before any gets a second."""
    graph = KnowledgeGraph.from_triples(
        [(f"hub{star}", "r", f"leaf{star}.{leaf}") for star in range(10) for leaf in range(6)]
    )
    names = graph.label(choose(graph, np.ones(graph.num_entities), 10))
    assert {name[:3] for name in names} == {"hub"} and len(set(names)) == 10


def test_equal_worth_is_decided_by_a_draw():
    graph = KnowledgeGraph.from_triples([], [f"e{number}" for number in range(50)])
    choices = {tuple(choose(graph, np.ones(50), 5, random_seed=number).tolist()) for number in range(4)}
    assert len(choices) == 4
    assert tuple(choose(graph, np.ones(50), 5, random_seed=1).tolist()) in choices


def lists_of(confidence, score, targets=None):
    """Ranked lists of some sources, of which each has the first of its list."""
    count = len(confidence)
    targets = targets or [[at, count + at] for at in range(count)]
    ids = np.arange(count, dtype=np.int32)
    matches = Matches(ids, np.array(targets, np.int32), np.float32(score), np.zeros(count, bool))
    assigned = Links.from_pairs([(at, targets[at][0]) for at in range(count)])
    first = np.float32(score)[:, 0]
    return RankedLists(matches, assigned, np.array(confidence, float), first, np.ones(count, np.int32))


def test_doubt_is_the_lack_of_confidence_or_else_of_a_margin():
    scores = [[0.9, 0.1], [0.5, 0.5], [0.5, -np.inf]]
    assert doubts(lists_of([1.0, 0.5, 0.0], scores)).tolist() == [0, 0.5, 1]
    assert doubts(lists_of([np.nan] * 3, scores)).round(6).tolist() == [0.2, 1.0, 0.5]
    assert margins(lists_of([np.nan] * 3, scores)).round(6).tolist() == [0.8, 0.0, 0.5]
    assert margins(lists_of([np.nan], [[0.7]], [[1]])).round(6).tolist() == [0.7]


def rows_of(path):
    with path.open(newline="") as file:
        lines = [line for line in file if not line.startswith(("#", '"#'))]
    delimiter = "," if path.suffix == ".csv" else "\t"
    return list(
        csv.DictReader(lines, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if delimiter == "," else 3)
    )


def test_a_sheet_shows_pairs_of_the_run_with_names_context_and_other_candidates(alignment, tmp_path):
    table = alignment.review(tmp_path / "sheet.tsv", pairs=30)
    rows = rows_of(tmp_path / "sheet.tsv")
    assert len(rows) == len(table) == 30
    ranked = alignment.ranked.to_pylist()
    given_pairs = {(row["source"], row["target"]) for row in ranked if row["given"]}
    listed = {}
    for row in ranked:
        listed.setdefault(row["source"], []).append(row["target"])
    for row in rows:
        assert row["verdict"] == ""
        assert (row["source"], row["target"]) in given_pairs
        others = [row[f"other_{number}"] for number in (1, 2, 3) if row[f"other_{number}"]]
        expected = [target for target in listed[row["source"]][:4] if target != row["target"]][:3]
        assert others == expected
        assert row["source_label"] and row["target_label"] and ": " in row["source_context"]
    assert len({row["source"] for row in rows}) == 30


def test_the_pairs_of_a_sheet_are_more_doubtful_than_others(alignment, tmp_path):
    finished = open_finished(alignment.path)
    lists = read_ranked_lists(finished)
    table = alignment.review(tmp_path / "sheet.tsv", pairs=30)
    chosen = np.isin(lists.assigned.source, finished.task.source.find(table["source"]))
    assert doubts(lists)[chosen].mean() > 1.2 * doubts(lists)[~chosen].mean()


def test_the_same_run_gives_the_same_sheet_and_a_shorter_one_is_its_start(alignment, tmp_path):
    alignment.review(tmp_path / "one.tsv", pairs=30)
    alignment.review(tmp_path / "two.tsv", pairs=30)
    alignment.review(tmp_path / "short.tsv", pairs=10)
    text = (tmp_path / "one.tsv").read_text()
    assert text == (tmp_path / "two.tsv").read_text()
    assert text.splitlines()[:6] == (tmp_path / "short.tsv").read_text().splitlines()[:6]
    assert len(alignment.review(tmp_path / "all.tsv", pairs=100_000)) <= 300


@pytest.mark.parametrize("name", ["sheet.tsv", "sheet.csv", "sheet.sssom.tsv"])
def test_a_filled_in_sheet_goes_back_into_the_run(alignment, tmp_path, name):
    table = alignment.review(tmp_path / name, pairs=20)
    path = tmp_path / name
    lines = path.read_text().splitlines()
    start = next(at for at, line in enumerate(lines) if not line.startswith(("#", '"#')))
    if "sssom" in name:
        # The last two columns are predicate_modifier and reviewer_label.
        lines[start + 1 :] = [
            line.removesuffix("\t\t") + ("\tNot\t" if at % 2 else "\t\tme")
            for at, line in enumerate(lines[start + 1 :])
        ]
    else:
        lines[start + 1 :] = [
            ("reject" if at % 2 else "accept") + line for at, line in enumerate(lines[start + 1 :])
        ]
    path.write_text("\n".join(lines) + "\n")
    task = with_verdicts(alignment.task, [path])
    sources, targets = table["source"], table["target"]
    both = Links.from_labels(sources, targets, task.source, task.target)
    accepted = Links.from_labels(sources.to_pylist()[::2], targets.to_pylist()[::2], task.source, task.target)
    assert task.seeds == alignment.task.seeds.union(accepted)
    assert task.rejected == both.without(accepted)


def test_suggestions_of_a_run_have_its_candidates(alignment, tmp_path):
    table = divea.suggest(alignment.path, tmp_path / "labels.tsv", 25)
    rows = rows_of(tmp_path / "labels.tsv")
    assert len(rows) == len(table) == 25
    assert all(row["target"] and row["other_1"] for row in rows)
    anchors = set(alignment.task.source.label(alignment.task.seeds.source))
    assert not anchors & {row["source"] for row in rows}


def test_suggestions_for_a_task_need_neither_seeds_nor_a_run(tmp_path):
    task = AlignmentTask(PAIR.task.source, PAIR.task.target)
    table = divea.suggest(task, tmp_path / "labels.tsv", 20)
    assert table["target"].null_count == 20
    degrees = task.source.degrees[task.source.find(table["source"])]
    assert degrees.mean() > task.source.degrees.mean()
    # A person names the counterparts, and the sheet is the start of an alignment.
    target_of = dict(
        zip(*(side.to_pylist() for side in PAIR.gold.labels(task.source, task.target)), strict=True)
    )
    lines = (tmp_path / "labels.tsv").read_text().splitlines()
    lines[2:] = [
        target_of.get(row["source"], "") + line
        for row, line in zip(table.to_pylist(), lines[2:], strict=True)
    ]
    (tmp_path / "labels.tsv").write_text("\n".join(lines))
    started = divea.align(task, reviewed=tmp_path / "labels.tsv", device="cpu", **SETTINGS)
    assert len(started.task.seeds) == sum(source in target_of for source in table["source"].to_pylist()) > 5


def test_suggestions_keep_away_from_seeds_and_leave_them_out(tmp_path):
    table = divea.suggest(PAIR.task, tmp_path / "labels.tsv", 100_000)
    assert len(table) == PAIR.task.source.num_entities - len(PAIR.task.seeds)
    graph = KnowledgeGraph.from_triples(
        [(f"hub{star}", "r", f"leaf{star}.{leaf}") for star in range(2) for leaf in range(6)]
    )
    seeds = Links.from_labels(["hub0"], ["hub0"], graph, graph)
    assert divea.suggest(AlignmentTask(graph, graph, seeds), tmp_path / "x.tsv", 1)["source"].to_pylist() == [
        "hub1"
    ]


def test_entities_of_earlier_sheets_are_left_out(alignment, tmp_path):
    first, second = tmp_path / "one.tsv", tmp_path / "two.csv"
    seen = set(divea.suggest(alignment.path, first, 20)["source"].to_pylist())
    more = set(divea.suggest(alignment.path, second, 20, asked=[first])["source"].to_pylist())
    assert len(seen | more) == 40
    third = divea.suggest(alignment.task, tmp_path / "three.tsv", 1000, asked=[first, second])
    assert not set(third["source"].to_pylist()) & (seen | more)
    assert len(third) + 40 + len(alignment.task.seeds) == alignment.task.source.num_entities
    with pytest.raises(InputError, match="nothing is left to label"):
        divea.suggest(alignment.task, tmp_path / "four.tsv", asked=[first, second, tmp_path / "three.tsv"])


@pytest.mark.parametrize("count", [0, -1, 100_001, True, 2.5])
def test_impossible_numbers_are_refused(alignment, tmp_path, count):
    with pytest.raises(InputError, match="pairs: expected a whole number from 1 to 100000"):
        alignment.review(tmp_path / "sheet.tsv", count)
    with pytest.raises(InputError, match="entities: expected a whole number from 1 to 100000"):
        divea.suggest(alignment.task, tmp_path / "sheet.tsv", count)
    assert not (tmp_path / "sheet.tsv").exists()


def test_files_that_a_sheet_must_not_be_are_refused(alignment, tmp_path):
    with pytest.raises(InputError, match="is a file of the run"):
        alignment.review(alignment.path / "mappings.tsv")
    with pytest.raises(InputError, match="is a file of the run"):
        divea.suggest(alignment.path, alignment.path / "mappings.tsv")
    with pytest.raises(InputError, match="cannot hold entities without a target"):
        divea.suggest(alignment.task, tmp_path / "labels.sssom.tsv")
    with pytest.raises(InputError, match=r"only \.tsv and \.csv files are for spreadsheets"):
        alignment.review(tmp_path / "sheet.sssom.tsv", for_spreadsheet=True)


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory):
    """A folder with a run, a sheet of which all pairs are rejected, and the command that uses it."""
    folder = tmp_path_factory.mktemp("command")
    align = write_inputs(folder)
    assert command(*align, "--out", folder / "run").code == 0
    ended = command("review", folder / "run", "-o", folder / "sheet.tsv", "--pairs", 25)
    assert ended.code == 0 and "25 of " in ended.out, ended
    lines = (folder / "sheet.tsv").read_text().splitlines()
    (folder / "sheet.tsv").write_text("\n".join([*lines[:2], *(f"reject{line}" for line in lines[2:])]))
    return folder, [*align, "--reviewed", folder / "sheet.tsv"]


def test_rejected_pairs_are_absent_from_the_next_run(reviewed, tmp_path):
    folder, align = reviewed
    ended = command(*align, "--out", tmp_path / "run")
    assert ended.code == 0, ended
    rejected = {(row["source"], row["target"]) for row in rows_of(folder / "sheet.tsv")}
    assert len(rejected) == 25
    old, new = divea.Alignment(folder / "run"), divea.Alignment(tmp_path / "run")
    for table, is_new in ((old.ranked, False), (new.ranked, True), (new.mappings, True)):
        pairs = set(zip(table["source"].to_pylist(), table["target"].to_pylist(), strict=True))
        assert (pairs & rejected == set()) == is_new
    assert len(new.task.rejected) == 25
    assert "rejected pairs" in json.loads((tmp_path / "run" / "manifest.json").read_text())["task"]
    source, target = next(iter(rejected))
    assert new.explain(source, target).verdict == "not matched: a review rejected this pair"
    assert "25 rejected pairs" in command("info", tmp_path / "run" / "task").out
    # The run continues without the sheet, and refuses another one.
    before = tables(tmp_path / "run")
    assert command("align", "--out", tmp_path / "run").code == 0
    assert tables(tmp_path / "run") == before
    refused = command(*align[:-2], "--out", tmp_path / "run")
    assert refused.code == 2 and "is a run of something else (the rejected pairs)" in refused.err
    refused = command(*align, "--out", folder / "run")
    assert refused.code == 2 and "is a run of something else (the rejected pairs)" in refused.err
    refused = command("align", "--reviewed", folder / "sheet.tsv", "--out", tmp_path / "run")
    assert refused.code == 2 and "--reviewed has no effect" in refused.err


def test_a_stored_task_without_its_rejected_pairs_is_damaged(reviewed, tmp_path):
    _, align = reviewed
    assert command(*align, "--out", tmp_path / "run").code == 0
    before = tables(tmp_path / "run")
    (tmp_path / "run" / "task" / "rejected.npy").unlink()
    refused = command("align", "--out", tmp_path / "run")
    assert refused.code == 2 and "is damaged; name the task again to repair it" in refused.err
    assert command(*align, "--out", tmp_path / "run").code == 0
    assert (tmp_path / "run" / "task" / "rejected.npy").is_file()
    assert tables(tmp_path / "run") == before


def test_layouts_without_rejected_pairs_say_so(reviewed, tmp_path):
    folder, _ = reviewed
    task = with_verdicts(divea.read_task(folder / "task"), [folder / "sheet.tsv"])
    assert "25 rejected pairs are left out" in divea.write_task(task, tmp_path / "openea", "openea")
    assert divea.write_task(task, tmp_path / "own") == []
    assert divea.read_task(tmp_path / "own").rejected == task.rejected


def test_the_command_suggests_for_tasks_graph_files_and_runs(reviewed, tmp_path):
    folder, _ = reviewed
    for inputs in ([folder / "task"], [folder / "run"]):
        ended = command("suggest", *inputs, "-k", 7, "-o", tmp_path / "labels.tsv")
        assert ended.code == 0 and "7 entities" in ended.out, ended
        assert len(rows_of(tmp_path / "labels.tsv")) == 7
    refused = command("suggest", folder / "run", "--random-seed", 3, "-o", tmp_path / "labels.tsv")
    assert refused.code == 2 and "a run has its graphs, seeds and random seed" in refused.err
    refused = command("suggest", "-o", tmp_path / "labels.tsv")
    assert refused.code == 2 and "name either a task folder" in refused.err


def test_a_run_without_candidates_suggests_nothing(tmp_path):
    """Every target entity is a seed."""
    source = KnowledgeGraph.from_triples([(f"s{i}", "r", f"s{i + 1}") for i in range(8)])
    target = KnowledgeGraph.from_triples([("t0", "r", "t1"), ("t1", "r", "t2")])
    seeds = Links.from_labels([f"s{i}" for i in range(3)], [f"t{i}" for i in range(3)], source, target)
    task = AlignmentTask(source, target, seeds)
    found = divea.align(task, out=tmp_path / "run", device="cpu", features="none", subtasks=1)
    with pytest.raises(InputError, match="in doubt about nothing"):
        divea.suggest(found.path, tmp_path / "sheet.tsv", 3)
    with pytest.raises(InputError, match="assigned no pairs"):
        found.review(tmp_path / "sheet.tsv")
