"""SSSOM files that divea writes pass the validator of the `sssom` package."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sssom.parsers import parse_sssom_table
from sssom.validators import DEFAULT_VALIDATION_TYPES, SchemaValidationType, validate

from divea.formats import mapping_table, write_mappings
from tests.generators import any_label

CHECKS = [*DEFAULT_VALIDATION_TYPES, SchemaValidationType.StrictCurieFormat]
rows = st.lists(
    st.tuples(any_label, any_label, st.none() | st.floats(-2, 2), st.none() | st.floats(0, 1)),
    min_size=1,
    max_size=40,
)


@settings(max_examples=12)
@given(rows=rows)
def test_written_files_are_valid(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("sssom") / "m.sssom.tsv"
    write_mappings(mapping_table(*zip(*rows, strict=True)), path)
    mappings = parse_sssom_table(str(path))
    for report in validate(mappings, CHECKS, fail_on_error=True).values():
        assert report.results == []
    assert len(mappings.df) == len(rows)


def test_similarity_and_confidence_are_kept_apart(tmp_path):
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
