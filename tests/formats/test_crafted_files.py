"""Files that somebody made to exhaust memory or time: each is refused with one line, in little memory."""

import bz2
import gzip
import json
import lzma
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from divea import InputError, read_graph
from divea.formats import read_mappings
from divea.formats.id_labels import IdLabels
from divea.formats.parquet import read_label_columns, read_whole_table
from divea.formats.parquet_pages import read_pages
from divea.formats.stream import open_text
from tests.command_line import python

COLUMNS = ("head", "relation", "tail", "source", "target")
MIB = 1 << 20
LIMIT = "would expand to more than"


def write_columns(path, values, **options):
    table = pa.table(dict.fromkeys(COLUMNS, values))
    pq.write_table(table, path, compression="zstd", **options)


def repeated(label, rows):
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([label]))


def long_label_in_many_rows(path):
    write_columns(path, repeated("x" * 1_000_000, 6_000), store_schema=False)


def long_category_in_many_rows(path):
    write_columns(path, repeated("x" * 1_000_000, 6_000))


def many_equal_rows(path):
    write_columns(path, repeated("x", 10_000_000), store_schema=False)


def compressed_text(path):
    write_columns(path, pa.array([f"{row}{'x' * 1_000_000}" for row in range(100)]), use_dictionary=False)


def shared_starts(path):
    values = pa.array(["x" * 1_000_000 + str(row) for row in range(300)])
    encoding = dict.fromkeys(COLUMNS, "DELTA_BYTE_ARRAY")
    write_columns(path, values, use_dictionary=False, column_encoding=encoding)


BOMBS = [
    long_label_in_many_rows,
    long_category_in_many_rows,
    many_equal_rows,
    compressed_text,
    shared_starts,
]


def peak_of(function, path):
    """What reading a file in a fresh process says, and how many MiB it takes at most beyond the libraries."""
    code = f"""
import json, resource
from pathlib import Path
from divea import InputError, read_graph
from divea.formats import read_mappings

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

before, message = peak(), "read"
try:
    {function}(Path({str(path)!r}))
except InputError as error:
    message = str(error)
print(json.dumps([message, peak() - before]))
"""
    return json.loads(python(code))


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["read_graph", "read_mappings"])
@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.__name__)
def test_a_parquet_file_that_expands_is_read_in_little_memory_or_refused(tmp_path, bomb, reader):
    path = tmp_path / "bomb.parquet"
    bomb(path)
    assert path.stat().st_size < MIB
    message, peak = peak_of(reader, path)
    # A graph keeps the one category once, so there is nothing to refuse.
    keeps_distinct = reader == "read_graph" and bomb is long_category_in_many_rows
    assert message == "read" if keeps_distinct else LIMIT in message
    assert peak < 600


def test_a_parquet_file_that_expands_is_refused_before_it_is_read(tmp_path):
    for bomb in (many_equal_rows, compressed_text):
        bomb(tmp_path / "bomb.parquet")
        before = pa.total_allocated_bytes()
        with pytest.raises(InputError, match=LIMIT):
            read_graph(tmp_path / "bomb.parquet")
        assert pa.total_allocated_bytes() - before < MIB


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_dictionary": False},
        {"use_dictionary": False, "column_encoding": {"head": "DELTA_BYTE_ARRAY"}},
        {"use_dictionary": False, "column_encoding": {"head": "DELTA_LENGTH_BYTE_ARRAY"}},
        {"data_page_version": "2.0", "data_page_size": 500},
        {"compression": "none", "row_group_size": 70, "write_statistics": False},
        {"dictionary_pagesize_limit": 200, "write_page_checksum": True},
        {"compression": "gzip", "write_page_index": True},
    ],
)
def test_ordinary_parquet_files_are_read_whatever_their_encoding(tmp_path, options):
    labels = [f"http://e.example/{row % 70}" for row in range(400)]
    table = pa.table({"head": labels, "relation": ["r"] * 400, "tail": labels[::-1], "n": range(400)})
    pq.write_table(table, tmp_path / "graph.parquet", **options)
    found = [
        [
            value
            for batch in read_label_columns(tmp_path / "graph.parquet", [name])
            for value in batch[0].to_pylist()
        ]
        for name in ("head", "tail", "n")
    ]
    assert found == [labels, labels[::-1], [str(row) for row in range(400)]]
    with pq.ParquetFile(tmp_path / "graph.parquet") as file:
        pages = read_pages(tmp_path / "graph.parquet", file, ["head", "n"])
        metadata = file.metadata
        columns = [
            metadata.row_group(group).column(at) for group in range(metadata.num_row_groups) for at in (0, 3)
        ]
    # The footer counts headers too: an honest file has a little less in its pages, and eight bytes per value.
    footer = sum(column.total_uncompressed_size for column in columns)
    assert 0.3 * footer < pages.expanded - 8 * 800 <= footer
    assert pages.has_shared_starts == ("DELTA_BYTE_ARRAY" in str(options))


@pytest.mark.parametrize(
    "column, message",
    [
        (["a", ""], "the column 'head' has an empty value"),
        (["a", None], "the column 'head' has 1 missing values"),
        (pa.array(["a", ""]).dictionary_encode(), "the column 'head' has an empty value"),
        ([1.5, 2], "the column 'head' is of type double"),
        ([["a"], ["b"]], "the column 'head' is of type list"),
        ([b"a", b"b"], "the column 'head' is of type binary"),
    ],
)
def test_columns_that_are_no_labels_are_refused(tmp_path, column, message):
    pq.write_table(
        pa.table({"head": column, "relation": ["r", "r"], "tail": ["x", "y"]}), tmp_path / "g.parquet"
    )
    with pytest.raises(InputError, match=message):
        read_graph(tmp_path / "g.parquet")


def test_text_that_is_not_utf8_is_refused(tmp_path):
    wrong = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")]
    )
    pq.write_table(pa.table({"head": wrong, "relation": ["r"], "tail": ["x"]}), tmp_path / "g.parquet")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        read_graph(tmp_path / "g.parquet")


def test_a_column_that_appears_twice_is_refused(tmp_path):
    table = pa.table([["a"], ["r"], ["b"], ["c"]], names=["head", "relation", "tail", "head"])
    pq.write_table(table, tmp_path / "g.parquet")
    with pytest.raises(InputError, match="the column 'head' appears twice"):
        read_graph(tmp_path / "g.parquet")


def test_a_whole_table_is_read_if_it_has_the_columns_and_does_not_expand(tmp_path):
    path = tmp_path / "table.parquet"
    schema = pa.schema({"source": pa.large_string(), "rank": pa.int32()})
    table = pa.table([[f"e{row // 3}" for row in range(1000)], range(1000)], schema=schema)
    pq.write_table(table, path)
    assert read_whole_table(path, schema).combine_chunks().equals(table)
    pq.write_table(table[:0], path)
    assert read_whole_table(path, schema).equals(table[:0])
    with pytest.raises(InputError, match="does not have the columns"):
        read_whole_table(path, pa.schema({"source": pa.string(), "rank": pa.int32()}))
    pq.write_table(pa.table([["x" * MIB] * 200, range(200)], schema=schema), path, compression="zstd")
    assert path.stat().st_size < MIB
    with pytest.raises(InputError, match=LIMIT):
        read_whole_table(path, schema)


COMPRESS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda text: pa.compress(text, "zstd", asbytes=True),
}


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("line", [b"\n", b"a\tr\tb\n"])
def test_a_compressed_text_that_expands_is_refused(tmp_path, monkeypatch, suffix, line):
    """With smaller limits, so that the test is quick; the limits themselves are in the next test."""
    monkeypatch.setattr("divea.formats.stream.FREE_EXPANSION", MIB)
    path = tmp_path / f"graph.tsv.{suffix}"
    path.write_bytes(COMPRESS[suffix](line * (8 * MIB // len(line))))
    with pytest.raises(InputError, match="expands to more than"):
        read_graph(path)


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["read_graph", "read_mappings"])
@pytest.mark.parametrize("name", ["graph.tsv.zst", "graph.nt.zst", "mappings.sssom.tsv.zst"])
def test_a_gigabyte_of_line_breaks_takes_little_memory(tmp_path, name, reader):
    path = tmp_path / name
    path.write_bytes(pa.compress(b"\n" * (1 << 30), "zstd", asbytes=True))
    message, peak = peak_of(reader, path)
    assert message != "read"
    assert peak < 600


def test_a_plain_text_may_have_any_size(tmp_path, monkeypatch):
    monkeypatch.setattr("divea.formats.stream.FREE_EXPANSION", 0)
    monkeypatch.setattr("divea.formats.stream.MOST_EXPANSION", 0)
    (tmp_path / "graph.tsv").write_bytes(b"a\tr\tb\n" * 1000)
    assert read_graph(tmp_path / "graph.tsv").num_triples == 1


def open_whole(path):
    with open_text(path) as stream:
        return stream.read()


@pytest.mark.parametrize("read", [read_graph, read_mappings, open_whole, IdLabels])
@pytest.mark.parametrize("suffix", [".tsv", ".parquet", ".nt.gz"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, read, suffix):
    path = tmp_path / f"pipe{suffix}"
    os.mkfifo(path)
    with pytest.raises(InputError, match="is not a regular file"):
        read(path)
