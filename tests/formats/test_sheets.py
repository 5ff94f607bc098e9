"""Review sheets: what is written is read back, spreadsheets may change them, and bad ones are refused."""

import csv
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sssom.parsers import parse_sssom_table
from sssom.validators import DEFAULT_VALIDATION_TYPES, SchemaValidationType, validate

from divea.errors import InputError
from divea.formats import read_mappings
from divea.formats.sheets import HOW_TO, sources_in, with_verdicts, write_sheet
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.labels import LABEL
from divea.graphs.planted import planted_pair

CHECKS = [*DEFAULT_VALIDATION_TYPES, SchemaValidationType.StrictCurieFormat]
TASK = planted_pair(entities=30, seeds=0).task


def sheet(rows, **more):
    """A table of (verdict, source, target) rows."""
    verdict, source, target = zip(*rows, strict=True)
    columns = {"verdict": verdict, "source": source, "target": target, **more}
    return pa.table({name: pa.array(values, LABEL) for name, values in columns.items()})


def read(tmp_path, rows, task=TASK, name="sheet.tsv"):
    path = tmp_path / name
    write_sheet(sheet(rows), path)
    return with_verdicts(task, [path])


def labels(links, task=TASK):
    return set(zip(*(side.to_pylist() for side in links.labels(task.source, task.target)), strict=True))


@pytest.mark.parametrize("name", ["sheet.tsv", "sheet.csv", "sheet.tsv.gz"])
def test_verdicts_become_seeds_and_rejected_pairs(tmp_path, name):
    rows = [
        ("accept", "left1", "right1"),
        ("reject", "left2", "right2"),
        ("right4", "left3", "right3"),
        (None, "left5", "right5"),
        ("right6", "left6", None),
        (" Accept ", "left7", "right7"),
        ("right8", "left8", "right8"),
    ]
    task = read(tmp_path, rows, name=name)
    assert labels(task.seeds) == {
        ("left1", "right1"),
        ("left3", "right4"),
        ("left6", "right6"),
        ("left7", "right7"),
        ("left8", "right8"),
    }
    assert labels(task.rejected) == {("left2", "right2"), ("left3", "right3")}


def test_verdicts_are_added_to_what_a_task_knows(tmp_path):
    known = Links.from_labels(["left9"], ["right9"], TASK.source, TASK.target)
    gone = Links.from_labels(["left9", "left8"], ["right1", "right1"], TASK.source, TASK.target)
    before = AlignmentTask(TASK.source, TASK.target, known, rejected=gone)
    task = read(tmp_path, [("accept", "left9", "right9"), ("reject", "left9", "right2")], before)
    assert task.seeds == known
    assert labels(task.rejected) == {("left9", "right1"), ("left8", "right1"), ("left9", "right2")}


def test_a_sheet_says_what_to_do_in_its_first_line(tmp_path):
    for name in ("sheet.tsv", "sheet.csv"):
        write_sheet(sheet([("", "left1", "right1")]), tmp_path / name)
        assert (tmp_path / name).read_text().splitlines()[0].strip('"') == HOW_TO


ODD = ["=1+1", "'quoted", '"twice"', "a, b", 'say "hi"', "-x", "@y", " spaced ", "accepted", "ü", "<b>", "#x"]


@pytest.mark.parametrize("for_spreadsheet", [False, True])
@pytest.mark.parametrize("name", ["sheet.tsv", "sheet.csv"])
def test_odd_labels_survive_a_spreadsheet(tmp_path, name, for_spreadsheet):
    """The program writes what it read; TSV gets quotes around some cells, as Excel writes it."""
    left = KnowledgeGraph.from_triples([(label, "r", "end") for label in ODD])
    right = KnowledgeGraph.from_triples([(label, "r", "end") for label in ODD])
    task, path = AlignmentTask(left, right), tmp_path / name
    write_sheet(sheet([("", label, label) for label in ODD]), path, for_spreadsheet=for_spreadsheet)
    delimiter = "," if name.endswith(".csv") else "\t"
    text = path.read_text()
    rows = (
        list(csv.reader(text.splitlines()))
        if delimiter == ","
        else [line.split("\t") for line in text.splitlines()]
    )
    for row in rows[2:]:
        row[0] = "ACCEPT"
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    assert labels(with_verdicts(task, [path]).seeds, task) == {(label, label) for label in ODD}


def test_a_label_that_could_be_two_entities_is_refused(tmp_path):
    graph = KnowledgeGraph.from_triples([("=1", "r", "'=1")])
    with pytest.raises(InputError, match=r"sheet\.tsv:3: .* may be two entities"):
        read(tmp_path, [("accept", "'=1", "'=1")], AlignmentTask(graph, graph))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("yes", "left1", "right1")], r":3: 'yes' is neither accept nor reject nor an entity of the target"),
        ([("", "left0", "right0"), ("left2", "left1", "right1")], r":4: 'left2' is neither accept nor"),
        ([("accept", "nobody", "right1")], r":3: 'nobody' is not an entity of the source graph"),
        ([("accept", "left1", "nobody")], r":3: 'nobody' is not an entity of the target graph"),
        ([("right2", "left1", "nobody")], r":3: 'nobody' is not an entity of the target graph"),
        ([("reject", "left1", "")], r":3: there is no target to reject"),
        ([("accept", "left1", "")], r":3: there is no target to accept"),
        (
            [("accept", "left1", "right1"), ("reject", "left1", "right1")],
            r":4: 'left1' and 'right1': line 3 says the opposite",
        ),
        (
            [("right2", "left1", "right1"), ("accept", "left1", "right1")],
            r":4: 'left1' and 'right1': line 3 says the opposite",
        ),
        (
            [("accept", "left1", "right1"), ("right2", "left1", "")],
            r":4: 'left1' and 'right2': line 3 gives 'right1' instead; accepted pairs and seeds are one",
        ),
        (
            [("accept", "left1", "right1"), ("accept", "left2", "right1")],
            r":4: .* line 3 gives 'left1' instead",
        ),
        ([("accept", "left20", "right21")], r":3: .*: a seed gives 'right20' instead"),
        ([("accept", "left21", "right20")], r":3: .*: a seed gives 'left20' instead"),
        ([("reject", "left20", "right20")], r":3: .*: the task says the opposite"),
        ([("", "left1", "right1")], r"has no verdicts: fill in the column 'verdict'"),
    ],
)
def test_bad_verdicts_are_refused_with_their_line(tmp_path, rows, message):
    seeds = Links.from_labels(["left20"], ["right20"], TASK.source, TASK.target)
    with pytest.raises(InputError, match=message) as error:
        read(tmp_path, rows, replace(TASK, seeds=seeds))
    assert "sheet.tsv" in str(error.value) and "\n" not in str(error.value)


def test_two_sheets_that_contradict_each_other_are_refused(tmp_path):
    write_sheet(sheet([("accept", "left1", "right1")]), tmp_path / "one.tsv")
    write_sheet(sheet([("reject", "left1", "right1")]), tmp_path / "two.tsv")
    with pytest.raises(InputError, match=r"two\.tsv:3: .*one\.tsv, line 3, says the opposite"):
        with_verdicts(TASK, [tmp_path / "one.tsv", tmp_path / "two.tsv"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("# nothing\n", "has no header"),
        ("source\ttarget\nleft1\tright1\n", "the column 'verdict' is missing"),
        ("verdict\tverdict\tsource\ttarget\n", "the column 'verdict' appears twice"),
        ("verdict\tsource\ttarget\n", "has no verdicts"),
        ("verdict\tsource\ttarget\naccept\tl\xff\n", "not UTF-8"),
        ("verdict\tsource\ttarget\naccept\n", "'' is not an entity of the source graph"),
    ],
)
def test_files_that_are_no_sheets_are_refused(tmp_path, text, message):
    path = tmp_path / "sheet.tsv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=message):
        with_verdicts(TASK, [path])


@pytest.mark.parametrize("name", ["sheet.nt", "sheet.parquet", "sheet.txt"])
def test_other_formats_are_refused(tmp_path, name):
    with pytest.raises(InputError, match=r"a sheet is a \.tsv, \.csv or \.sssom\.tsv file"):
        write_sheet(sheet([("", "left1", "right1")]), tmp_path / name)
    assert not (tmp_path / name).exists()


def test_sssom_has_no_place_for_an_entity_without_a_target(tmp_path):
    with pytest.raises(InputError, match="without a target"):
        write_sheet(sheet([("", "left1", None)]), tmp_path / "sheet.sssom.tsv")


name = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=8)
verdicts = st.sampled_from(["", "accept", "reject"])


@settings(max_examples=15, deadline=None)
@given(rows=st.lists(st.tuples(verdicts, name), min_size=30, max_size=30))
@example(rows=[("accept", 'say "hi" | a=b')] * 30)
def test_a_signed_sssom_sheet_is_valid_and_read_back(tmp_path_factory, rows):
    """A person edits the columns of SSSOM that tools such as sssom-curator fill in."""
    path = tmp_path_factory.mktemp("sssom") / "sheet.sssom.tsv"
    source, target = TASK.source.entities.to_pylist(), TASK.target.entities.to_pylist()
    names = [text for _, text in rows]
    written = sheet(
        zip([""] * 30, source, target, strict=True),
        source_label=names,
        target_label=names,
        source_context=[f"near: {text}" for text in names],
        other_1=target[::-1],
        other_1_label=names,
    )
    write_sheet(written, path)
    with pytest.raises(InputError, match="has no verdicts: sign rows as a reviewer"):
        with_verdicts(TASK, [path])
    *top, header, _ = [*[line for line in path.read_text().splitlines() if line.startswith("#")], "", ""]
    table = list(
        csv.reader([line for line in path.read_text().splitlines() if line[:1] != "#"], delimiter="\t")
    )
    header = table[0]
    for row, (verdict, _) in zip(table[1:], rows, strict=True):
        row[header.index("predicate_modifier")] = "Not" if verdict == "reject" else ""
        row[header.index("reviewer_label")] = "A. Person" if verdict == "accept" else ""
    with path.open("w", newline="") as file:
        file.write("".join(f"{line}\n" for line in top))
        csv.writer(file, delimiter="\t", lineterminator="\n").writerows(table)
    mappings = parse_sssom_table(str(path))
    for report in validate(mappings, CHECKS, fail_on_error=True).values():
        assert report.results == []
    if not any(verdict for verdict, _ in rows):
        return
    task = with_verdicts(TASK, [path])
    for wanted, links in (("accept", task.seeds), ("reject", task.rejected)):
        expected = [
            (a, b) for a, b, (verdict, _) in zip(source, target, rows, strict=True) if verdict == wanted
        ]
        assert labels(links) == set(expected)


SSSOM = "#curie_map:\n#  a: http://a.example/\n#  b: http://b.example/\n"
SSSOM_COLUMNS = (
    "subject_id\tpredicate_id\tpredicate_modifier\tobject_id\tmapping_justification\treviewer_label"
)


@pytest.mark.parametrize("modifier", ["Not", "not", "NOT", " Not "])
def test_a_negation_is_read_however_it_is_typed(tmp_path, modifier):
    path = tmp_path / "sheet.sssom.tsv"
    row = f"a:l1\tskos:exactMatch\t{modifier}\tb:r1\tsemapv:UnspecifiedMatching\tAnn"
    path.write_text(f"{SSSOM}{SSSOM_COLUMNS}\n{row}\n")
    left, right = (
        KnowledgeGraph.from_triples([(f"http://{name}", "r", "x")])
        for name in ("a.example/l1", "b.example/r1")
    )
    task = with_verdicts(AlignmentTask(left, right), [path])
    assert (len(task.seeds), len(task.rejected)) == (0, 1)
    # A rejected pair has been asked about.
    assert left.label(sources_in([path], left)) == ["http://a.example/l1"]
    with pytest.raises(InputError, match="contains no links"):
        read_mappings(path)


def test_an_unknown_modifier_is_refused(tmp_path):
    path = tmp_path / "sheet.sssom.tsv"
    path.write_text(f"{SSSOM}{SSSOM_COLUMNS}\na:l1\tskos:exactMatch\treject\tb:r1\t\tAnn\n")
    for read in (lambda: with_verdicts(TASK, [path]), lambda: read_mappings(path)):
        with pytest.raises(InputError, match=":5: predicate_modifier is 'reject'; expected Not"):
            read()


def test_rows_that_a_curator_justified_are_verdicts(tmp_path):
    """What sssom-curator writes: positive and negative rows with a manual justification, others untouched."""
    path = tmp_path / "curated.sssom.tsv"
    columns = "subject_id\tpredicate_id\tpredicate_modifier\tobject_id\tmapping_justification\tauthor_id"
    rows = [
        ("l1", "skos:exactMatch", "", "r1", "semapv:ManualMappingCuration", "orcid:1"),
        ("l2", "skos:exactMatch", "Not", "r2", "semapv:ManualMappingCuration", "orcid:1"),
        ("l3", "skos:exactMatch", "", "r3", "semapv:LexicalMatching", ""),
        ("l4", "skos:broadMatch", "", "r4", "semapv:ManualMappingCuration", "orcid:1"),
    ]
    top = "#curie_map:\n#  a: http://a.example/\n#  b: http://b.example/\n"
    lines = "".join("\t".join((f"a:{row[0]}", *row[1:3], f"b:{row[3]}", *row[4:])) + "\n" for row in rows)
    path.write_text(f"{top}{columns}\n{lines}")
    left, right = (
        KnowledgeGraph.from_triples([(f"http://{side}.example/{end}{at}", "r", "x") for at in range(5)])
        for side, end in (("a", "l"), ("b", "r"))
    )
    task = with_verdicts(AlignmentTask(left, right), [path])
    assert labels(task.seeds, task) == {("http://a.example/l1", "http://b.example/r1")}
    assert labels(task.rejected, task) == {("http://a.example/l2", "http://b.example/r2")}


def test_ids_of_links_have_the_types_that_arrays_need():
    links = Links.from_pairs([(1, 2), (3, 4)])
    assert links.keys.dtype == np.int64 and (np.diff(links.keys) > 0).all()
    assert links.among(Links.from_pairs([])).tolist() == [False, False]


def test_readable_names_in_place_of_entities_are_told(tmp_path):
    task = planted_pair(seeds=0).task
    sheet = tmp_path / "sheet.tsv"
    sheet.write_text("verdict\tsource\ttarget\nStadrlo\tleft1\tright1\n")
    with pytest.raises(InputError, match="as in the columns target and other_1, not by their readable names"):
        with_verdicts(task, [sheet])
