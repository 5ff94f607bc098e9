"""A run with hostile names, its report, and a browser to open it in."""

import shutil

import pytest

import divea
from divea.graphs import AlignmentTask, Links
from divea.graphs.builder import GraphBuilder
from divea.graphs.labels import as_labels
from divea.graphs.synth import SynthConfig, synthesise

HOSTILE = [
    "<script>document.title = 'taken'</script>",
    '"><img src=x onerror="document.title = 1">',
    "'; alert(1); '",
    "</script><script>document.title = 'taken'</script>",
    "שלום עולם",
    "مرحبا بالعالم",
    "{{ 7 * 7 }} {% raw %}",
    "tab\tand\x1b[31m\x00colour",
    "&lt;b&gt; &amp;",
]
"""Names that a page must show as they are."""

NAME = "http://www.w3.org/2000/01/rdf-schema#label"


def hostile_task() -> AlignmentTask:
    """Two copies of a ring with chords; names are hostile, and some labels too."""
    count = 60

    def graph(prefix):
        labels = [f"http://{prefix}.example/{i}" for i in range(count)]
        labels[0] = f"http://{prefix}.example/<script>alert(0)</script>"
        ends = [(i, step) for i in range(count) for step in (1, 7)]
        links = [(labels[i], f"<i>r{step}</i>", labels[(i + step) % count]) for i, step in ends]
        names = [(labels[i], NAME, f"{HOSTILE[i % len(HOSTILE)]} {i}") for i in range(count)]
        builder = GraphBuilder()
        builder.add_triples(*map(as_labels, zip(*links, strict=True)))
        kinds = as_labels([""] * count)
        builder.add_attributes(*map(as_labels, zip(*names, strict=True)), kinds)
        return builder.build(), labels

    (source, ours), (target, theirs) = graph("source"), graph("target")
    seeds = Links.from_labels(ours[40:], theirs[40:], source, target)
    return AlignmentTask(source, target, seeds)


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    """The alignment of a task with hostile names."""
    out = tmp_path_factory.mktemp("hostile") / "run"
    return divea.align(hostile_task(), out=out, device="cpu", subtasks=1, iterations=2)


@pytest.fixture(scope="session")
def named(tmp_path_factory):
    """The alignment of a synthetic pair with names, and its gold links."""
    pair = synthesise(SynthConfig(entities=400, names=True, seed_share=0.2, random_seed=3))
    out = tmp_path_factory.mktemp("named") / "run"
    return divea.align(pair.task, out=out, device="cpu", subtasks=3, iterations=2), pair.gold


@pytest.fixture(scope="session")
def browser():
    """A real Chromium, driven by Playwright; tests that need one are skipped where it is absent."""
    playwright = pytest.importorskip("playwright.sync_api")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()
