"""A run that somebody else made may hold anything. It is refused in one line, and none of it is executed."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from divea.io import file_checksum
from divea.runs.journal import Entry, Journal
from divea.runs.layout import DIVISION, LOG, MANIFEST, RANKED
from divea.runs.manifest import _checksum
from divea.runs.tables import RANKED_SCHEMA
from tests.command_line import divea
from tests.runs.tiny import PAIR, write_inputs


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A folder with a finished run and a gold file."""
    folder = tmp_path_factory.mktemp("elsewhere")
    assert divea(*write_inputs(folder), "--out", folder / "run").code == 0
    labels = zip(*PAIR.gold.labels(PAIR.task.source, PAIR.task.target), strict=True)
    (folder / "gold.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in labels))
    return folder


@pytest.fixture
def forged(original, tmp_path):
    """A copy of the run, for changes that carry a valid checksum."""
    shutil.copytree(original / "run", tmp_path / "run")
    return tmp_path / "run"


def add_to_journal(run, name):
    """Add the checksum of a forged file to the journal, as a forger would."""
    Journal(run).append(Entry(name, file_checksum(run / name) or "", ""))


def is_refused(original, run):
    ended = divea("evaluate", run, "--gold", original / "gold.tsv")
    return ended.code == 2 and ended.err.startswith("divea: ") and ended.err.count("\n") == 1


def with_first(name, value):
    """Changes the first value of a column."""

    def changed(table):
        column = pa.array([value, *table[name].to_pylist()[1:]], table.schema.field(name).type)
        return table.set_column(table.column_names.index(name), name, column)

    return changed


def test_an_unchanged_copy_is_accepted(original, forged):
    assert divea("evaluate", forged, "--gold", original / "gold.tsv").code == 0


@pytest.mark.parametrize(
    "forge",
    [
        with_first("rank", 2**31 - 1),
        with_first("rank", -1),
        with_first("source", "../../etc/passwd"),
        with_first("target", "no such entity"),
        *(with_first(name, None) for name in ("source", "target", "rank", "score", "subtask", "given")),
        lambda table: table.set_column(6, "given", pa.array([True] * len(table))),
        lambda table: table.drop_columns(["given"]),
        lambda table: pa.concat_tables([table, table]),
        lambda table: pa.table({"x": [1]}),
    ],
)
def test_forged_ranked_lists_are_refused(original, forged, forge):
    table = forge(pq.read_table(forged / RANKED))
    pq.write_table(table, forged / RANKED)
    assert table.schema == RANKED_SCHEMA or "given" not in table.column_names
    add_to_journal(forged, RANKED)
    assert is_refused(original, forged)


@pytest.mark.parametrize(
    "ids",
    [
        np.array([{"run": "this"}], dtype=object),
        np.arange(10**5, dtype=np.int32),
        np.full(10, -5, dtype=np.int32),
        np.zeros((3, 3), dtype=np.int32),
        np.zeros(3),
    ],
    ids=["pickled", "too large", "negative", "two-dimensional", "floats"],
)
def test_a_forged_division_is_refused(original, forged, ids):
    np.save(forged / DIVISION / "arrays" / "candidates.npy", ids, allow_pickle=True)
    add_to_journal(forged, DIVISION)
    assert is_refused(original, forged)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("settings", {"model": 7}),
        ("settings", {"unheard": "of"}),
        ("settings", {"iterations": 10**9}),
        ("settings", []),
        ("threads", "many"),
        ("memory", -1),
        ("device", "tpu"),
        ("folder", 3),
        ("version", 99),
        ("more", 1),
    ],
)
def test_a_forged_manifest_is_refused(original, forged, key, value):
    content = json.loads((forged / MANIFEST).read_text()) | {key: value}
    content.pop("checksum")
    (forged / MANIFEST).write_text(json.dumps({"checksum": _checksum(content), **content}))
    assert is_refused(original, forged)
    assert divea("align", "--out", forged).code == 2


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "null", '{"checksum": 5}', "\x00\xff", "[" * 10_000])
def test_a_file_that_is_not_a_manifest_is_refused(original, forged, text):
    (forged / MANIFEST).write_text(text)
    assert is_refused(original, forged)
    assert "damaged" in divea("status", forged).out


def test_a_log_may_hold_anything(forged):
    """test_status.py has many more such logs."""
    with (forged / LOG).open("a") as file:
        file.write('{\n7\n{"event": 3}\n{"event": "iteration", "iteration": "x", "time": []}\n')
        file.write('{"event": "learned", "pseudo_seeds": {}, "time": "now"}\n')
    assert divea("status", forged).code == divea("runs", forged.parent).code == 0
