"""SSSOM files that divea writes are valid for the `sssom` package, which finds the right IRIs in them."""

from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sssom.parsers import parse_sssom_table
from sssom.validators import DEFAULT_VALIDATION_TYPES, SchemaValidationType, validate

from divea.formats import mapping_table, read_mappings, write_mappings
from divea.formats.iri import to_iri
from tests.generators import any_label

CHECKS = [*DEFAULT_VALIDATION_TYPES, SchemaValidationType.StrictCurieFormat]
outside = '<>"{}|\\^`[]%#? /'
script = st.characters(exclude_categories=["Cs", "Cc", "Co", "Cn"]).filter(lambda c: c not in outside)
iri = st.builds(
    "{}{}".format,
    st.sampled_from(
        [
            "http://y/",
            "http://zh.example/分类/",
            "http://a.example/x#",
            "urn:x:",
            "http://a.example//",
            "http://é/",
        ]
    ),
    st.text(script, max_size=6)
    | st.sampled_from(["Ü", "%C3%9C", "Ü%C3", "\u2028", "a/b", "(a)", "NA", "007"]),
)
label = any_label | iri
number = st.none() | st.floats(-2, 2)
rows = st.lists(
    st.tuples(label, label, number, number, st.none() | st.integers(1, 50)), min_size=1, max_size=40
)
EDGES = ["http://y/Ü", "http://y/%C3%9C", "http://y/", "http://y/a\u2028b", "New York", "a\tb\n", "a\u2028b"]


@settings(max_examples=12)
@given(rows=rows)
@example(rows=[(left, right, 1.5, 0.5, 2) for left in EDGES for right in EDGES])
def test_written_files_are_valid_and_read_back_exactly(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("sssom") / "m.sssom.tsv"
    table = mapping_table(*zip(*rows, strict=True))
    assert write_mappings(table, path) == []
    assert read_mappings(path).equals(table)
    mappings = parse_sssom_table(str(path))
    for report in validate(mappings, CHECKS, fail_on_error=True).values():
        assert report.results == []
    assert len(mappings.df) == len(rows)
    for column, end in (("subject_id", "source"), ("object_id", "target")):
        found = [mappings.converter.expand(curie) for curie in mappings.df[column]]
        assert sorted(found) == sorted(uri(label) for label in table[end].to_pylist())


text = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=8)


@settings(max_examples=12)
@given(rows=st.lists(st.tuples(label, label, text, text, st.booleans()), min_size=1, max_size=20))
@example(
    rows=[
        (iri, iri, name, name, True)
        for iri in EDGES
        for name in ("Ü", "%C3%9C", 'say "hi"', "שלום", "a|b=c", "")
    ]
)
def test_names_seeds_and_context_are_valid_and_labels_are_read_back_exactly(tmp_path_factory, rows):
    """A name may look like the text of another IRI with the same URI."""
    path = tmp_path_factory.mktemp("sssom") / "m.sssom.tsv"
    source, target, left, right, is_seed = zip(*rows, strict=True)
    table = mapping_table(source, target, confidence=[0.5] * len(rows))
    further = {
        "source_label": left,
        "target_label": right,
        "origin": ["seed" if seed else "found" for seed in is_seed],
        "source_context": [f"near: {name}" for name in left],
    }
    wide = table
    for name, values in further.items():
        wide = wide.append_column(name, pa.array(values, pa.large_string()))
    assert write_mappings(wide, path) == []
    assert read_mappings(path).equals(table)
    mappings = parse_sssom_table(str(path))
    for report in validate(mappings, CHECKS, fail_on_error=True).values():
        assert report.results == []
    seeds = (mappings.df["mapping_justification"] == "semapv:ManualMappingCuration").sum()
    assert seeds == sum(is_seed)
    assert mappings.df["comment"].str.startswith("source: near: ").all()


def uri(label: str) -> str:
    """The URI of a label, by RFC 3987."""
    return "".join(c if c.isascii() else quote(c) for c in to_iri(label))


def test_iris_of_one_site_share_a_prefix(tmp_path):
    """A name with a slash is no namespace."""
    path = tmp_path / "m.sssom.tsv"
    films = [f"http://zh.example/resource/电影{i}" for i in range(900)]
    odd = [f"http://zh.example/resource/Beautiful_World_{i}/Part" for i in range(99)]
    write_mappings(mapping_table(films + odd, [f"http://en.example/film#{i}" for i in range(999)]), path)
    top = [line for line in path.read_text().splitlines() if line.startswith("#  ns")]
    assert top == ["#  ns1: http://en.example/film#", "#  ns2: http://zh.example/resource/"]


def test_known_vocabularies_keep_their_prefixes(tmp_path):
    path = tmp_path / "m.sssom.tsv"
    label = "http://www.w3.org/2002/07/owl#Thing"
    write_mappings(mapping_table([label], [label]), path)
    assert parse_sssom_table(str(path)).df["subject_id"].tolist() == ["owl:Thing"]


def test_score_and_confidence_are_kept_apart(tmp_path):
    path = tmp_path / "m.sssom.tsv"
    write_mappings(mapping_table(["http://a.example/x"], ["http://b.example/y"], [0.25], [0.75]), path)
    row = parse_sssom_table(str(path)).df.iloc[0]
    assert (row["similarity_score"], row["confidence"]) == pytest.approx((0.25, 0.75))
    assert row["mapping_justification"].startswith("semapv:")


def test_the_validator_refuses_an_invalid_file(tmp_path):
    path = tmp_path / "m.sssom.tsv"
    write_mappings(mapping_table(["http://a.example/x"], ["http://b.example/y"], [0.25], [0.75]), path)
    path.write_text(path.read_text().replace("0.75", "7.5"))
    with pytest.raises(Exception, match="1 validation error"):
        validate(parse_sssom_table(str(path)), CHECKS, fail_on_error=True)
