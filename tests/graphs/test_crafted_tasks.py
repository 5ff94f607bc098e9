"""Task folders that somebody made to do harm: each is refused with one line that names the file.

The arrays of such a folder are used as addresses: unchecked, most of these cases would corrupt the memory of
the process or end it. `benchmarks/robustness/fuzz_folders.py` damages folders at random.
"""

import io
import os
import zipfile

import numpy as np
import pyarrow as pa
import pytest

from divea import InputError, KnowledgeGraph
from divea.graphs import AlignmentTask, GraphBuilder, Links, load_task, save_task
from divea.graphs.labels import LABEL, as_labels

IDS_OF_KINDS = {"head": 0, "relation": 1, "tail": 2}
ATTRIBUTES = ("entity", "predicate", "value", "kind")
FILES = (
    "task.json",
    "seeds.npy",
    "source/entities.arrow",
    "source/relations.arrow",
    "source/triples.npy",
    "target/attributes.arrow",
    "target/predicates.arrow",
)


def small_graph():
    builder = GraphBuilder()
    names = [f"http://e.example/{number}" for number in range(20)]
    columns = names, [f"r{number % 3}" for number in range(20)], names[7:] + names[:7]
    builder.add_triples(*map(as_labels, columns))
    columns = names, ["name", "born"] * 10, [f"välue {number}" for number in range(20)], ["@en", ""] * 10
    builder.add_attributes(*map(as_labels, columns))
    return builder.build()


@pytest.fixture
def folder(tmp_path):
    graph = small_graph()
    save_task(AlignmentTask(graph, graph, Links.from_pairs([(3, 4), (5, 6)])), tmp_path / "t")
    return tmp_path / "t"


def write_arrow(path, columns, *, schema=None, compression=None, times=1):
    table = pa.table(columns, schema=schema).combine_chunks()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
        for batch in table.to_batches() * times:
            writer.write_batch(batch)


def read_arrow(path):
    with pa.OSFile(str(path)) as source:
        return pa.ipc.open_file(source).read_all()


def strings(offsets, data):
    """A column of labels with these offsets, which Arrow does not check."""
    buffers = [None, pa.py_buffer(np.array(offsets, np.int64)), pa.py_buffer(data)]
    return pa.Array.from_buffers(LABEL, len(offsets) - 1, buffers)


def changed_array(name, change):
    def craft(folder):
        array = np.load(folder / name)
        np.save(folder / name, change(array))

    return craft


def with_id(row, column, value):
    def change(array):
        array[row, column] = value
        return array

    return change


def changed_header(name, old, new):
    """Another header of the same length."""

    def craft(folder):
        data = (folder / name).read_bytes()
        padding = len(new) - len(old)
        assert old in data
        changed = data.replace(old, new, 1)
        at = changed.index(b"\n")
        (folder / name).write_bytes(changed[: at - padding] + changed[at:])

    return craft


def changed_labels(name, change, **options):
    def craft(folder):
        labels = read_arrow(folder / name)["label"].combine_chunks()
        write_arrow(folder / name, {"label": change(labels)}, **options)

    return craft


def changed_offsets(name, column, change):
    """Other offsets of the strings of a column, patched into the file: Arrow would not write them."""

    def craft(folder):
        offsets = read_arrow(folder / name)[column].combine_chunks().buffers()[1].to_pybytes()
        data = (folder / name).read_bytes()
        assert data.count(offsets) == 1
        wrong = np.frombuffer(offsets, np.int64).copy()
        change(wrong)
        (folder / name).write_bytes(data.replace(offsets, wrong.tobytes()))

    return craft


def set_to(row, value):
    return lambda offsets: offsets.__setitem__(row, value)


def changed_attributes(**changes):
    def craft(folder):
        path = folder / "target/attributes.arrow"
        table = read_arrow(path)
        columns = {name: table[name].combine_chunks() for name in ATTRIBUTES}
        write_arrow(path, columns | {name: change(columns[name]) for name, change in changes.items()})

    return craft


def with_number(row, value):
    def change(column):
        numbers = column.to_numpy().copy()
        numbers[row] = value
        return pa.array(numbers)

    return change


def text_file(name, text):
    return lambda folder: (folder / name).write_text(text)


def cut_metadata(folder):
    path = folder / "source/entities.arrow"
    data = bytearray(path.read_bytes())
    # The size of the first message: larger than the file.
    data[12:16] = (1 << 30).to_bytes(4, "little")
    path.write_bytes(data)


def zip_as_array(folder):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("x.npy", b"")
    (folder / "seeds.npy").write_bytes(archive.getvalue())


def fifo(name):
    def craft(folder):
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return craft


ROWS, SHAPE = 20, b"(20, 3)"
NOT_INT32 = "is no .npy file of int32 numbers in "
CASES = {
    **{
        f"{kind} {value}": (
            changed_array("source/triples.npy", with_id(-1, column, value)),
            "source/triples.npy: is damaged (it has ",
        )
        for kind, column in IDS_OF_KINDS.items()
        for value in (3 if kind == "relation" else ROWS, 2**31 - 1, -1, -(2**31))
    },
    "seed out of range": (
        changed_array("seeds.npy", with_id(0, 0, ROWS)),
        "seeds.npy: is damaged (it has source entity ids outside 0..19)",
    ),
    "negative seed": (
        changed_array("seeds.npy", with_id(1, 1, -1)),
        "seeds.npy: is damaged (it has target entity ids outside 0..19)",
    ),
    "seeds of one entity": (
        changed_array("seeds.npy", with_id(1, 0, 3)),
        "seeds.npy: 1 source entities are in more than one seed",
    ),
    "triples in another order": (
        changed_array("source/triples.npy", lambda rows: np.ascontiguousarray(rows[::-1])),
        "triples are not distinct and sorted",
    ),
    "triple twice": (
        changed_array("source/triples.npy", lambda rows: rows[[0, *range(ROWS)]]),
        "triples are not distinct and sorted",
    ),
    "triples of 64 bits": (
        changed_array("source/triples.npy", lambda rows: rows.astype(np.int64)),
        NOT_INT32 + "3 columns",
    ),
    "triples of floats": (
        changed_array("source/triples.npy", lambda rows: rows.astype(np.float32)),
        NOT_INT32 + "3 columns",
    ),
    "triples by column": (changed_array("source/triples.npy", np.asfortranarray), NOT_INT32 + "3 columns"),
    "triples of two columns": (
        changed_array("source/triples.npy", lambda rows: rows[:, :2]),
        NOT_INT32 + "3 columns",
    ),
    "flat seeds": (changed_array("seeds.npy", np.ravel), NOT_INT32 + "2 columns"),
    "pickled seeds": (
        lambda folder: np.save(folder / "seeds.npy", np.array([{}]), allow_pickle=True),
        NOT_INT32 + "2 columns",
    ),
    "zip as an array": (zip_as_array, NOT_INT32 + "2 columns"),
    "more rows than the file has": (
        changed_header("source/triples.npy", SHAPE, b"(99999999999999999, 3)"),
        "its size does not fit the shape",
    ),
    "a number of rows without end": (
        changed_header("source/triples.npy", SHAPE, b"(" + b"9" * 40 + b", 3)"),
        NOT_INT32 + "3 columns",
    ),
    "a negative number of rows": (
        changed_header("source/triples.npy", SHAPE, b"(-1, 3)"),
        NOT_INT32 + "3 columns",
    ),
    "rows after the last": (
        lambda folder: (folder / "seeds.npy").open("ab").write(bytes(8)),
        "seeds.npy: is damaged (its size",
    ),
    "label twice": (
        changed_labels("source/entities.arrow", lambda labels: labels.take(pa.array([0, *range(19)]))),
        "entities.arrow: is damaged (a label appears twice)",
    ),
    "labels in another order": (
        changed_labels("source/entities.arrow", lambda labels: labels[::-1]),
        "entities.arrow: is damaged (its labels are not in the order",
    ),
    "empty label": (
        changed_labels("source/relations.arrow", lambda labels: as_labels(["", *labels[1:].to_pylist()])),
        "relations.arrow: has an empty label",
    ),
    "missing label": (
        changed_labels(
            "source/relations.arrow", lambda labels: pa.array([None, *labels[1:].to_pylist()], LABEL)
        ),
        "relations.arrow: has missing values",
    ),
    "labels of 32 bits": (
        changed_labels("source/entities.arrow", lambda labels: labels.cast(pa.string())),
        "entities.arrow: expected the columns label",
    ),
    "labels of bytes": (
        changed_labels("source/entities.arrow", lambda labels: labels.cast(pa.large_binary())),
        "entities.arrow: expected the columns label",
    ),
    "labels as a dictionary": (
        changed_labels("source/entities.arrow", lambda labels: labels.dictionary_encode()),
        "entities.arrow: expected the columns label",
    ),
    "compressed labels": (
        changed_labels("source/entities.arrow", lambda labels: labels, compression="zstd"),
        "entities.arrow: expected one uncompressed batch",
    ),
    "two batches": (
        changed_labels("source/entities.arrow", lambda labels: labels, times=2),
        "entities.arrow: expected one uncompressed batch",
    ),
    "labels that are not UTF-8": (
        changed_labels("source/relations.arrow", lambda _: strings([0, 1, 2, 3], b"a\xffc")),
        "relations.arrow: is damaged (",
    ),
    "offset after the end": (
        changed_offsets("source/relations.arrow", "label", set_to(-1, 2**40)),
        "relations.arrow: is damaged (",
    ),
    "offset before the start": (
        changed_offsets("source/relations.arrow", "label", set_to(0, -(2**40))),
        "relations.arrow: is damaged (",
    ),
    "falling offsets": (
        changed_offsets("source/entities.arrow", "label", set_to(5, 2**40)),
        "entities.arrow: is damaged (",
    ),
    "metadata larger than the file": (cut_metadata, "entities.arrow: is damaged ("),
    "text as labels": (text_file("source/entities.arrow", "a\nb\n" * 20), "entities.arrow: is no Arrow file"),
    "attribute of no entity": (
        changed_attributes(entity=with_number(2, ROWS)),
        "attributes.arrow: is damaged (it has entity ids outside 0..19)",
    ),
    "attribute of a negative entity": (
        changed_attributes(entity=with_number(2, -5)),
        "attributes.arrow: is damaged (it has entity ids",
    ),
    "attribute of no predicate": (
        changed_attributes(predicate=with_number(2, 2)),
        "attributes.arrow: is damaged (it has predicate ids outside 0..1)",
    ),
    "values of another type": (
        changed_attributes(value=lambda column: pa.array(range(len(column)))),
        "attributes.arrow: expected the columns entity, predicate",
    ),
    "offsets of values": (
        changed_offsets("target/attributes.arrow", "value", set_to(-1, 2**33)),
        "attributes.arrow: is damaged (",
    ),
    "values that are not UTF-8": (
        changed_attributes(value=lambda column: strings(range(len(column) + 1), b"\xff" * len(column))),
        "attributes.arrow: is damaged (",
    ),
    "missing value": (
        changed_attributes(value=lambda column: pa.array([None, *column[1:].to_pylist()], LABEL)),
        "attributes.arrow: has missing values",
    ),
    "no language": (
        changed_attributes(kind=lambda column: as_labels(["@e n"] * len(column))),
        "attributes.arrow: '@e n' is no language",
    ),
    "no predicates": (
        lambda folder: (folder / "target/predicates.arrow").unlink(),
        "predicates.arrow: cannot be opened: No such file",
    ),
    "deep JSON": (text_file("task.json", "[" * 100_000), "task.json: is nested too deeply"),
    "huge integer": (text_file("task.json", "9" * 5_000), "task.json: is damaged (Exceeds the limit"),
    "JSON of another kind": (text_file("task.json", "[1]"), "task.json: has another format"),
    "large JSON": (text_file("task.json", " " * (2 << 20)), "task.json: is larger than 1 MiB"),
    **{f"pipe as {name}": (fifo(name), f"{name}: is not a regular file") for name in FILES},
}


@pytest.mark.parametrize("craft, message", CASES.values(), ids=CASES.keys())
def test_a_crafted_task_is_refused_with_one_line(folder, craft, message):
    craft(folder)
    with pytest.raises(InputError) as caught:
        load_task(folder)
    assert message in str(caught.value)
    assert str(folder) in str(caught.value) and "\n" not in str(caught.value)


def test_the_task_that_the_cases_change_is_read(folder):
    graph = small_graph()
    assert load_task(folder).source == graph
    assert graph.num_entities == graph.num_triples == ROWS


def test_nothing_is_allocated_for_a_header_that_declares_more_than_the_file_has(folder):
    changed_header("source/triples.npy", SHAPE, b"(88888888888888888, 3)")(folder)
    before = pa.total_allocated_bytes()
    with pytest.raises(InputError, match="its size does not fit"):
        load_task(folder)
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_an_empty_graph_can_be_saved_and_opened(tmp_path):
    empty = KnowledgeGraph.from_triples([])
    save_task(AlignmentTask(empty, empty), tmp_path / "t")
    again = load_task(tmp_path / "t")
    assert (again.source, len(again.seeds)) == (empty, 0)


@pytest.mark.parametrize("pair", [(-1, 0), (0, -1), (1 << 31, 0), (0, 1 << 40)])
def test_links_refuse_ids_that_are_no_ids(pair):
    with pytest.raises(InputError, match="ids of a link"):
        Links.from_pairs([(1, 1), pair])
