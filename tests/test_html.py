"""HTML for notebooks: text stays text, whatever labels contain, and there are no colours."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

import divea
from divea.html_text import folded, paragraph, table, text
from tests.runs.tiny import SETTINGS

EVIL = "<script>alert(\"1\")</script> 'x' & <img src=x onerror=alert(1)> \u202eevil\x1b[2J שלום"
ALLOWED = {"table", "caption", "thead", "tbody", "tr", "th", "td", "bdi", "p", "details", "summary"}


def without_picture(html):
    """The HTML without the picture, and the picture."""
    picture = re.compile(r"<svg.*?</svg>", re.DOTALL)
    return picture.sub("", html), picture.findall(html)


class Read(HTMLParser):
    """Checks tags and attributes, and collects the text."""

    def __init__(self, html):
        super().__init__()
        self.open, self.texts, self.cells = [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag in ALLOWED, tag
        assert all(name == "style" and value.startswith("text-align: ") for name, value in attrs), attrs
        self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        assert "bdi" in self.open, "all text is isolated from its surroundings"
        self.texts.append(data)
        if {"td", "th"} & {*self.open}:
            self.cells[-1] += data


ESCAPED = EVIL.replace("\u202e", "\\u202e").replace("\x1b", "\\x1b")


@pytest.mark.parametrize(
    "html",
    [
        text(EVIL),
        paragraph(EVIL),
        table([EVIL], [[EVIL]], EVIL),
        folded(EVIL, table([], [[EVIL]])),
    ],
)
def test_everything_is_escaped(html):
    assert {*Read(html).texts} == {ESCAPED}


def test_cells():
    assert Read(table(["a"], [["x", 12345, 0.12345, None, True, float("nan")]])).cells == [
        "a", "x", "12,345", "0.123", "", "True", "nan",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def alignment():
    """An alignment of two graphs whose labels, names, relations and values are markup."""
    labels = [f"{EVIL} {at}" for at in range(60)]
    triples = [
        (labels[at], f"{EVIL} r{step}", labels[(at + step) % 60]) for at in range(60) for step in (1, 7, 23)
    ]
    attributes = [(label, f"{EVIL} k", f"{EVIL} v{at % 13}") for at, label in enumerate(labels)]
    sides = {"source_attributes": attributes, "target_attributes": attributes}
    names = {label: f"{EVIL} name {at}" for at, label in enumerate(labels)}
    seeds = {label: label for label in labels[:20]}
    task = divea.make_task(triples, triples, seeds, **sides, source_names=names, target_names=names)
    return divea.align(task, device="cpu", **{**SETTINGS, "subtasks": 1, "division": "whole"})


def test_a_task(alignment):
    found = Read(alignment.task._repr_html_())
    assert found.texts[0] == "Alignment task"
    rows = [found.cells[at : at + 3] for at in range(0, len(found.cells), 3)]
    assert rows[:6] == [
        ["", "source", "target"],
        ["entities", "60", "60"],
        ["relations", "3", "3"],
        ["triples", "180", "180"],
        ["literals", "120", "120"],
        ["seeds", "20", "20"],
    ]
    assert rows[6][0] == "best connected" and "<script>" in rows[6][1]


def test_a_task_without_anything():
    empty = divea.KnowledgeGraph.from_triples([])
    assert "0" in Read(divea.AlignmentTask(empty, empty)._repr_html_()).cells


def test_an_alignment(alignment):
    found = Read(alignment._repr_html_())
    assert found.texts[0] == "Alignment"
    assert found.cells[:4] == ["pairs", str(len(alignment.mappings)), "seeds", "20"]
    assert "run directory" in found.cells and str(alignment.path) in found.cells
    at = found.cells.index("target") - 1
    assert found.cells[at : at + 4] == ["source", "target", "score", "confidence"]
    first = [found.cells[at + 4 + 4 * row : at + 8 + 4 * row] for row in range(10)]
    assert all(" name " in name for row in first for name in row[:2])
    assert len(found.cells) == at + 4 + 4 * min(len(alignment.mappings), 10)


def test_an_alignment_with_a_damaged_calibration(alignment, monkeypatch):
    for content in ([], {"expected_precision": "<script>"}, {"expected_precision": None}):
        monkeypatch.setattr("divea.runs.html.read_description", lambda path, content=content: content)
        assert "expected precision" not in Read(alignment._repr_html_()).cells


def test_settings(alignment):
    settings = divea.Settings(subtasks=5, features={"names": {"source": EVIL}})
    found = Read(settings._repr_html_())
    cells = dict(zip(found.cells[::2], found.cells[1::2], strict=True))
    assert cells["subtasks"] == "5" and cells["model.name"] == '"label-propagation"'
    assert "<script>" in cells["features.names.source"] and "matching.method" in cells
    assert any(words.startswith("all ") and words.endswith(" settings in use") for words in found.texts)
    Read(alignment.settings._repr_html_())


def test_explanations(alignment):
    rows = alignment.mappings.to_pylist()
    seed = alignment.task.source.label(alignment.task.seeds.source[:1])[0]
    explained = [alignment.explain(rows[0]["source"]), alignment.explain(seed)]
    explained.append(alignment.explain(rows[0]["source"], rows[1]["target"]))
    captions = set()
    for one in explained:
        html, drawn = without_picture(one._repr_html_())
        assert len(drawn) == (one.target is not None)
        assert all(ElementTree.fromstring(picture).tag.endswith("svg") for picture in drawn)
        found = Read(html)
        assert found.texts[0] == one.verdict
        assert " name " in "".join(found.cells)
        captions |= {
            words
            for words in found.texts
            if words.startswith(("Other", "Literals")) or "neighbours that" in words
        }
    assert len(captions) >= 2
