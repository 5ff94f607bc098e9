"""Vectors that were computed elsewhere: read from Parquet or .npy, and checked before they are used."""

import os
import string

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from divea.config import FeatureSettings
from divea.errors import InputError
from divea.features import check_feature, make_features
from divea.features.check import checked_tasks
from divea.features.given import Given
from divea.formats import vectors
from divea.graphs import AlignmentTask, KnowledgeGraph, Links

NONE = Links.from_pairs([])


def graph_of(*labels):
    return KnowledgeGraph.from_triples([], labels)


TASK = AlignmentTask(graph_of("Rome", "Oslo", "Bern"), graph_of("Roma", "Oslo", "Berna"))
SOURCE = {"Rome": [3.0, 4.0], "Oslo": [0.0, 2.0], "Bern": [1.0, 0.0]}
TARGET = {"Roma": [0.6, 0.8], "Oslo": [0.0, 1.0], "Berna": [-1.0, 0.0]}


def write_parquet(path, rows, kind=None, **columns):
    kind = kind or pa.list_(pa.float32())
    table = {"entity": pa.array(list(rows)), "vector": pa.array(list(rows.values()), kind)} | columns
    pq.write_table(pa.table(table), path)
    return path


def write_npy(path, rows, dtype=np.float32):
    np.save(path, np.array(list(rows.values()), dtype))
    path.with_suffix(".txt").write_text("".join(f"{label}\n" for label in rows))
    return path


def given(folder, source=SOURCE, target=TARGET, write=write_parquet, suffix="parquet"):
    return Given(
        write(folder / f"source.{suffix}", source),
        write(folder / f"target.{suffix}", target),
    )


def vector(graph, rows, label):
    return rows[graph.find([label])[0]].astype(np.float64)


@pytest.mark.parametrize(("write", "suffix"), [(write_parquet, "parquet"), (write_npy, "npy")])
def test_vectors_become_rows_of_length_one_for_the_entities_of_their_labels(tmp_path, write, suffix):
    feature = given(tmp_path, write=write, suffix=suffix)
    found = feature.compute(TASK, NONE)
    assert found.name == "given" and found.source.dtype == found.target.dtype == np.float16
    assert vector(TASK.source, found.source, "Rome") == pytest.approx([0.6, 0.8], abs=1e-3)
    assert vector(TASK.source, found.source, "Oslo").tolist() == [0, 1]
    assert vector(TASK.target, found.target, "Berna").tolist() == [-1, 0]
    assert feature.notes == ()


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.float16()),
        pa.list_(pa.float64()),
        pa.large_list(pa.float32()),
        pa.list_(pa.float32(), 2),
    ],
)
def test_lists_of_any_floating_point_type_are_read(tmp_path, kind):
    def write(path, rows):
        values = [
            [np.float16(x) for x in row] if kind.value_type == pa.float16() else row for row in rows.values()
        ]
        return write_parquet(path, dict(zip(rows, values, strict=True)), kind)

    found = given(tmp_path, write=write).compute(TASK, NONE)
    assert vector(TASK.source, found.source, "Rome") == pytest.approx([0.6, 0.8], abs=1e-3)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_npy_files_of_any_floating_point_type_are_read(tmp_path, dtype):
    found = given(tmp_path, write=lambda *both: write_npy(*both, dtype), suffix="npy").compute(TASK, NONE)
    assert vector(TASK.source, found.source, "Rome") == pytest.approx([0.6, 0.8], abs=1e-3)


def test_the_first_bytes_of_a_file_decide_and_not_its_name(tmp_path):
    write_npy(tmp_path / "source.npy", SOURCE).rename(tmp_path / "source.parquet")
    write_npy(tmp_path / "target.npy", TARGET).rename(tmp_path / "target.vectors")
    found = Given(tmp_path / "source.parquet", tmp_path / "target.vectors").compute(TASK, NONE)
    assert vector(TASK.target, found.target, "Oslo").tolist() == [0, 1]


def test_the_order_of_rows_and_the_format_do_not_change_the_result(tmp_path, monkeypatch):
    expected = given(tmp_path).compute(TASK, NONE)
    backwards = [dict(reversed(rows.items())) for rows in (SOURCE, TARGET)]
    monkeypatch.setattr(vectors, "_BATCH_ROWS", 2)
    for write, suffix in ((write_parquet, "parquet"), (write_npy, "npy")):
        found = given(tmp_path, *backwards, write, suffix).compute(TASK, NONE)
        assert np.array_equal(found.source, expected.source)
        assert np.array_equal(found.target, expected.target)


def test_integers_and_categories_are_labels_too(tmp_path):
    task = AlignmentTask(graph_of("7", "8"), graph_of("Oslo", "Bern"))
    values = pa.array([[1.0, 0.0], [0.0, 1.0]])
    pq.write_table(pa.table({"entity": [8, 7], "vector": values}), tmp_path / "source.parquet")
    categories = pa.array(["Bern", "Oslo"]).dictionary_encode()
    pq.write_table(pa.table({"entity": categories, "vector": values}), tmp_path / "target.parquet")
    found = Given(tmp_path / "source.parquet", tmp_path / "target.parquet").compute(task, NONE)
    assert vector(task.source, found.source, "8").tolist() == [1, 0]
    assert vector(task.target, found.target, "Oslo").tolist() == [0, 1]


def test_windows_line_ends_and_a_missing_last_one_are_accepted(tmp_path):
    feature = given(tmp_path, write=write_npy, suffix="npy")
    (tmp_path / "source.txt").write_bytes(b"\xef\xbb\xbfRome\r\nOslo\r\nBern")
    found = feature.compute(TASK, NONE)
    assert vector(TASK.source, found.source, "Bern").tolist() == [1, 0]
    assert feature.notes == ()


@pytest.mark.parametrize("scale", [1e-30, 1e30, 1e300])
def test_the_scale_of_a_vector_does_not_matter(tmp_path, scale):
    rows = {"Rome": [3 * scale, 4 * scale], "Oslo": [0.0, 0.0]}
    feature = given(tmp_path, source=rows, write=lambda *both: write_npy(*both, np.float64), suffix="npy")
    found = feature.compute(TASK, NONE)
    assert vector(TASK.source, found.source, "Rome") == pytest.approx([0.6, 0.8], abs=1e-3)
    assert not vector(TASK.source, found.source, "Oslo").any()


def test_entities_without_a_vector_have_zeros_and_other_labels_are_ignored_with_a_note(tmp_path):
    feature = given(tmp_path, source={"Rome": [1, 0], "Lima": [0, 1], "Cairo": [0, 1]})
    found = feature.compute(TASK, NONE)
    assert found.source.any(axis=1).sum() == 1
    assert feature.notes == (
        f"{tmp_path}/source.parquet: 2 of 3 vectors belong to no source entity and are ignored; "
        "1 of 3 source entities have a vector",
    )
    feature.compute(TASK, NONE)
    assert len(feature.notes) == 1


def test_relative_paths_are_relative_to_the_working_directory(tmp_path, monkeypatch):
    given(tmp_path)
    monkeypatch.chdir(tmp_path)
    settings = FeatureSettings.checked(
        {"name": "given", "given": {"source": "source.parquet", "target": "target.parquet"}}
    )
    (feature,) = make_features(settings)
    assert vector(TASK.source, feature.compute(TASK, NONE).source, "Bern").tolist() == [1, 0]


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_missing_setting_is_named(side):
    options = {"source": "a.npy", "target": "b.npy"} | {side: None}
    with pytest.raises(InputError, match=rf"^features\.given\.{side} is not set"):
        make_features(FeatureSettings.checked({"name": "given", "given": options}))


def test_checksums_change_with_the_content_of_any_file(tmp_path):
    feature = given(tmp_path, write=write_npy, suffix="npy")
    first = feature.checksums()
    assert list(first) == ["features.given.source", "features.given.target"]
    assert feature.checksums() == first
    (tmp_path / "source.txt").write_text("Oslo\nRome\nBern\n")
    second = feature.checksums()
    assert second["features.given.source"] != first["features.given.source"]
    assert second["features.given.target"] == first["features.given.target"]
    write_npy(tmp_path / "target.npy", TARGET | {"Oslo": [1, 1]})
    assert feature.checksums()["features.given.target"] != first["features.given.target"]


def test_checksums_of_a_missing_file_are_refused(tmp_path):
    feature = given(tmp_path, write=write_npy, suffix="npy")
    (tmp_path / "target.txt").unlink()
    with pytest.raises(InputError, match=r"target\.txt: no such file$"):
        feature.checksums()


def parquet(**columns):
    def write(folder):
        columns_of_table = {"entity": ["Rome", "Oslo"], "vector": [[1.0], [2.0]]} | columns
        kept = {name: values for name, values in columns_of_table.items() if values is not None}
        pq.write_table(pa.table(kept), folder / "source.parquet")
        return "source.parquet"

    return write


def npy(rows=((1.0,), (2.0,)), labels="Rome\nOslo\n", dtype=np.float32, change=None, **options):
    def write(folder):
        np.save(folder / "source.npy", np.asarray(rows, dtype), **options)
        if labels is not None:
            (folder / "source.txt").write_bytes(labels.encode() if isinstance(labels, str) else labels)
        if change is not None:
            data = (folder / "source.npy").read_bytes()
            assert change(data) != data
            (folder / "source.npy").write_bytes(change(data))
        return "source.npy"

    return write


def some_file(data):
    def write(folder):
        (folder / "source.bin").write_bytes(data)
        return "source.bin"

    return write


def pipe(folder):
    os.mkfifo(folder / "source.npy")
    return "source.npy"


def missing_number(folder):
    values = pa.array([[1.0, None], [2.0, 3.0]])
    return parquet(vector=values)(folder)


def zeros_in_a_small_file(folder):
    values = pa.array(np.zeros(40_000_000, np.float32))
    lists = pa.FixedSizeListArray.from_arrays(values, 4000)
    return parquet(entity=[f"e{row}" for row in range(10_000)], vector=lists)(folder)


NO_NPY = "is no .npy file of float16, float32 or float64 numbers in rows and columns"
REFUSED = {
    "no file": (lambda folder: "absent.parquet", "no such file"),
    "a folder": (lambda folder: ".", "is a folder, not a file"),
    "a pipe": (pipe, "is not a regular file"),
    "an empty file": (some_file(b""), "is empty"),
    "another format": (some_file(b"Rome 1.0 2.0\n"), "is neither a Parquet nor an .npy file"),
    "a pickle": (some_file(b"\x80\x04."), "is neither a Parquet nor an .npy file"),
    "cut-off Parquet": (some_file(b"PAR1PAR1"), "not a readable Parquet file"),
    "no entity column": (parquet(entity=None), "has no column 'entity' (found: vector)"),
    "no vector column": (parquet(vector=None), "has no column 'vector' (found: entity)"),
    "numbers instead of lists": (
        parquet(vector=[1.0, 2.0]),
        "the column 'vector' is of type double, not lists",
    ),
    "lists of integers": (parquet(vector=[[1], [2]]), "the column 'vector' is of type list<element: int64>"),
    "lists of texts": (
        parquet(vector=[["1"], ["2"]]),
        "the column 'vector' is of type list<element: string>",
    ),
    "labels of a wrong type": (parquet(entity=[1.5, 2.5]), "the column 'entity' is of type double"),
    "a missing label": (parquet(entity=["Rome", None]), "the column 'entity' has 1 missing values"),
    "an empty label": (parquet(entity=["Rome", ""]), "the column 'entity' has an empty value"),
    "a missing vector": (parquet(vector=[[1.0], None]), "the column 'vector' has 1 missing values"),
    "a missing number": (missing_number, "the column 'vector' has 1 missing values"),
    "vectors of different lengths": (
        parquet(vector=[[1.0], [2.0, 3.0]]),
        "the vector of 'Oslo' has 2 dimensions, those before it have 1",
    ),
    "empty vectors": (
        parquet(vector=pa.array([[], []], pa.list_(pa.float32()))),
        "vectors have 0 dimensions; 1 to 8192 are allowed",
    ),
    "too many dimensions": (
        parquet(vector=[[0.0] * 8193] * 2),
        "vectors have 8193 dimensions; 1 to 8192 are allowed",
    ),
    "no rows": (
        parquet(entity=pa.array([], pa.string()), vector=pa.array([], pa.list_(pa.float32()))),
        "has no vectors",
    ),
    "infinity": (parquet(vector=[[1.0], [np.inf]]), "the vector of 'Oslo' has a number that is not finite"),
    "zeros in a small file": (zeros_in_a_small_file, "would expand to more than"),
    "an entity with two vectors": (parquet(entity=["Rome", "Rome"]), "'Rome' has two vectors"),
    "labels of no entity": (
        parquet(entity=["Lima", "Cairo"]),
        "no label is an entity of the source graph: the file has 'Lima', the graph '",
    ),
    "labels of the other graph": (
        parquet(entity=["Roma", "Berna"]),
        "but some are of the other one: swap features.given.source and features.given.target",
    ),
    "other dimensions than the target": (parquet(), "vectors have 2 dimensions, those of "),
    "npy without labels": (
        npy(labels=None),
        "no such file: it must have the label of each row of source.npy",
    ),
    "too few labels": (npy(labels="Rome\n"), "has 2 rows, and source.txt has 1 labels"),
    "too many labels": (npy(labels="Rome\nOslo\nBern\n"), "has 2 rows, and source.txt has 3 labels"),
    "an empty line": (npy(labels="Rome\n\n"), "source.txt:2: an empty label"),
    "labels that are not UTF-8": (npy(labels=b"Rome\nOsl\xf8\n"), "source.txt:2: is not UTF-8"),
    "labels with a NUL byte": (npy(labels="Rome\nOs\0lo\n"), "source.txt:2: contains a NUL byte"),
    "NaN": (npy(rows=[[1.0], [np.nan]]), "the vector of 'Oslo' has a number that is not finite"),
    "one column": (npy(rows=[1.0, 2.0]), NO_NPY),
    "three dimensions": (npy(rows=[[[1.0]], [[2.0]]]), NO_NPY),
    "integers": (npy(dtype=np.int32), NO_NPY),
    "Python objects": (npy(dtype=object, allow_pickle=True), NO_NPY),
    "big-endian numbers": (npy(dtype=">f4"), NO_NPY),
    "by column": (npy(rows=np.asfortranarray(np.ones((2, 2)))), NO_NPY),
    "no columns": (npy(rows=np.zeros((2, 0))), "vectors have 0 dimensions"),
    "wide npy": (npy(rows=np.zeros((2, 8193))), "vectors have 8193 dimensions"),
    "npy without rows": (npy(rows=np.zeros((0, 2)), labels="\n"), "source.txt:1: an empty label"),
    "a cut-off npy": (npy(change=lambda data: data[:-1]), "its size does not fit the shape"),
    "a header that lies": (
        npy(change=lambda data: data.replace(b"(2, 1), }" + b" " * 17, b"(88888888888888888, 1), }" + b" ")),
        "its size does not fit the shape",
    ),
}


@pytest.mark.parametrize(("write", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_with_a_file_is_said_in_one_line(tmp_path, write, message):
    target = write_parquet(tmp_path / "target.parquet", TARGET)
    feature = Given(tmp_path / write(tmp_path), target)
    with pytest.raises(InputError) as error:
        feature.compute(TASK, NONE)
    assert message in str(error.value)
    assert str(error.value).startswith(str(tmp_path)) and "\n" not in str(error.value)


def test_a_label_that_two_batches_contain_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(vectors, "_BATCH_ROWS", 1)
    write_npy(tmp_path / "source.npy", SOURCE)
    (tmp_path / "source.txt").write_text("Rome\nOslo\nRome\n")
    target = write_npy(tmp_path / "target.npy", TARGET)
    with pytest.raises(InputError, match="'Rome' has two vectors"):
        Given(tmp_path / "source.npy", target).compute(TASK, NONE)


def test_vectors_that_the_machine_cannot_hold_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("divea.features.given.total_memory", lambda: 8)
    with pytest.raises(InputError, match=r"2 dimensions for 3 entities take 0\.0 GB"):
        given(tmp_path).compute(TASK, NONE)


def test_a_path_that_no_file_can_have_is_refused():
    with pytest.raises(InputError, match="not a path in UTF-8"):
        Given("a\0b", "c")


def test_given_vectors_meet_the_contract_of_features(tmp_path):
    """The vector of an entity depends on the number in its label, which counterparts share."""
    paths = []
    for side in ("source", "target"):
        graphs = [getattr(case.task, side) for case in checked_tasks().values()]
        labels = sorted({label for graph in graphs for label in graph.entities.to_pylist()})
        numbers = [int(label.lstrip(string.ascii_letters)) for label in labels]
        known = np.random.default_rng(0).normal(size=(max(numbers) + 1, 16))
        paths.append(write_npy(tmp_path / f"{side}.npy", dict(zip(labels, known[numbers], strict=True))))
    check_feature(Given(*paths))
