"""Generated words, names and attributes, and the noise of the target's copies."""

import numpy as np
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divea.graphs.synth_literals import draw_literals
from divea.graphs.synth_words import Vocabulary, as_text, without_entry

SIZE = 20_000
EVERYONE = np.ones(SIZE, dtype=bool)
PREDICATES = {
    "http://www.w3.org/2000/01/rdf-schema#label": "name",
    "http://www.w3.org/2004/02/skos/core#altLabel": "otherName",
    "http://source.example/property/identifier": "code",
    "http://source.example/property/founded": "since",
    "http://source.example/property/size": "extent",
    "http://source.example/property/category": "type",
    "http://source.example/property/homepage": "website",
    "http://source.example/property/description": "summary",
}
"""The source's predicates and the last part of the target's."""
XSD = "http://www.w3.org/2001/XMLSchema#"


def values_by_predicate(is_present=EVERYONE, **options):
    """For each predicate, the value and the kind of each entity."""
    values = {}
    for block in draw_literals(is_present, **{"name_noise": 0.3, "random_seed": 1, **options}):
        rows = zip(block.entities.tolist(), block.values.to_pylist(), strict=True)
        of_predicate = values.setdefault(block.predicate.rpartition("/property/")[2], {})
        for entity, value in rows:
            assert entity not in of_predicate
            of_predicate[entity] = value, block.kind
    return values


def pairs_of(source_predicate, source, target):
    """The values that source and target have for the same entities."""
    left = source[source_predicate.rpartition("/property/")[2]]
    right = target[PREDICATES[source_predicate]]
    return [(left[entity], right[entity]) for entity in sorted(left.keys() & right.keys())]


@pytest.fixture(scope="module")
def source():
    return values_by_predicate(is_target=False)


@pytest.fixture(scope="module")
def target():
    return values_by_predicate(is_target=True)


def both(name, source, target):
    """The pairs of values of a property, without their kinds."""
    predicate = name if ":" in name else f"http://source.example/property/{name}"
    return [(left, right) for (left, _), (right, _) in pairs_of(predicate, source, target)]


def names_of(source, target):
    return both("http://www.w3.org/2000/01/rdf-schema#label", source, target)


def test_every_property_has_its_own_predicate_in_each_graph(source, target):
    assert list(source) == [predicate.rpartition("/property/")[2] for predicate in PREDICATES]
    assert list(target) == list(PREDICATES.values())


def test_words_are_distinct_and_in_lower_case():
    for entities in (10, 5000, 250_000):
        vocabulary = Vocabulary.for_entities(entities)
        text = vocabulary.text()
        assert len(vocabulary) == max(entities, 1000) == len(text.unique())
        assert pc.all(pc.match_substring_regex(text, "^([^aeiou][aeiou]){2,4}[nrsl]?$")).as_py()


def test_frequencies_of_words_are_skewed():
    vocabulary = Vocabulary.for_entities(SIZE)
    counts = np.bincount(vocabulary.draw(400_000, np.random.default_rng(1)), minlength=SIZE)
    shares = counts / counts.sum()
    assert shares[:100].sum() > 0.15 and shares[SIZE // 2 :].sum() > 0.1
    # The frequency is inverse to the rank.
    assert shares[1000:1100].sum() == pytest.approx(10 * shares[10_500:10_600].sum(), rel=0.25)


def test_names_have_one_to_four_words_and_a_few_are_shared(source):
    names = [name for name, _ in source["http://www.w3.org/2000/01/rdf-schema#label"].values()]
    assert len(names) == SIZE
    assert {kind for _, kind in source["http://www.w3.org/2000/01/rdf-schema#label"].values()} == {"@en"}
    counts = np.bincount([len(name.split()) for name in names], minlength=5) / SIZE
    assert counts[1:] == pytest.approx([0.1, 0.5, 0.28, 0.12], abs=0.02)
    assert all(name.istitle() for name in names)
    _, entities = np.unique(names, return_counts=True)
    assert 0.02 < entities[entities > 1].sum() / SIZE < 0.06


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3, 1.0])
def test_the_asked_share_of_names_differs_and_a_sixth_as_many_are_missing(source, noise):
    target = values_by_predicate(is_target=True, name_noise=noise)
    pairs = names_of(source, target)
    assert 1 - len(pairs) / SIZE == pytest.approx(noise / 6, abs=0.01)
    differs = np.mean([left != right for left, right in pairs])
    assert differs == (noise if noise in (0, 1) else pytest.approx(noise, abs=0.015))


def test_names_differ_in_one_of_four_ways(source):
    target = values_by_predicate(is_target=True, name_noise=1)
    kinds = [noise_of(left.split(), right.split()) for left, right in names_of(source, target)]
    shares = {kind: kinds.count(kind) / len(kinds) for kind in set(kinds)}
    # Names of one word have typing errors only.
    expected = {"typo": 0.45 + 0.1 * 0.55, "initial": 0.135, "order": 0.18, "fewer words": 0.18}
    assert shares == pytest.approx(expected, abs=0.015)


def noise_of(left, right):
    """The kind of noise between the words of two names; fails if there is more than one change."""
    if len(right) == len(left) - 1:
        assert any(left[:at] + left[at + 1 :] == right for at in range(len(left)))
        return "fewer words"
    if right == left[-1:] + left[:-1]:
        return "order"
    ((old, new),) = [(old, new) for old, new in zip(left, right, strict=True) if old != new]
    if new == f"{old[0]}.":
        assert new == right[0] and len(left) > 1
        return "initial"
    assert new[0] == old[0] and len(old) - 1 <= len(new) <= len(old)
    return "typo"


def test_second_names_start_with_the_first_word_of_the_name(source):
    names = source["http://www.w3.org/2000/01/rdf-schema#label"]
    others = source["http://www.w3.org/2004/02/skos/core#altLabel"]
    assert len(others) / SIZE == pytest.approx(0.16, abs=0.01)
    assert all(name.split()[0] == names[entity][0].split()[0] for entity, (name, _) in others.items())
    assert all(len(name.split()) == 2 for name, _ in others.values())


def test_identifiers_are_rare_and_differ_in_format_and_seldom_in_value(source, target):
    for values in (source["identifier"], target["code"]):
        assert len(values) / SIZE == pytest.approx(0.6, abs=0.015)
    codes = [code for code, _ in source["identifier"].values()]
    assert len(set(codes)) == len(codes)
    for code in codes[:200]:
        digits = [int(digit) for digit in code]
        assert len(digits) == 13 and (sum(digits[::2]) + 3 * sum(digits[1::2])) % 10 == 0
    pairs = both("identifier", source, target)
    assert all([len(part) for part in right.split("-")] == [3, 1, 2, 6, 1] for _, right in pairs)
    is_wrong = [left != right.replace("-", "") for left, right in pairs]
    assert np.mean(is_wrong) == pytest.approx(0.02, abs=0.01)


def test_dates_of_the_target_are_partly_years_and_seldom_wrong(source, target):
    pairs = pairs_of("http://source.example/property/founded", source, target)
    kinds = [kind for _, (_, kind) in pairs]
    assert {kind for (_, kind), _ in pairs} == {f"{XSD}date"}
    assert set(kinds) == {f"{XSD}date", f"{XSD}gYear"}
    assert kinds.count(f"{XSD}gYear") / len(kinds) == pytest.approx(0.4, abs=0.03)
    for (left, _), (right, kind) in pairs:
        np.datetime64(left, "D")
        assert len(right) == (4 if kind == f"{XSD}gYear" else 10)
    is_wrong = [not left.startswith(right) for (left, _), (right, _) in pairs]
    assert 0.01 < np.mean(is_wrong) < 0.05


def test_numbers_of_the_target_are_rounded(source, target):
    digits = []
    for left, right in both("size", source, target):
        digits.append(len(right.partition(".")[2]))
        assert len(left.partition(".")[2]) == 2
        assert abs(float(left) - float(right)) <= 0.5 / 10 ** digits[-1] + 1e-6 * float(left)
    assert set(digits) == {0, 1}


def test_categories_are_few_and_equal(source, target):
    pairs = both("category", source, target)
    assert all(left == right for left, right in pairs)
    assert len({left for left, _ in pairs}) == 30


def test_addresses_differ_in_scheme_www_and_slash(source, target):
    pairs = both("homepage", source, target)
    forms = set()
    for left, right in pairs:
        site = left.removeprefix("http://www.").removesuffix(".example/")
        assert site.isalpha() and right.count(site) == 1
        forms.add(right.replace(site, "SITE", 1))
    schemes, sites = ("http://", "https://"), ("www.SITE.example", "SITE.example")
    assert forms == {f"{scheme}{site}{end}" for scheme in schemes for site in sites for end in ("", "/")}


def test_texts_of_the_target_keep_some_words_in_order(source, target):
    pairs = [(left.split(), right.split()) for left, right in both("description", source, target)]
    lengths = [len(left) for left, _ in pairs]
    assert (min(lengths), max(lengths)) == (10, 30)
    for left, right in pairs:
        rest = iter(left)
        assert right[0] == left[0] and all(word in rest for word in right)
    assert 0.6 < sum(len(right) for _, right in pairs) / sum(lengths) < 0.7


def test_a_graph_has_the_values_of_its_own_entities_only():
    is_present = np.arange(SIZE) % 3 > 0
    for is_target in (False, True):
        for block in draw_literals(is_present, is_target=is_target, name_noise=0.3, random_seed=1):
            assert len(block.entities) == len(block.values) > 0
            assert is_present[block.entities].all()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.booleans(), min_size=1, max_size=60),
    st.booleans(),
    st.floats(0, 1),
    st.integers(0, (1 << 31) - 1),
)
def test_any_world_has_valid_literals_and_the_same_random_seed_gives_the_same(
    presence, is_target, noise, random_seed
):
    is_present = np.array(presence)
    options = {"is_target": is_target, "name_noise": noise, "random_seed": random_seed}
    first, again = (list(draw_literals(is_present, **options)) for _ in range(2))
    for block, same in zip(first, again, strict=True):
        block.values.validate(full=True)
        assert block.values.equals(same.values) and np.array_equal(block.entities, same.entities)
        assert len(block.values) == len(block.entities)
        assert all(value and value == value.strip() for value in block.values.to_pylist())


@given(st.lists(st.integers(0, 999), max_size=50), st.integers(0, 1000))
def test_a_misspelt_word_differs_from_the_word(ranks, random_seed):
    vocabulary = Vocabulary.for_entities(1000)
    ranks = np.array(ranks, dtype=np.int32)
    misspelt = vocabulary.misspelt(ranks, np.random.default_rng(random_seed))
    right = vocabulary.text(capitalised=True).take(ranks)
    assert not any(wrong == word for wrong, word in zip(misspelt.to_pylist(), right.to_pylist(), strict=True))


@given(st.lists(st.text("abcxyz", min_size=1, max_size=9), max_size=20))
def test_a_matrix_of_letters_becomes_text(words):
    letters = np.full((len(words), 9), ord("?"), dtype=np.uint8)
    for row, word in zip(letters, words, strict=True):
        row[: len(word)] = list(word.encode())
    lengths = np.array([len(word) for word in words], dtype=np.int32)
    assert as_text(letters, lengths).to_pylist() == words
    capitals = [word.capitalize() for word in words]
    assert as_text(letters, lengths, capitalised=True).to_pylist() == capitals


@given(st.data(), st.integers(0, 8), st.integers(1, 5))
def test_one_entry_of_each_row_is_left_out(data, count, width):
    rows = np.arange(count * width).reshape(count, width)
    at = data.draw(st.lists(st.integers(0, width - 1), min_size=count, max_size=count))
    expected = [[*np.delete(row, place), -1] for row, place in zip(rows, at, strict=True)]
    assert without_entry(rows, np.array(at, dtype=np.int64), -1).tolist() == expected
