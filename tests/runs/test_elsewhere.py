"""A run that somebody else made, with whatever they put into it: refused in one line, never run."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from divea.run.checksums import file_checksum
from divea.run.journal import Entry, Journal
from divea.run.manifest import NAME, _checksum
from divea.run.tables import RANKED
from tests.command_line import divea
from tests.run.tiny import PAIR, write_inputs


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("elsewhere")
    assert divea(*write_inputs(folder), "--out", folder / "run").code == 0
    labels = zip(*PAIR.gold.labels(PAIR.task.source, PAIR.task.target), strict=True)
    (folder / "gold.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in labels))
    return folder


@pytest.fixture
def forged(original, tmp_path):
    shutil.copytree(original / "run", tmp_path / "run")
    return tmp_path / "run"


def vouch(run, name):
    """What a forger would do: the journal says that the file is sound."""
    Journal(run).append(Entry(name, file_checksum(run / name) or "", ""))


def refused(original, run):
    ended = divea("evaluate", run, "--gold", original / "gold.tsv")
    return ended.code == 2 and ended.err.startswith("divea: ") and ended.err.count("\n") == 1


def change(name, value):
    def changed(table):
        column = pa.array([value, *table[name].to_pylist()[1:]], table.schema.field(name).type)
        return table.set_column(table.column_names.index(name), name, column)

    return changed


@pytest.mark.parametrize(
    "forge",
    [
        change("rank", 2**31 - 1),
        change("rank", -1),
        change("source", "../../etc/passwd"),
        change("target", "nobody"),
        lambda table: table.drop_columns(["given"]),
        lambda table: pa.concat_tables([table, table]),
        lambda table: pa.table({"x": [1]}),
    ],
)
def test_ranked_lists(original, forged, forge):
    table = forge(pq.read_table(forged / "ranked.parquet"))
    pq.write_table(table, forged / "ranked.parquet")
    assert table.schema == RANKED or "given" not in table.column_names
    vouch(forged, "ranked.parquet")
    assert refused(original, forged)


@pytest.mark.parametrize(
    "ids",
    [
        np.array([{"run": "this"}], dtype=object),
        np.arange(10**5, dtype=np.int32),
        np.full(10, -5, dtype=np.int32),
        np.zeros((3, 3), dtype=np.int32),
        np.zeros(3),
    ],
)
def test_division(original, forged, ids):
    np.save(forged / "division" / "arrays" / "candidates.npy", ids, allow_pickle=True)
    vouch(forged, "division")
    assert refused(original, forged)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("settings", {"model": 7}),
        ("settings", {"unheard": "of"}),
        ("settings", []),
        ("threads", "many"),
        ("folder", 3),
        ("version", 99),
        ("more", 1),
    ],
)
def test_manifest(original, forged, key, value):
    content = json.loads((forged / NAME).read_text()) | {key: value}
    content.pop("checksum")
    (forged / NAME).write_text(json.dumps({"checksum": _checksum(content), **content}))
    assert refused(original, forged)
    assert divea("align", "--out", forged).code == 2


def test_a_log_with_anything_in_it(forged):
    with (forged / "log.jsonl").open("a") as file:
        for line in ("{", "7", '{"event": 3}', '{"event": "iteration", "iteration": "x", "time": []}'):
            file.write(line + "\n")
        file.write('{"event": "learned", "pseudo_seeds": {}, "time": "now"}\n')
    assert divea("status", forged).code == divea("runs", forged.parent).code == 0


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "null", '{"checksum": 5}', "\x00\xff"])
def test_a_manifest_that_is_none(original, forged, text):
    (forged / NAME).write_text(text)
    assert refused(original, forged)
    assert "damaged" in divea("status", forged).out
