"""`divea export` and `Alignment.export`: pairs of a finished run, by any threshold and in any format."""

import csv
import gzip

import numpy as np
import pyarrow.parquet as pq
import pytest

from divea import Alignment, InputError, write_graph
from divea.errors import CalibrationError
from divea.formats import read_mappings
from divea.formats.mapping_files import SUFFIXES
from divea.graphs.synth import SynthConfig, synthesise
from divea.loop.confidence import threshold_for
from tests.command_line import divea
from tests.runs.tiny import NAMED_PAIR, PAIR, tables, write_inputs

SEEDED = synthesise(SynthConfig(entities=150, random_seed=1, names=True, seed_share=0.2))
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """A run without seeds, whose confidence comes from names."""
    return run_of(NAMED_PAIR, tmp_path_factory.mktemp("named"))


@pytest.fixture(scope="module")
def seeded(tmp_path_factory):
    """A run with seeds and names."""
    return run_of(SEEDED, tmp_path_factory.mktemp("seeded"))


@pytest.fixture(scope="module")
def uncalibrated(tmp_path_factory):
    return run_of(PAIR, tmp_path_factory.mktemp("uncalibrated"))


def run_of(pair, folder, *options):
    ended = divea(*write_inputs(folder, pair), *options, "--out", folder / "run")
    assert ended.code == 0, ended.err
    return folder / "run"


def pairs_of(table):
    return list(zip(table["source"].to_pylist(), table["target"].to_pylist(), strict=True))


def exported(run, path, *options):
    ended = divea("export", run, "-o", path, *options)
    assert ended.code == 0, ended.err
    return ended


def read_rows(path):
    """The rows of a TSV or SSSOM file by column, with csv's own quoting in SSSOM."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    quoting = csv.QUOTE_MINIMAL if ".sssom" in path.name else csv.QUOTE_NONE
    return list(csv.DictReader(lines, delimiter="\t", quoting=quoting))


# Which pairs


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".tsv.gz", ".nt.zst"])
def test_without_a_threshold_the_mappings_are_written_in_every_format(seeded, tmp_path, suffix):
    before = tables(seeded)
    ended = exported(seeded, tmp_path / f"pairs{suffix}")
    mappings = pq.read_table(seeded / "mappings.parquet")
    assert ended.out.startswith(f"{tmp_path / f'pairs{suffix}'}: {len(mappings)} pairs; expected precision ")
    found = read_mappings(tmp_path / f"pairs{suffix}")
    assert pairs_of(found) == pairs_of(mappings)
    if ".nt" not in suffix:
        assert found["confidence"].to_pylist() == pytest.approx(mappings["confidence"].to_pylist())
    if suffix in (".tsv", ".csv", ".parquet", ".sssom.tsv"):
        assert found["score"].to_pylist() == pytest.approx(mappings["score"].to_pylist())
        assert found["rank"].to_pylist() == mappings["rank"].to_pylist()
        assert ended.err == ""
    assert tables(seeded) == before


@pytest.mark.parametrize("precision", [0.9, 0.95, 0.97, 0.99])
def test_the_same_precision_gives_the_mappings_of_a_run_with_it(named, tmp_path, precision):
    other = run_of(NAMED_PAIR, tmp_path, "--precision", precision)
    mappings = pairs_of(pq.read_table(other / "mappings.parquet"))
    for run in (named, other):
        exported(run, tmp_path / "pairs.tsv", "--precision", precision)
        assert pairs_of(read_mappings(tmp_path / "pairs.tsv")) == mappings
    # The end of the run said how many these are.
    assert mappings and f"{len(mappings)} pairs" in (other / "log.jsonl").read_text()


def test_a_lower_precision_gives_more_pairs(named, tmp_path):
    alignment = Alignment(named)
    ranked = alignment.ranked.filter(alignment.ranked["given"])
    confidence = ranked["confidence"].to_numpy()
    before = set()
    for precision in (0.99, 0.95, 0.9, 0.5):
        table = alignment.export(tmp_path / "pairs.parquet", precision=precision)
        kept = ranked.filter(confidence >= threshold_for(precision, confidence))
        assert pairs_of(table) == pairs_of(read_mappings(tmp_path / "pairs.parquet"))
        assert sorted(pairs_of(table)) == sorted(pairs_of(kept))
        assert table["confidence"].to_numpy().mean() >= precision
        assert before <= set(pairs_of(table))
        before = set(pairs_of(table))
    assert len(before) > len(alignment.mappings)


@pytest.mark.parametrize("least", [0, 0.2, 0.5, 0.9, 0.999])
def test_a_confidence_threshold(named, tmp_path, least):
    exported(named, tmp_path / "pairs.tsv", "--min-confidence", least)
    ranked = pq.read_table(named / "ranked.parquet")
    assigned = ranked.filter(ranked["given"])
    # The lists of a subtask follow each other, exported pairs are in the order of the sources' ids.
    expected = assigned.filter(assigned["confidence"].to_numpy() >= least).sort_by("source")
    found = read_mappings(tmp_path / "pairs.tsv").sort_by("source")
    assert pairs_of(found) == pairs_of(expected)
    assert found["rank"].to_pylist() == expected["rank"].to_pylist()
    assert found["score"].to_pylist() == pytest.approx(expected["score"].to_pylist())


def test_a_threshold_above_all_pairs_writes_an_empty_table(named, tmp_path):
    ended = exported(named, tmp_path / "none.tsv", "--min-confidence", 1, "--names", "--context", 2)
    assert ended.out == f"{tmp_path / 'none.tsv'}: 0 pairs\n"
    assert len((tmp_path / "none.tsv").read_text().splitlines()) == 1


def test_the_default_threshold_of_a_run_is_one_half(named, tmp_path):
    first = Alignment(named).export(tmp_path / "a.tsv")
    assert first.equals(Alignment(named).export(tmp_path / "b.tsv", min_confidence=0.5))
    assert (tmp_path / "a.tsv").read_bytes() == (tmp_path / "b.tsv").read_bytes()


def test_a_run_without_confidence_is_exported_whole(uncalibrated, tmp_path):
    ended = exported(uncalibrated, tmp_path / "pairs.sssom.tsv", "--seeds")
    mappings = pq.read_table(uncalibrated / "mappings.parquet")
    seeds = len(PAIR.task.seeds)
    assert ended.out == f"{tmp_path / 'pairs.sssom.tsv'}: {len(mappings)} pairs and {seeds} seeds\n"
    found = read_mappings(tmp_path / "pairs.sssom.tsv")
    assert found["confidence"].to_pylist() == [None] * len(mappings) + [1.0] * seeds


# What is written beside them


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_seeds_follow_with_confidence_1(seeded, tmp_path, suffix):
    path = tmp_path / f"all{suffix}"
    ended = exported(seeded, path, "--seeds")
    found = read_mappings(path)
    seeds = SEEDED.task.seeds.labels(SEEDED.task.source, SEEDED.task.target)
    expected = list(zip(*(side.to_pylist() for side in seeds), strict=True))
    number = len(expected)
    assert number > 10 and pairs_of(found)[-number:] == expected
    assert pairs_of(found)[:-number] == pairs_of(pq.read_table(seeded / "mappings.parquet"))
    assert f" and {number} seeds; " in ended.out
    if suffix != ".nt":
        assert found["confidence"].to_pylist()[-number:] == [1.0] * number
    if suffix in (".nt", ".rdf"):
        assert "origin: left out" in ended.err


def test_seeds_can_be_told_from_found_pairs(seeded, tmp_path):
    number = len(SEEDED.task.seeds)
    table = Alignment(seeded).export(tmp_path / "all.tsv", seeds=True)
    expected = ["found"] * (len(table) - number) + ["seed"] * number
    assert table["origin"].to_pylist() == expected
    assert [row["origin"] for row in read_rows(tmp_path / "all.tsv")] == expected
    exported(seeded, tmp_path / "all.sssom.tsv", "--seeds")
    justified = [row["mapping_justification"] for row in read_rows(tmp_path / "all.sssom.tsv")]
    names = {"found": "semapv:UnspecifiedMatching", "seed": "semapv:ManualMappingCuration"}
    assert justified == [names[origin] for origin in expected]


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".parquet", ".sssom.tsv"])
def test_names_and_context_in_every_format_that_can_hold_them(seeded, tmp_path, suffix):
    path = tmp_path / f"pairs{suffix}"
    options = {"names": True, "context": 2, "seeds": True, "min_confidence": 0.2}
    table = Alignment(seeded).export(path, **options)
    assert pairs_of(read_mappings(path)) == pairs_of(table)
    task = SEEDED.task
    names = dict(zip(task.source.entities.to_pylist(), task.source.names.to_pylist(), strict=True))
    assert table["source_label"].to_pylist() == [names[label] for label in table["source"].to_pylist()]
    for column in ("source_context", "target_context"):
        texts = table[column].to_pylist()
        assert max(text.count("; ") for text in texts) == 1 and all(": " in text for text in texts if text)
    if suffix == ".parquet":
        assert pq.read_table(path).equals(table)
    elif suffix == ".sssom.tsv":
        rows = read_rows(path)
        assert [row["subject_label"] for row in rows] == table["source_label"].to_pylist()
        assert [row["object_label"] for row in rows] == table["target_label"].to_pylist()
        contexts = [table[f"{end}_context"].to_pylist() for end in ("source", "target")]
        assert [row["comment"] for row in rows] == [
            " | ".join(f"{end}: {text}" for end, text in zip(("source", "target"), both, strict=True) if text)
            for both in zip(*contexts, strict=True)
        ]
    elif suffix == ".tsv":
        rows = read_rows(path)
        assert [row["target_label"] for row in rows] == table["target_label"].to_pylist()
        assert [row["source_context"] for row in rows] == table["source_context"].to_pylist()
    else:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert [row["source_label"] for row in rows] == table["source_label"].to_pylist()


def test_neighbours_that_match_each_other_come_first(seeded, tmp_path):
    table = Alignment(seeded).export(tmp_path / "pairs.tsv", context=1, seeds=True, names=True)
    matched = set(zip(table["source_label"].to_pylist(), table["target_label"].to_pylist(), strict=True))
    shown = [
        (left.partition(": ")[2], right.partition(": ")[2])
        for left, right in zip(
            table["source_context"].to_pylist(), table["target_context"].to_pylist(), strict=True
        )
    ]
    assert np.mean([pair in matched for pair in shown]) > 0.7


ODD = ["tab\there", 'say "hi"', "שלום עולם", "line\nbreak\r\n", "a\u2028b", "=1+1", "x" * 500, "'", "\\t"]


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A run whose source entities have odd names, and target IRIs in another script with names."""
    folder = tmp_path_factory.mktemp("odd")
    task = PAIR.task
    write_graph(task.source, folder / "a.nt")
    write_graph(task.target, folder / "b.nt")
    (folder / "b.nt").write_text((folder / "b.nt").read_text().replace("/resource/E", "/resource/Ü%C3%9C_"))
    for name, word in (("a.nt", None), ("b.nt", "Ü")):
        text = (folder / name).read_text(encoding="utf-8")
        labels = sorted({word for line in text.splitlines() for word in line.split() if "/resource/" in word})
        values = [ODD[at % len(ODD)] if word is None else f"{word}{at}" for at in range(len(labels))]
        escaped = [
            value.replace("\\", "\\\\")
            .replace('"', '\\"')
            .replace("\t", "\\t")
            .replace("\n", "\\n")
            .replace("\r", "\\r")
            for value in values
        ]
        more = [f'{label} {LABEL} "{value}" .\n' for label, value in zip(labels, escaped, strict=True)]
        (folder / name).write_text(text + "".join(more), encoding="utf-8")
    source, target = task.seeds.labels(task.source, task.target)
    seeds = zip(source.to_pylist(), target.to_pylist(), strict=True)
    changed = [f"{left}\t{right.replace('/resource/E', '/resource/Ü%C3%9C_')}\n" for left, right in seeds]
    (folder / "seeds.tsv").write_text("".join(changed), encoding="utf-8")
    files = ["--source", folder / "a.nt", "--target", folder / "b.nt", "--seeds", folder / "seeds.tsv"]
    small = ["--iterations", 1, "-n", 1, "--features", "none", "--device", "cpu"]
    ended = divea("align", *files, *small, "--out", folder / "run")
    assert ended.code == 0, ended.err
    return folder / "run"


@pytest.mark.parametrize("suffix", [".tsv", ".sssom.tsv", ".csv", ".parquet"])
def test_odd_names_are_written_in_one_line_and_labels_are_read_back(odd, tmp_path, suffix):
    path = tmp_path / f"pairs{suffix}"
    table = Alignment(odd).export(path, names=True, context=3)
    assert pairs_of(read_mappings(path)) == pairs_of(table) == pairs_of(Alignment(odd).mappings)
    assert any("Ü%C3%9C_" in target for target in table["target"].to_pylist())
    shown = {"tab here", 'say "hi"', "שלום עולם", "line break", "a b", "=1+1", "x" * 200 + "…", "'", "\\t"}
    assert set(table["source_label"].to_pylist()) == shown
    if suffix in (".tsv", ".sssom.tsv"):
        column = "source_label" if suffix == ".tsv" else "subject_label"
        assert [row[column] for row in read_rows(path)] == table["source_label"].to_pylist()


def test_an_export_for_a_spreadsheet_has_no_formulas(odd, tmp_path):
    ended = exported(odd, tmp_path / "pairs.csv", "--names", "--for-spreadsheet")
    with (tmp_path / "pairs.csv").open(encoding="utf-8", newline="") as file:
        labels = {row["source_label"] for row in csv.DictReader(file)}
    assert "'=1+1" in labels and "=1+1" not in labels
    assert "this file is for people" in ended.err


def test_a_property_that_was_said_to_name_entities_is_preferred(tmp_path):
    (tmp_path / "a.nt").write_text(
        "<http://a.example/1> <http://a.example/r> <http://a.example/2> .\n"
        '<http://a.example/1> <http://a.example/nick> "Nick" .\n'
        f'<http://a.example/1> {LABEL} "Label" .\n'
    )
    from divea import read_graph
    from divea.runs.export import readable_names

    graph = read_graph(tmp_path / "a.nt")
    assert sorted(readable_names(graph).to_pylist()) == ["2", "Label"]
    assert sorted(readable_names(graph, "http://a.example/nick").to_pylist()) == ["2", "Nick"]


# What is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--precision", 2], "precision: expected a number above 0 and below 1; found 2.0"),
        (["--precision", 0], "precision: expected a number above 0 and below 1; found 0.0"),
        (["--precision", "nan"], "precision: expected a number above 0 and below 1; found nan"),
        (["--min-confidence", -1], "min_confidence: expected a number from 0 to 1; found -1.0"),
        (["--precision", 0.9, "--min-confidence", 0.5], "exclude each other"),
        (["--context", 0], "context: expected a whole number from 1 to 100; found 0"),
        (["--context", 101], "context: expected a whole number from 1 to 100; found 101"),
        (["--context", "two"], "Invalid value for '--context'"),
        (["--top", 3], "--top"),
        (["-o", "pairs.docx"], "pairs.docx: unknown mapping format: use .sssom.tsv, .tsv, .csv, .parquet"),
        (["-o", "p.nt", "--names"], "a .nt file cannot hold names; use .sssom.tsv, .tsv, .csv or .parquet"),
        (["-o", "p.rdf.gz", "--names", "--context", 2], "a .rdf file cannot hold names and context; use "),
        (["-o", "p.parquet", "--for-spreadsheet"], "only .tsv and .csv files are for spreadsheets"),
        (["-o", "."], "unknown mapping format"),
    ],
)
def test_nonsense_is_refused_in_one_line(named, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    ended = divea("export", named, "-o", "pairs.tsv", *options)
    assert ended.code == 2 and message in ended.err, ended.err
    assert ended.err.count("\n") == 1 and ended.out == ""
    assert list(tmp_path.iterdir()) == []


def test_an_export_without_a_file_is_refused(named):
    ended = divea("export", named)
    assert ended.code == 2 and "--out" in ended.err


@pytest.mark.parametrize("threshold", [["--precision", 0.9], ["--min-confidence", 0.5]])
def test_a_threshold_for_a_run_without_confidence_is_refused(uncalibrated, tmp_path, threshold):
    ended = divea("export", uncalibrated, "-o", tmp_path / "pairs.tsv", *threshold)
    assert ended.code == 4 and "the pairs of this run have no confidence" in ended.err
    assert ended.err.count("\n") == 1 and not (tmp_path / "pairs.tsv").exists()


def test_a_precision_that_cannot_be_reached_is_refused(named, tmp_path):
    most = Alignment(named).mappings["confidence"].to_numpy().max()
    above = (1 + most) / 2
    assert above < 1
    with pytest.raises(CalibrationError, match=r"no pairs have an expected precision of 0\.99"):
        Alignment(named).export(tmp_path / "pairs.tsv", precision=above)
    ended = divea("export", named, "-o", tmp_path / "pairs.tsv", "--precision", repr(float(above)))
    assert ended.code == 4 and ended.err.count("\n") == 1 and not (tmp_path / "pairs.tsv").exists()


def test_a_folder_that_is_no_finished_run_is_refused(tmp_path):
    for run, message in ((tmp_path, "is no run of divea"), (tmp_path / "none", "no such folder")):
        ended = divea("export", run, "-o", tmp_path / "pairs.tsv")
        assert ended.code == 2 and ended.err.count("\n") == 1 and message in ended.err, ended.err


def test_an_existing_file_is_replaced_as_by_convert(named, tmp_path):
    path = tmp_path / "pairs.tsv.gz"
    path.write_text("old")
    exported(named, path)
    assert gzip.decompress(path.read_bytes()).startswith(b"source\ttarget\tscore")
    (tmp_path / "folder.tsv").mkdir()
    ended = divea("export", named, "-o", tmp_path / "folder.tsv")
    assert ended.code == 2 and "is a folder; name a file to write" in ended.err


def test_the_files_of_the_run_are_not_replaced(named):
    before = tables(named)
    for name in ("mappings.tsv", "mappings.parquet", "ranked.parquet"):
        ended = divea("export", named, "-o", named / "division" / ".." / name, "--min-confidence", 0.9)
        assert ended.code == 2 and "is a file of the run; name another one" in ended.err
    assert tables(named) == before
    exported(named, named / "sure.tsv", "--min-confidence", 0.9)
    assert divea("check", named).code == 0
    (named / "sure.tsv").unlink()


def test_an_uncertain_precision_is_said(named, tmp_path, monkeypatch):
    assert exported(named, tmp_path / "pairs.tsv", "--precision", 0.9).err == ""
    monkeypatch.setattr("divea.runs.export.MOST_BELOW", -1)
    ended = exported(named, tmp_path / "pairs.tsv", "--precision", 0.9)
    assert "note: the precision is uncertain: the " in ended.err
    assert exported(named, tmp_path / "pairs.tsv", "--min-confidence", 0.9).err == ""


def test_python_refuses_the_same(named, tmp_path):
    alignment = Alignment(named)
    for options, message in (
        ({"precision": 2}, "precision: expected a number above 0"),
        ({"precision": "0.9"}, "precision: expected a number above 0 and below 1; found '0.9'"),
        ({"min_confidence": True}, "min_confidence: expected a number from 0 to 1; found true"),
        ({"context": True}, "context: expected a whole number"),
        ({"context": 2.5}, "context: expected a whole number"),
        ({"precision": 0.9, "min_confidence": 0.1}, "exclude each other"),
    ):
        with pytest.raises(InputError, match=message):
            alignment.export(tmp_path / "pairs.tsv", **options)
    assert list(tmp_path.iterdir()) == []
