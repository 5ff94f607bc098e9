"""Refining a run: what is solved again, what is taken over, and that nothing contradicts the new pairs."""

import shutil
import signal
from contextlib import closing

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import divea
from divea.division import Division, Subtask, load_division
from divea.errors import InputError
from divea.graphs import Links, load_task
from divea.graphs.synth import SynthConfig, synthesise
from divea.runs.layout import DIVISION, RANKED, TASK
from divea.runs.refine import Before, open_before, without_new_anchors, without_pairs
from divea.types import Matches
from tests.command_line import divea as command
from tests.runs.crashing import Crasher
from tests.runs.tiny import NAMED_PAIR, SETTINGS, events, solved_now, tables, write_inputs

SUBTASKS = 8
PAIR = synthesise(SynthConfig(entities=400, random_seed=3))
GOLD = PAIR.gold.without(PAIR.task.seeds)
SEVERAL = ("--iterations", 3, "--set", "matching.average=3")

CASES = {
    "held back": SEVERAL,
    "one iteration": ("--iterations", 1),
    "cross-validation": (*SEVERAL, "--set", "confidence.folds=2"),
    "joint division": (*SEVERAL, "--set", "division.name=joint"),
    "without confidence": (*SEVERAL, "--set", "confidence.held_back=0"),
}


def label(side, ids):
    return (PAIR.task.source if side == "source" else PAIR.task.target).label(ids)


def write_sheet(path, accepted, rejected):
    """A sheet with verdicts on pairs of ids."""
    lines = ["verdict\tsource\ttarget"]
    for verdict, pairs in (("accept", accepted), ("reject", rejected)):
        for source, target in pairs:
            lines.append(f"{verdict}\t{label('source', [source])[0]}\t{label('target', [target])[0]}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module", params=CASES, ids=list(CASES))
def finished(request, tmp_path_factory):
    """A folder with a finished run, and a sheet with an accepted and a rejected pair."""
    folder = tmp_path_factory.mktemp("refined")
    options = "-n", SUBTASKS, *CASES[request.param]
    ended = command(*write_inputs(folder, PAIR), *options, "--out", folder / "run")
    assert ended.code == 0, ended.err
    found = divea.Alignment(folder / "run")
    subtasks = found._run.division.subtasks
    wrong = rarest(found._ranked_lists.assigned.without(PAIR.gold), subtasks)
    # Pairs that share no end with the rejected one.
    free = GOLD.pairs[(GOLD.source != wrong.source) & (GOLD.target != wrong.target)]
    right = rarest(Links.from_pairs(free), subtasks)
    write_sheet(folder / "sheet.tsv", right.pairs, wrong.pairs)
    return folder, right, wrong


def rarest(links, subtasks):
    """One of the links: the one with an end in the fewest subtasks."""
    count = sum(
        np.isin(links.source, subtask.source_entities) | np.isin(links.target, subtask.target_entities)
        for subtask in subtasks
    )
    return Links.from_pairs(links.pairs[[int(np.argmin(count))]])


def refine(folder, out, *options):
    given = ["--from", folder / "run", "--reviewed", folder / "sheet.tsv", "--device", "cpu"]
    ended = command("align", *given, "--out", out, *options)
    assert ended.code == 0, ended.err
    return ended


def test_only_what_the_verdicts_concern_is_solved_again(finished, tmp_path):
    folder, accepted, rejected = finished
    ended = refine(folder, tmp_path / "run2")
    before = load_division(folder / "run" / DIVISION, load_task(folder / "run" / TASK))
    concerned = set()
    for subtask in before.subtasks:
        source, target = (set(ids.tolist()) for ids in (subtask.source_entities, subtask.target_entities))
        both = [*accepted.pairs.tolist(), *rejected.pairs.tolist()]
        if any(one in source and other in target for one, other in both):
            concerned.add(subtask.index)
        # An anchor is not matched any more.
        if (
            np.isin(subtask.unmatched, accepted.source).any()
            or np.isin(subtask.candidates, accepted.target).any()
        ):
            concerned.add(subtask.index)
    now = {
        index
        for event in events(tmp_path / "run2")
        if event["event"] == "solved"
        for index in event["subtasks"]
    }
    # A pseudo-seed that contradicts a verdict goes as well, from every subtask that it is in.
    assert concerned <= now
    assert len(now) < SUBTASKS, "nothing was taken over: the test shows nothing"
    assert f"solves {len(now)} of {SUBTASKS} subtasks again" in ended.err
    last = max(path.name for path in (folder / "run").glob("iteration-*"))
    for index in set(range(SUBTASKS)) - now:
        name = f"{last}/subtask-{index:05}.npz"
        assert (tmp_path / "run2" / name).read_bytes() == (folder / "run" / name).read_bytes()


def test_what_is_taken_over_is_what_would_have_been_solved(finished, tmp_path, monkeypatch):
    """The oracle: the same refinement that takes no result over ends with the same bytes."""
    folder, _, _ = finished
    refine(folder, tmp_path / "run2")
    monkeypatch.setattr(Before, "results", lambda *_: None)
    refine(folder, tmp_path / "all", "--executor", "inline")
    assert solved_now(tmp_path / "all") == SUBTASKS > solved_now(tmp_path / "run2")
    assert tables(tmp_path / "all") == tables(tmp_path / "run2")


def test_verdicts_hold(finished, tmp_path):
    folder, accepted, rejected = finished
    refine(folder, tmp_path / "run2")
    task = load_task(tmp_path / "run2" / TASK)
    assert set(map(tuple, accepted.pairs)) <= set(map(tuple, task.seeds.pairs))
    assert task.rejected == rejected
    ranked = pq.read_table(tmp_path / "run2" / RANKED)
    listed = set(zip(ranked["source"].to_pylist(), ranked["target"].to_pylist(), strict=True))
    gone = zip(label("source", rejected.source), label("target", rejected.target), strict=True)
    assert not listed & set(gone)
    assert not {source for source, _ in listed} & set(label("source", accepted.source))
    assert not {target for _, target in listed} & set(label("target", accepted.target))
    checked = command("check", tmp_path / "run2")
    assert checked.code == 0, checked.out
    assert command("report", tmp_path / "run2", "-o", tmp_path / "report.html").code == 0


def test_a_refined_run_is_refined(finished, tmp_path):
    folder, _, _ = finished
    refine(folder, tmp_path / "run2")
    more = tmp_path / "more.tsv"
    known = load_task(tmp_path / "run2" / TASK)
    free = GOLD.without(known.seeds)
    more.write_text(f"{label('source', free.source[-1:])[0]}\t{label('target', free.target[-1:])[0]}\n")
    again = ["align", "--from", tmp_path / "run2", "--seeds", more, "--device", "cpu"]
    ended = command(*again, "--out", tmp_path / "run3")
    assert ended.code == 0, ended.err
    assert len(load_task(tmp_path / "run3" / TASK).seeds) == len(known.seeds) + 1
    assert solved_now(tmp_path / "run3") < SUBTASKS
    # The same command, and --out alone, find a finished run.
    before = tables(tmp_path / "run3")
    for repeated in ([*again, "--out", tmp_path / "run3"], ["align", "--out", tmp_path / "run3"]):
        ended = command(*repeated)
        assert ended.code == 0 and "finished" in ended.err, ended
    assert tables(tmp_path / "run3") == before
    refused = command(*again[:2], folder / "run", *again[3:], "--out", tmp_path / "run3")
    assert refused.code == 2 and "is a run of something else" in refused.err


def test_features_learn_from_all_seeds(tmp_path):
    """With names, every subtask sees the new seeds through the weights; the run says so by its share."""
    ended = command(*write_inputs(tmp_path, NAMED_PAIR), "--out", tmp_path / "run")
    assert ended.code == 0, ended.err
    assigned = divea.Alignment(tmp_path / "run").mappings.slice(0, 1).to_pylist()[0]
    seeds = tmp_path / "more.tsv"
    seeds.write_text(f"{assigned['source']}\t{assigned['target']}\n")
    refined = command("align", "--from", tmp_path / "run", "--seeds", seeds, "--out", tmp_path / "run2")
    assert refined.code == 0 and "solves 2 of 2 subtasks again, in the last of 2 iterations" in refined.err


@pytest.fixture(scope="module")
def crash():
    crasher = Crasher()
    yield crasher
    crasher.close()


def test_killed_at_journal_lines(crash, finished, tmp_path):
    folder, _, _ = finished
    refine(folder, tmp_path / "run2")
    run = tmp_path / "killed"
    arguments = ["align", "--from", folder / "run", "--reviewed", folder / "sheet.tsv", "--device", "cpu"]
    expected = tables(tmp_path / "run2")
    for point, how in enumerate(("before", "torn", "line", "after", "torn", "after"), start=1):
        assert crash([*arguments, "--out", run], at=point, how=how) == -signal.SIGKILL
        again = ["align"] if point % 2 else arguments
        assert crash([*again, "--out", run]) == 0
        assert tables(run) == expected
        shutil.rmtree(run)


def test_alignments_are_refined_in_python(tmp_path):
    settings = {**SETTINGS, "subtasks": SUBTASKS, "iterations": 3}
    alignment = divea.align(PAIR.task, device="cpu", **settings)
    chosen = Links.from_pairs(GOLD.pairs[:2])
    seeds = dict(zip(label("source", chosen.source), label("target", chosen.target), strict=True))
    refined = alignment.refine(seeds=seeds)
    del alignment
    assert len(refined.task.seeds) == len(PAIR.task.seeds) + 2
    again = refined.refine(write_sheet(tmp_path / "sheet.tsv", GOLD.pairs[5:6], []), out=tmp_path / "run")
    assert again.path == tmp_path / "run" and len(again.task.seeds) == len(refined.task.seeds) + 1
    with pytest.raises(InputError, match="nothing to refine with"):
        again.refine()
    for nonsense in (None, 5, [3]):
        with pytest.raises(InputError, match="reviewed: expected a sheet"):
            again.refine(nonsense)
    with pytest.raises(InputError, match="the run knows all of these"):
        again.refine(seeds=seeds)
    with pytest.raises(InputError, match="more than one seed"):
        again.refine(seeds={next(iter(seeds)): label("target", GOLD.target[9:10])[0]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--reviewed", "SHEET", "TASK"), "--from takes the task of the run"),
        ((), "--from has no effect without --reviewed or more --seeds"),
        (("--reviewed", "SHEET", "--keep-schema"), "--keep-schema has no effect with --from"),
        (("--reviewed", "SHEET", "--iterations", 7), "is a run with other settings (iterations"),
    ],
)
def test_what_has_no_effect_is_refused(finished, tmp_path, options, message):
    folder, _, _ = finished
    names = {"SHEET": folder / "sheet.tsv", "TASK": folder / "task"}
    given = [names.get(option, option) for option in options]
    refused = command("align", "--from", folder / "run", *given, "--out", tmp_path / "run2")
    assert refused.code == 2 and message in refused.err and not (tmp_path / "run2").exists()


def test_what_is_missing_is_named(finished, tmp_path):
    folder, _, _ = finished
    sheet = ["--reviewed", folder / "sheet.tsv", "--device", "cpu"]
    ended = command("align", "--from", tmp_path / "none", *sheet, "--out", tmp_path / "run2")
    assert ended.code == 2 and "no such folder" in ended.err
    ended = command("align", "--from", folder / "run", *sheet, "--out", folder / "run")
    assert ended.code == 2 and "is the run to refine; name another folder" in ended.err
    run = tmp_path / "run"
    shutil.copytree(folder / "run", run)
    removed = sorted(run.glob("iteration-*"))[:-1]
    for path in removed:
        shutil.rmtree(path)
    ended = command("align", "--from", run, *sheet, "--out", tmp_path / "run2")
    assert ended.code == (2 if removed else 0)
    assert ("iterations were removed" in ended.err) == bool(removed)
    for fold in run.glob("fold-2"):
        shutil.rmtree(fold)
        ended = command("align", "--from", run, *sheet, "--out", tmp_path / "run4")
        assert ended.code == 2 and "iterations were removed" in ended.err
    (run / "mappings.parquet").unlink()
    ended = command("align", "--from", run, *sheet, "--out", tmp_path / "run3")
    assert ended.code == 2 and "only a finished run can be refined" in ended.err
    assert not (tmp_path / "run3").exists()


def test_a_run_that_lost_the_one_before_says_so(finished, tmp_path):
    folder, _, _ = finished
    before = tmp_path / "before"
    shutil.copytree(folder / "run", before)
    given = ["--reviewed", folder / "sheet.tsv", "--device", "cpu"]
    assert command("align", "--from", before, *given, "--out", tmp_path / "run2").code == 0
    shutil.rmtree(before)
    # A finished run does not need it.
    assert command("align", "--out", tmp_path / "run2").code == 0
    assert command("check", tmp_path / "run2").code == 0
    more = write_sheet(tmp_path / "more.tsv", GOLD.pairs[-1:], [])
    ended = command("align", "--from", tmp_path / "run2", "--reviewed", more, "--out", tmp_path / "run3")
    assert ended.code == 2 and "is not there any more" in ended.err and not (tmp_path / "run3").exists()


def test_a_killed_run_continues_when_the_one_before_was_moved(crash, finished, tmp_path):
    folder, _, _ = finished
    before, moved, run = tmp_path / "before", tmp_path / "moved", tmp_path / "run"
    shutil.copytree(folder / "run", before)
    given = ["--reviewed", folder / "sheet.tsv", "--device", "cpu", "--out", run]
    assert crash(["align", "--from", before, *given], at=3, how="after") == -signal.SIGKILL
    before.rename(moved)
    ended = command("align", "--out", run)
    assert ended.code == 2 and "name its new place with --from" in ended.err
    assert crash(["align", "--from", moved, *given]) == 0
    refine(folder, tmp_path / "run2")
    assert tables(run) == tables(tmp_path / "run2")


def test_the_run_before_may_be_read_by_several(finished, tmp_path):
    folder, _, _ = finished
    with closing(open_before(folder / "run")), closing(open_before(folder / "run")):
        assert "finished" in command("status", folder / "run").out
        refine(folder, tmp_path / "run2")
        refused = command("align", "--out", folder / "run")
        assert refused.code == 2 and "another process is working" in refused.err


def test_other_vectors_or_versions_are_refused(finished, tmp_path, monkeypatch):
    folder, _, _ = finished
    from divea.runs import prepare

    versions = prepare.library_versions()
    monkeypatch.setattr(prepare, "library_versions", lambda: {**versions, "torch": "0.1"})
    given = ["--reviewed", folder / "sheet.tsv", "--device", "cpu", "--out", tmp_path / "run2"]
    refused = command("align", "--from", folder / "run", *given)
    assert refused.code == 2 and "something else changed (torch" in refused.err
    assert not (tmp_path / "run2").exists()


lists = st.integers(0, 4).flatmap(
    lambda width: st.lists(
        st.lists(st.integers(0, 5), min_size=width, max_size=width, unique=True), min_size=0, max_size=6
    )
)


@given(lists, st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5)), max_size=12))
def test_lists_without_rejected_pairs(targets, rejected):
    """Against plain Python lists."""
    width = len(targets[0]) if targets else 0
    target = np.array(targets, dtype=np.int32).reshape(len(targets), width)
    score = np.tile(np.arange(width, 0, -1, dtype=np.float32), (len(targets), 1))
    source = np.arange(len(targets), dtype=np.int32)
    found = without_pairs(
        Matches(source, target, score, np.ones(len(targets), bool)), Links.from_pairs(rejected)
    )
    for row, one in enumerate(targets):
        kept = [(place, item) for place, item in enumerate(one) if (row, item) not in rejected]
        assert found.target[row].tolist() == [item for _, item in kept] + [-1] * (width - len(kept))
        assert found.score[row].tolist() == [width - place for place, _ in kept] + [-np.inf] * (
            width - len(kept)
        )
        assert found.mutual[row] == (not one or (row, one[0]) not in rejected)


def test_divisions_without_new_anchors():
    task = PAIR.task
    every = np.arange(task.source.num_entities), np.arange(task.target.num_entities)
    more = divea.AlignmentTask(task.source, task.target, task.seeds.union(Links.from_pairs(GOLD.pairs[:5])))
    whole = Subtask.of(
        0,
        more,
        source_entities=every[0],
        target_entities=every[1],
        unmatched=task.unmatched_source,
        candidates=task.unmatched_target,
    )
    division = Division((whole,), np.zeros(len(every[0]), np.int32))
    assert not division.covers_unmatched_of(more)
    found = without_new_anchors(division, more)
    assert found.covers_unmatched_of(more)
    assert np.array_equal(found.subtasks[0].candidates, more.unmatched_target)
