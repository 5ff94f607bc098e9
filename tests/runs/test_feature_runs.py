"""Runs with features: what they keep, what their results depend on, and that they are the same everywhere."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_array

from divea.api import align
from divea.config import Settings
from divea.executors import ExecutorSettings, attempt, make_jobs
from divea.features import Feature, base
from divea.graphs import Links
from divea.graphs.features import EntityVectors, PairScores, all_ids, take_features
from divea.loop.loop import Work
from divea.resources.limits import Limits
from divea.runs.align import align_in
from divea.runs.archives import read_vectors, write_vectors
from divea.runs.checksums import job_checksum
from divea.runs.finished import open_finished
from divea.runs.journal import read_journal
from divea.runs.layout import FEATURES, feature_file
from divea.runs.opening import open_run
from divea.runs.prepare import prepare
from tests.executors.small import SETTINGS as SMALL_SETTINGS
from tests.executors.small import TASK, small_work
from tests.runs.tiny import NAMED_PAIR, SETTINGS, solved_now, tables

TINY = Settings.of(None, SETTINGS)


def align_named(run, **options):
    return align_in(run, lambda: NAMED_PAIR.task, TINY, limits=Limits("cpu"), **options)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    run = tmp_path_factory.mktemp("finished") / "run"
    assert align_named(run, executor=ExecutorSettings(name="inline")) == []
    return run


def test_the_weights_and_what_was_learned_are_committed(finished):
    learned = json.loads((finished / FEATURES).read_text())
    assert set(learned["weights"]) == {"names", "attributes"}
    assert all(weight > 0 for weight in learned["weights"].values())
    assert {"source", "target", "m", "u"} <= set(learned["attributes"][0])
    assert FEATURES in {entry.file for entry in read_journal(finished)}


def test_a_run_with_damaged_weights_is_not_finished_and_solves_nothing_again(finished, tmp_path):
    run = shutil.copytree(finished, tmp_path / "run")
    (run / FEATURES).write_text("{}\n")
    assert align_named(run) == []
    assert solved_now(run) == 0
    assert tables(run) == tables(finished)


@pytest.mark.parametrize("workers", [1, 2])
def test_worker_processes_give_the_same_bytes(finished, tmp_path, workers):
    assert align_named(tmp_path / "run", executor=ExecutorSettings(name="local", workers=workers)) == []
    assert tables(tmp_path / "run") == tables(finished)


def test_subtasks_that_memory_divides_further_have_their_own_rows_of_features(monkeypatch):
    """Every piece is solved with the features of its entities, as if it had been cut from the whole task."""
    features = some_features(TASK)
    work = replace(small_work(), features=features)
    job = make_jobs(work, SMALL_SETTINGS, device="cpu", memory=None, threads=1)[0]
    real, sizes = attempt.solve_job, []

    def solve_or_run_out(task, piece):
        (subtask,) = piece.subtasks
        if subtask.size > job.subtasks[0].size // 2:
            raise MemoryError
        whole = replace(piece, features=features)
        solved, expected = real(task, piece), real(task, whole)
        assert solved[0].matches.score.tobytes() == expected[0].matches.score.tobytes()
        sizes.append(subtask.size)
        return solved

    monkeypatch.setattr(attempt, "solve_job", solve_or_run_out)
    done = attempt.attempt(TASK, 0, job)
    assert done.divided and len(sizes) >= 2


def some_features(task, random_seed=0):
    draw = np.random.default_rng(random_seed)
    ids = all_ids(task)
    shape = task.source.num_entities, task.target.num_entities
    scores = csr_array(np.where(draw.random(shape) < 0.1, draw.random(shape), 0).astype(np.float32))
    rows = (draw.normal(size=(count, 4)).astype(np.float16) for count in shape)
    return PairScores("names", *ids, scores, 0.5), EntityVectors("given", *ids, *rows, 0.3)


@pytest.fixture(scope="module")
def jobs():
    """The same work with one subtask per job, and with all subtasks in one job as on a GPU."""
    work = replace(small_work(), features=some_features(TASK))
    alone = make_jobs(work, SMALL_SETTINGS, device="cpu", memory=None, threads=1)
    together = make_jobs(work, SMALL_SETTINGS, device="cuda", memory=None, threads=1)
    assert [len(job.subtasks) for job in together] == [4]
    return alone, replace(together[0], device="cpu")


def test_a_job_has_the_features_of_its_entities_and_no_others(jobs):
    features = some_features(TASK)
    for job in [*jobs[0], jobs[1]]:
        source = np.unique(np.concatenate([subtask.source_entities for subtask in job.subtasks]))
        target = np.unique(np.concatenate([subtask.target_entities for subtask in job.subtasks]))
        expected = take_features(features, source, target)
        assert [item.weight for item in job.features] == [0.5, 0.3]
        for one, other in zip(job.features, expected, strict=True):
            assert all(map(np.array_equal, one.arrays, other.arrays))


def test_subtasks_that_share_a_job_are_solved_as_if_each_had_its_own(jobs):
    alone, together = jobs
    for position, solved in enumerate(attempt.solve_job(TASK, together)):
        (expected,) = attempt.solve_job(TASK, alone[position])
        assert np.array_equal(solved.matches.target, expected.matches.target)
        assert solved.matches.score.tobytes() == expected.matches.score.tobytes()
    plain = attempt.solve_job(TASK, replace(alone[0], features=()))[0]
    assert not np.array_equal(plain.matches.score, attempt.solve_job(TASK, alone[0])[0].matches.score)


def test_the_checksum_of_a_job_changes_with_every_value_and_weight_of_its_features(jobs):
    job = jobs[0][0]
    pairs, vectors = job.features
    data = pairs.scores.data.copy()
    data[0] += 1e-6
    scores = csr_array((data, pairs.scores.indices, pairs.scores.indptr), shape=pairs.scores.shape)
    moved = csr_array(pairs.scores.toarray()[::-1].copy())
    rows = vectors.target.copy()
    rows[-1, -1] += np.float16(0.01)
    others = [
        (),
        (pairs,),
        (vectors, pairs),
        (replace(pairs, weight=0.5000001), vectors),
        (replace(pairs, name="other"), vectors),
        (replace(pairs, scores=scores), vectors),
        (replace(pairs, scores=moved), vectors),
        (pairs, replace(vectors, target=rows)),
        (pairs, replace(vectors, weight=0.31)),
    ]
    found = [job_checksum(replace(job, features=features)) for features in (job.features, *others)]
    assert len(set(found)) == len(found)


def test_the_checksum_of_a_job_does_not_depend_on_the_order_in_memory(jobs):
    job = jobs[0][0]
    pairs, vectors = job.features
    wider = np.zeros((len(vectors.source), 9), np.float16)
    wider[:, ::2][:, :4] = vectors.source
    same = (
        replace(pairs, source_ids=np.repeat(pairs.source_ids, 2)[::2]),
        replace(vectors, source=wider[:, ::2][:, :4], target=np.asfortranarray(vectors.target)),
    )
    assert not same[1].source.flags["C_CONTIGUOUS"] and not same[1].target.flags["C_CONTIGUOUS"]
    assert job_checksum(replace(job, features=same)) == job_checksum(job)


def vectors_of(task, dtype=np.float16, *, is_structure=False):
    draw = np.random.default_rng(0)
    sizes = task.source.num_entities, task.target.num_entities
    rows = (draw.normal(size=(count, 3)).astype(dtype) for count in sizes)
    return EntityVectors("encoder", *all_ids(task), *rows, is_structure=is_structure)


@pytest.fixture
def run(tmp_path):
    """A run that has just started."""
    manifest, _ = prepare(NAMED_PAIR.task, TINY, Limits("cpu"))
    opened = open_run(tmp_path / "run", NAMED_PAIR.task, manifest)
    yield opened
    opened.close()


def refuse():
    raise AssertionError("computed again")


def assert_same(found, expected):
    assert found.name == expected.name and found.is_structure == expected.is_structure
    for one, other in zip(found.arrays, expected.arrays, strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("is_structure", [False, True])
def test_vectors_are_computed_once_and_kept_as_they_are(run, dtype, is_structure):
    expected = vectors_of(run.task, dtype, is_structure=is_structure)
    assert_same(run.kept_feature("encoder", "this", lambda: expected), expected)
    assert_same(run.kept_feature("encoder", "this", refuse), expected)


def test_vectors_in_any_memory_order_are_kept(run):
    expected = vectors_of(run.task)
    odd = replace(expected, source=np.asfortranarray(expected.source), target=expected.target[:, ::-1])
    run.kept_feature("encoder", "this", lambda: odd)
    assert_same(run.kept_feature("encoder", "this", refuse), odd)


def test_vectors_that_were_made_from_something_else_are_computed_again(run):
    first, second = vectors_of(run.task), vectors_of(run.task, np.float32)
    run.kept_feature("encoder", "this", lambda: first)
    assert run.kept_feature("encoder", "that", lambda: second) is second
    assert_same(run.kept_feature("encoder", "that", refuse), second)


@pytest.mark.parametrize("feature", [None, "pairs"])
def test_only_vectors_are_kept(run, feature):
    found = some_features(run.task)[0] if feature else None
    for _ in range(2):
        assert run.kept_feature("names", "this", lambda: found) is found
    assert not (run.path / "features").exists()


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        lambda path: path.write_bytes(path.read_bytes().replace(b"target", b"tarGet")),
    ],
    ids=["deleted", "truncated", "changed"],
)
def test_damaged_vectors_are_computed_again(run, harm):
    expected = vectors_of(run.task)
    run.kept_feature("encoder", "this", lambda: expected)
    harm(run.path / feature_file("encoder"))
    assert run.kept_feature("encoder", "this", lambda: expected) is expected
    assert_same(run.kept_feature("encoder", "this", refuse), expected)


def archive(save=np.savez, **changes):
    """Writes an archive of vectors of the tiny task, some of whose arrays are others."""

    def write(path):
        arrays = {"source": np.ones((150, 3), np.float16), "target": np.ones((150, 3), np.float16)}
        arrays["is_structure"] = np.zeros(1, dtype=bool)
        with path.open("wb") as file:
            save(file, **{name: array for name, array in (arrays | changes).items() if array is not None})

    return write


@pytest.mark.parametrize(
    "write",
    [
        archive(source=np.ones((149, 3), np.float16)),
        archive(target=np.ones((151, 3), np.float16)),
        archive(target=np.ones((150, 4), np.float16)),
        archive(source=np.ones(150, np.float16)),
        archive(source=np.ones((150, 3), np.float64)),
        archive(source=np.ones((150, 3), np.int16)),
        archive(source=np.full((150, 3), None)),
        archive(target=None),
        archive(is_structure=np.ones(1)),
        archive(np.savez_compressed),
        lambda path: path.write_bytes(b"no archive"),
    ],
    ids=[
        "source",
        "target",
        "width",
        "flat",
        "double",
        "integer",
        "pickle",
        "missing",
        "flag",
        "compressed",
        "text",
    ],
)
def test_an_archive_of_something_else_is_not_read(run, write):
    """Somebody may have written the file and its line of the journal."""
    run.commit(feature_file("encoder"), "this", write)
    expected = vectors_of(run.task)
    assert run.kept_feature("encoder", "this", lambda: expected) is expected


def test_a_good_archive_of_the_same_shape_is_read(run):
    """Otherwise the test above would pass whatever the archives hold."""
    run.commit(feature_file("encoder"), "this", archive())
    assert run.kept_feature("encoder", "this", refuse).source.shape == (150, 3)


def test_the_same_vectors_give_the_same_file(tmp_path):
    vectors = vectors_of(NAMED_PAIR.task)
    for name in ("one", "other"):
        write_vectors(vectors, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    assert_same(read_vectors(tmp_path / "one", "encoder"), vectors)


real = base._feature_type


class Counted(Feature):
    """A feature that is expensive to compute."""

    name = "encoder"
    computed = 0

    @classmethod
    def from_settings(cls, settings):
        return cls()

    def compute(self, task, known, **options):
        Counted.computed += 1
        return vectors_of(task)

    def made_from(self, task):
        return "this"


def test_a_run_that_continues_does_not_compute_kept_vectors_again(tmp_path, monkeypatch):
    monkeypatch.setattr(base, "_feature_type", lambda name: {"encoder": Counted}.get(name) or real(name))
    monkeypatch.setattr(Counted, "computed", 0)
    settings = Settings.of(TINY, {"features": {"name": "names+encoder", "encoder": {"model": "any"}}})

    def continue_run(run, **options):
        read = (lambda: NAMED_PAIR.task) if not run.exists() else None
        return align_in(run, read, settings if read else None, limits=Limits("cpu"), **options)

    def stop(iteration):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        continue_run(tmp_path / "run", observe=stop)
    continue_run(tmp_path / "run")
    assert Counted.computed == 1
    continue_run(tmp_path / "undisturbed")
    assert Counted.computed == 2
    assert tables(tmp_path / "run") == tables(tmp_path / "undisturbed")


@pytest.fixture
def given_vectors(tmp_path):
    """Files of vectors for the tiny task."""
    files = {}
    for side in ("source", "target"):
        labels = getattr(NAMED_PAIR.task, side).entities
        rows = np.random.default_rng(0).normal(size=(len(labels), 4)).astype(np.float32)
        vectors = pa.array(list(rows), pa.list_(pa.float32()))
        files[side] = str(tmp_path / f"{side}.parquet")
        pq.write_table(pa.table({"entity": labels, "vector": vectors}), files[side])
    return files


def test_a_run_with_given_vectors_is_continued_and_opened_without_naming_the_task(tmp_path, given_vectors):
    changes = {"features": {"name": "names+given", "given": given_vectors}}
    settings = Settings.of(TINY, changes)
    align_in(tmp_path / "run", lambda: NAMED_PAIR.task, settings, limits=Limits("cpu"))
    expected = tables(tmp_path / "run")
    (tmp_path / "run" / FEATURES).unlink()
    assert align_in(tmp_path / "run", None) == []
    assert tables(tmp_path / "run") == expected
    assert len(open_finished(tmp_path / "run").mappings)


def test_a_run_with_other_given_vectors_is_refused(tmp_path, given_vectors):
    changes = {**SETTINGS, "features": {"name": "names+given", "given": given_vectors}}
    align(NAMED_PAIR.task, out=tmp_path / "run", device="cpu", **changes)
    labels = NAMED_PAIR.task.source.entities
    other = pa.array([[1.0, 0, 0, 0]] * len(labels), pa.list_(pa.float32()))
    pq.write_table(pa.table({"entity": labels, "vector": other}), given_vectors["source"])
    with pytest.raises(Exception, match="is a run of something else"):
        align(NAMED_PAIR.task, out=tmp_path / "run", device="cpu", **changes)


def test_work_without_features_has_jobs_without_features():
    work = Work(0, TASK, small_work().subtasks, Links.from_pairs([]))
    assert all(
        job.features == () for job in make_jobs(work, SMALL_SETTINGS, device="cpu", memory=None, threads=1)
    )
