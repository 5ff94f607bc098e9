"""Row groups that were encoded apart: joined, they are the file that one writer would have written."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divea.formats.parquet_join import join_parquet
from divea.formats.thrift import read_struct, write_struct

OPTIONS = [
    {},
    {"compression": "zstd", "use_dictionary": False, "write_statistics": False},
    {"write_page_index": True},
    {"data_page_version": "2.0", "compression": "none", "data_page_size": 64},
    {"bloom_filter_options": {"label": {"ndv": 100}}},
]


def table(rows, random_seed=0):
    rng = np.random.default_rng(random_seed)
    numbers = pa.array(rng.integers(0, 9, rows), mask=rng.random(rows) < 0.3)
    labels = pa.array([f"label {value}" for value in rng.integers(0, 5, rows)], pa.large_string())
    return pa.table(
        {"number": numbers, "label": labels, "list": pa.array([[1.5, None]] * rows, pa.list_(pa.float64()))}
    )


def written(tables, **options):
    file = io.BytesIO()
    with pq.ParquetWriter(file, tables[0].schema, **options) as writer:
        for part in tables:
            if len(part):
                writer.write_table(part)
    return file.getvalue()


def joined(parts):
    file = io.BytesIO()
    join_parquet((pa.py_buffer(part) for part in parts), file)
    return file.getvalue()


@pytest.mark.parametrize("options", OPTIONS)
@given(rows=st.lists(st.integers(0, 40), min_size=1, max_size=20))
def test_the_bytes_are_those_of_one_writer(options, rows):
    tables = [table(count, at) for at, count in enumerate(rows)]
    found = joined([written([part], **options) for part in tables])
    if "write_page_index" in options or "bloom_filter_options" in options:
        # One writer puts these indexes behind all row groups, not behind each.
        assert pq.read_metadata(io.BytesIO(found)).num_row_groups == sum(count > 0 for count in rows)
    else:
        assert found == written(tables, **options)
    assert pq.read_table(io.BytesIO(found)).equals(pa.concat_tables(tables))


def test_other_readers_take_the_file(tmp_path):
    polars = pytest.importorskip("polars")
    tables = [table(1000, seed).drop_columns("list") for seed in range(3)]
    path = tmp_path / "joined.parquet"
    path.write_bytes(joined([written([part]) for part in tables]))
    assert polars.read_parquet(path).to_arrow().cast(tables[0].schema).equals(pa.concat_tables(tables))


def test_parts_are_released_one_after_another():
    """Only one part is in memory."""
    data = written([table(5).drop_columns("list")], use_dictionary=False)
    before, held = pa.total_allocated_bytes(), []

    def encoded():
        with pa.BufferOutputStream() as part:
            part.write(data)
            return part.getvalue()

    def parts():
        for _ in range(4):
            held.append(pa.total_allocated_bytes() - before)
            yield encoded()

    join_parquet(parts(), io.BytesIO())
    assert held == [0] * 4


def test_a_list_that_is_longer_than_the_data_is_refused():
    """Values of a fixed length, 2 ** 62 of them."""
    with pytest.raises(IndexError):
        read_struct(bytes([0x19, 0xF7, *[0xFF] * 8, 0x7F]))


@given(st.dictionaries(st.integers(1, 40), st.integers(-(1 << 62), 1 << 62)))
def test_what_is_read_can_be_written(values):
    """Any field numbers and integers, checked against bytes made here by the rules of the protocol."""
    data, last = b"", 0
    for number, value in sorted(values.items()):
        step = number - last
        data += bytes([step << 4 | 6]) if step < 16 else bytes([6, *varint(number << 1)])
        data += varint(value << 1 if value >= 0 else -(value << 1) - 1)
        last = number
    fields, end = read_struct(data + b"\0")
    assert (dict(fields), end) == (values, len(data) + 1)
    assert write_struct(fields) == data + b"\0"


def varint(value):
    groups = [value & 127]
    while value := value >> 7:
        groups[-1] |= 128
        groups.append(value & 127)
    return bytes(groups)
