"""The report: its figures are those of the run, it shows every text as text, and it stays small."""

import json
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest

import divea
from divea.errors import InputError
from divea.explanations.kept import Kept
from divea.graphs import KnowledgeGraph
from divea.graphs.synth import SynthConfig, synthesise
from divea.report import page
from divea.report.facts import (
    THRESHOLDS,
    _by_type,
    confidence_bars,
    expected_curve,
    iterations_of,
    matched_shares,
    stages_of,
)
from divea.report.samples import choose_samples
from divea.runs.finished import open_finished
from tests.command_line import divea as command


class Page(HTMLParser):
    """The elements of a page, the addresses that it names, and its text without scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.addresses, self.text, self._open = [], [], "", []
        self.handlers = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag in ("script", "style"):
            self._open.append(tag)
        for name, value in attributes:
            if name in ("src", "href", "action", "data", "poster", "srcset"):
                self.addresses.append(value)
            if name.startswith("on"):
                self.handlers.append((tag, name))

    def handle_endtag(self, tag):
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data):
        if not self._open:
            self.text += data


@pytest.fixture(scope="module")
def report(named, tmp_path_factory):
    alignment, gold = named
    path = tmp_path_factory.mktemp("report") / "report.html"
    alignment.report(path, gold)
    return path.read_text()


def curve_of(text):
    return json.loads(re.search(r'id="curve-data">(.*?)</script>', text, re.DOTALL)[1])


def test_expected_figures_are_those_that_export_gives(named, report, tmp_path):
    alignment, _ = named
    curve = curve_of(report)
    for place in (10, 50, 90):
        threshold = curve["thresholds"][place]
        table = alignment.export(tmp_path / "pairs.tsv", min_confidence=threshold)
        assert curve["expected"]["pairs"][place] == len(table)
        mean = np.mean(table["confidence"].to_numpy()) if len(table) else None
        assert curve["expected"]["precision"][place] == pytest.approx(mean, abs=1e-6)


def test_true_figures_are_those_of_the_evaluation(named, report):
    alignment, gold = named
    curve = curve_of(report)
    for place in (0, 30, 50, 95):
        found = alignment.evaluate(gold, min_confidence=curve["thresholds"][place]).pairs
        assert curve["true"]["pairs"][place] == found.given
        assert curve["true"]["recall"][place] == pytest.approx(found.recall)
        assert (curve["true"]["precision"][place] or 0) == pytest.approx(found.end_precision)
    assert f"{alignment.evaluate(gold).h1:.4f}" in report


def test_without_gold_nothing_is_called_true(named, tmp_path):
    alignment, _ = named
    alignment.report(tmp_path / "report.html")
    text = Page((tmp_path / "report.html").read_text()).text
    assert "true precision" not in text and "hits@1" not in text and "expected precision" in text


def test_the_same_run_gives_the_same_bytes_by_command_and_in_python(named, tmp_path):
    alignment, _ = named
    size = alignment.report(tmp_path / "a.html")
    ended = command("report", alignment.path, "-o", tmp_path / "b.html")
    assert (ended.code, ended.out.count("\n")) == (0, 1)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert size == (tmp_path / "a.html").stat().st_size


def test_matched_shares_count_every_entity_without_a_seed(named):
    alignment, _ = named
    kept = Kept(open_finished(alignment.path))
    free = alignment.task.source.num_entities - len(alignment.task.seeds)
    for shares in matched_shares(kept):
        counts = [int(bar.note.split(" of ")[1].split()[0].replace(",", "")) for bar in shares.bars]
        hits = sum(bar.value * count for bar, count in zip(shares.bars, counts, strict=True))
        if shares.by != "relation that an entity has":
            assert (sum(counts), round(hits)) == (free, len(alignment.mappings))
        assert all(0 <= bar.value <= 1 for bar in shares.bars)
    assert {shares.by for shares in matched_shares(kept)} >= {"number of triples", "subtask"}


def test_types_are_used_where_the_graph_has_them():
    graph = KnowledgeGraph.from_triples(
        [("a", "type", "City"), ("b", "type", "City"), ("c", "type", "River"), ("a", "near", "c")]
    )
    is_free = np.ones(graph.num_entities, dtype=bool)
    is_matched = np.isin(graph.entities.to_pylist(), ["a", "c"])
    found = _by_type(graph, is_free, is_matched)
    assert found.by == "type"
    assert [(bar.name, bar.value) for bar in found.bars] == [("City", 0.5), ("River", 1.0)]


def test_confidence_bars_count_every_pair_that_has_confidence():
    confidence = np.array([0.0, 0.04, 0.5, 0.99, 1.0, np.nan])
    assert [bar.value for bar in confidence_bars(confidence) if bar.value] == [2, 1, 2]
    assert expected_curve(confidence).pairs[0] == 5
    assert expected_curve(np.array([np.nan])) is None
    assert len(THRESHOLDS) == 101


def test_samples_are_of_their_kind_and_in_no_two_kinds(named):
    alignment, _ = named
    kept = Kept(open_finished(alignment.path))
    samples = choose_samples(kept, 80)
    assert samples == choose_samples(kept, 80) and len(samples) == 80
    sources = [sample.source for sample in samples]
    assert len(set(sources)) == len(sources)
    labels = dict(zip(sources, alignment.task.source.label(sources), strict=True))
    table = alignment.mappings
    mapped = set(table["source"].to_pylist())
    is_contested = (table["rank"].to_numpy() > 1) | ~table["mutual"].to_numpy()
    contested = set(table.filter(is_contested)["source"].to_pylist())
    for sample in samples:
        label, confidence = labels[sample.source], kept.counterparts.confidence[sample.source]
        assert {
            "unmatched": label not in mapped,
            "contested": label in contested,
            "sure": confidence > 0.9,
            "doubtful": 0.1 <= confidence <= 0.9,
            "unrated": False,
        }[sample.kind]
    doubtful = [kept.counterparts.confidence[one.source] for one in samples if one.kind == "doubtful"]
    distances = [abs(confidence - 0.5) for confidence in doubtful]
    assert distances == sorted(distances) and doubtful
    assert {sample.kind for sample in samples} >= {"sure", "doubtful", "unmatched"}


def test_a_small_run_is_shown_whole(hostile):
    kept = Kept(open_finished(hostile.path))
    free = kept.task.source.num_entities - len(kept.task.seeds)
    assert len(choose_samples(kept, 200)) >= free


def test_gold_judges_the_pairs_of_the_table(named, report):
    alignment, gold = named
    rows = re.findall(r'data-kind="(\w+)".*?data-gold="([^"]*)"', report)
    assert {verdict for _, verdict in rows} <= {"correct", "wrong", "not in gold"}
    sure = [verdict for kind, verdict in rows if kind == "sure"]
    assert sure.count("correct") > 0.8 * len(sure)
    truth = alignment._truth(gold, None)
    source, target = gold.pairs[0].tolist()
    other = gold.pairs[1].tolist()
    assert truth.verdict(source, target) == "correct"
    assert truth.verdict(source, other[1]) == truth.verdict(other[0], target) == "wrong"
    outside = np.setdiff1d(np.arange(400), gold.source)[0], np.setdiff1d(np.arange(400), gold.target)[0]
    assert truth.verdict(*outside) == "not in gold"


def test_hostile_names_are_text(hostile, tmp_path):
    hostile.report(tmp_path / "report.html")
    found = Page((tmp_path / "report.html").read_text())
    # One script with the figures and one with the code; the icon is no picture.
    assert found.tags.count("script") == 1 + ('id="curve-data"' in (tmp_path / "report.html").read_text())
    assert found.tags.count("img") == found.tags.count("i") == found.tags.count("b") == 0
    assert found.handlers == []
    for shown in ("<script>document.title = 'taken'</script>", 'onerror="document.title = 1"', "שלום עולם"):
        assert shown in found.text
    assert "{{ 7 * 7 }}" in found.text and "\x1b" not in found.text and "\x00" not in found.text


def test_the_page_names_no_address_outside_itself(report):
    found = Page(report)
    assert found.addresses and all(one.startswith(("#", "data:")) for one in found.addresses)
    style = " ".join(re.findall(r"<style>(.*?)</style>", report, re.DOTALL))
    assert "url(" not in style and "@import" not in style
    assert "default-src 'none'" in report


def test_the_page_stays_small_whatever_the_names(hostile, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "LARGEST", page._BESIDE_ROWS + 60_000)
    size = hostile.report(tmp_path / "report.html")
    rows = Page((tmp_path / "report.html").read_text()).tags.count("svg")
    assert size < page.LARGEST and rows > 5


def test_a_run_without_confidence_has_a_report(tmp_path):
    pair = synthesise(SynthConfig(entities=120, seed_share=0.1, random_seed=2))
    out = tmp_path / "run"
    settings = {"confidence.held_back": 0.0, "features": "none"}
    alignment = divea.align(pair.task, out=out, device="cpu", subtasks=1, iterations=1, **settings)
    alignment.report(tmp_path / "report.html", pair.gold)
    text = Page((tmp_path / "report.html").read_text()).text
    assert "have no confidence" in text and "hits@1" in text and "unrated" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "report.pdf"), "let the name end in .html"),
        (("-o", "report.html", "--task", "x"), "--task has no effect"),
        (("-o", "report.html", "--gold", "missing.tsv"), "missing.tsv"),
        (("-o", "file/report.html"), "file"),
    ],
)
def test_bad_input_is_one_line(named, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("no folder")
    ended = command("report", named[0].path, *arguments)
    assert (ended.code, ended.err.count("\n")) == (2, 1) and message in ended.err
    assert not list(tmp_path.glob("report*"))


def test_an_unfinished_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="no run of divea"):
        open_finished(tmp_path)


def test_a_log_and_stages_that_hold_anything_do_no_harm(named, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(named[0].path, run)
    with (run / "log.jsonl").open("a") as file:
        file.write(
            '{"event": "features", "iteration": 0, "weights": [1]}\n{"event": "learned", "iteration": "x"}\n'
        )
        file.write('{"event": "learned", "iteration": 0, "pseudo_seeds": {"a": 1}}\n[]\nnull\n')
    finished = open_finished(run)
    finished.manifest.stages.append({"stage": ["x"], "seconds": "many"})
    assert [one.number for one in iterations_of(finished)] == [1, 2]
    assert stages_of(finished)[-1].seconds == 0
    page.write_report(finished, tmp_path / "report.html")
