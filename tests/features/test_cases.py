"""What a new user brings is aligned: films with labels, books with an ISBN, with few seeds or none."""

from __future__ import annotations

from pathlib import Path

import pytest

import divea
from divea.errors import InputError
from divea.features.names import Names
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from tests.features.cases import Case, books, films


def precision_and_recall(alignment: divea.Alignment, case: Case, seeds: int) -> tuple[float, float]:
    """Precision and recall of the written mappings, against the gold links that are not seeds."""
    source, target = case.task.source, case.task.target
    gold = set(map(tuple, case.gold.pairs[seeds:].tolist()))
    rows = alignment.mappings.to_pylist()
    found = set(
        zip(
            source.find([row["source"] for row in rows]).tolist(),
            target.find([row["target"] for row in rows]).tolist(),
            strict=True,
        )
    )
    return len(found & gold) / max(len(found), 1), len(found & gold) / len(gold)


@pytest.mark.parametrize("seeds", [0, 20])
def test_films_with_labels_years_and_casts(seeds: int, tmp_path: Path) -> None:
    case = films()
    alignment = divea.align(case.with_seeds(seeds), out=tmp_path / "run", device="cpu")
    precision, recall = precision_and_recall(alignment, case, seeds)
    assert precision >= 0.95
    assert recall >= 0.95


def test_films_keep_the_precision_that_was_asked_for(tmp_path: Path) -> None:
    case = films()
    settings = divea.Settings.of(None, {"confidence.precision": 0.95})
    alignment = divea.align(case.task, settings, out=tmp_path / "run", device="cpu")
    precision, recall = precision_and_recall(alignment, case, 0)
    assert precision >= 0.93
    assert recall >= 0.9


def test_books_with_an_isbn_and_no_seeds(tmp_path: Path) -> None:
    case = books()
    alignment = divea.align(case.task, out=tmp_path / "run", device="cpu")
    assert precision_and_recall(alignment, case, 0) == (1.0, 1.0)


def test_nothing_to_start_from_is_one_clear_error(tmp_path: Path) -> None:
    source = KnowledgeGraph.from_triples([("http://a/1", "r", "http://a/2")])
    target = KnowledgeGraph.from_triples([("http://b/3", "r", "http://b/4")])
    with pytest.raises(InputError, match=r"no seeds .* and no names"):
        divea.align(AlignmentTask(source, target), out=tmp_path / "run", device="cpu")


def test_without_seeds_and_features_nothing_starts(tmp_path: Path) -> None:
    settings = divea.Settings.of(None, {"features": "none"})
    with pytest.raises(InputError, match=r"no seeds .* and no names"):
        divea.align(films(20).task, settings, out=tmp_path / "run", device="cpu")


def test_names_that_are_not_searched_exactly_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    task = films().task
    exact = Names()
    exact.compute(task, Links.from_pairs([]))
    assert exact.notes == ()
    monkeypatch.setattr("divea.features.nearest.MOST_PRODUCTS", -1)
    by_keys = Names()
    by_keys.compute(task, Links.from_pairs([]))
    assert "searched by rare words" in by_keys.notes[0]
