"""A typed program that uses every public name of divea; `tests/test_api.py` checks and runs it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import divea


def use_graph(graph: divea.KnowledgeGraph) -> divea.KnowledgeGraph:
    counts: tuple[int, int, int] = (graph.num_entities, graph.num_relations, graph.num_triples)
    assert counts == (len(graph.entities), len(graph.relations), len(graph.triples))
    assert len(graph.heads) == len(graph.tails) == graph.num_triples
    assert graph.repeated_triples == 0 and graph.attributes is None
    labels: list[str | None] = graph.label(graph.find(["Rome", "Atlantis"]))
    assert labels == ["Rome", None]
    assert len(graph.names) == len(graph.degrees) == graph.adjacency.shape[0] == graph.num_entities
    part: divea.KnowledgeGraph = graph.subgraph([0, 1])
    assert part.num_entities == 2
    return divea.KnowledgeGraph.from_triples([("Rome", "capital of", "Italy")], extra_entities=["Oslo"])


def use_links(links: divea.Links, task: divea.AlignmentTask) -> divea.Links:
    assert links.pairs.shape == (len(links), 2)
    assert links.source.shape == links.target.shape
    sources, targets = links.labels(task.source, task.target)
    same = divea.Links.from_labels(sources, targets, task.source, task.target, skip_unknown=True)
    assert same == links
    assert links.without(links) == links.intersection(divea.Links.from_pairs([]))
    assert links.among(links).all() and len(links.keys) == len(links)
    return links.union(divea.Links.from_pairs([(0, 0)]))


def use_task(task: divea.AlignmentTask) -> divea.AlignmentTask:
    sides: tuple[divea.KnowledgeGraph, divea.KnowledgeGraph] = (task.source, task.target)
    for graph, unmatched in zip(sides, (task.unmatched_source, task.unmatched_target), strict=True):
        assert len(unmatched) + len(task.seeds) == graph.num_entities
    assert task.features == () and len(task.rejected) == 0
    return divea.AlignmentTask(task.source, task.target, task.seeds)


def use_settings(settings: divea.Settings, folder: Path) -> divea.Settings:
    number: int | None = settings.subtasks
    size: int | None = settings.size
    assert (number, size, settings.iterations, settings.random_seed) == (2, None, 2, 0)
    assert settings.division.name == "joint" and settings.matching.method == "sinkhorn"
    assert settings.confidence.precision is None and settings.output.one_to_one
    assert settings.model == settings.model_at(0) == settings.models()[-1]
    assert settings.last_model.iterations == 0 and settings.features.used == ["names", "attributes"]
    assert settings.named == "" and settings.calibrates and not settings.weighs_similarity
    assert settings.given()["subtasks"] == 2
    assert settings.plain()["subtasks"] == settings.resolved(subtasks=3).plain()["subtasks"] - 1
    (folder / "settings.yaml").write_text("iterations: 2\n")
    assert settings.in_use()["iterations"] == divea.Settings.read_file(folder / "settings.yaml")["iterations"]
    loaded: divea.Settings = divea.Settings.load(folder / "settings.yaml", subtasks=2)
    checked: divea.Settings = divea.Settings.checked({"subtasks": 2, "iterations": 2})
    preset: divea.Settings = divea.Settings.preset("fast", subtasks=2, iterations=2)
    assert loaded == checked == preset == settings
    return divea.Settings.of(settings, {"model.label-propagation.labels": 64})


def use_alignment(alignment: divea.Alignment, gold: divea.Links, folder: Path) -> float:
    path: Path = alignment.path
    assert path.is_dir()
    task: divea.AlignmentTask = alignment.task
    settings: divea.Settings = alignment.settings
    assert settings.subtasks == 2 and len(task.seeds)
    assert alignment.mappings.num_rows <= alignment.ranked.num_rows
    alignment.save(folder / "mappings.tsv")
    table = alignment.export(folder / "pairs.csv", names=True, seeds=True, context=2, for_spreadsheet=True)
    assert table.num_rows == alignment.mappings.num_rows + len(task.seeds)
    try:
        alignment.export(folder / "sure.sssom.tsv", precision=0.9)
    except divea.InputError as error:
        assert "no confidence" in str(error)
    assert len(alignment.to_pandas()) == alignment.to_polars().height == alignment.mappings.num_rows
    sheet = alignment.review(folder / "sheet.tsv", pairs=2, for_spreadsheet=True)
    assert 0 < sheet.num_rows <= 2
    more = divea.Links.from_pairs(gold.pairs[:1])
    refined: divea.Alignment = alignment.refine(seeds=more, out=folder / "refined", device="cpu")
    assert len(refined.task.seeds) == len(task.seeds) + 1
    assert divea.suggest(task, folder / "labels.tsv", 1).num_rows == 1
    assert divea.suggest(path, folder / "labels.tsv", entities=1, for_spreadsheet=True).num_rows == 1
    first: str = alignment.mappings["source"][0].as_py()
    explanation: divea.Explanation = alignment.explain(first)
    explanation.save(folder / "why.svg")
    size: int = alignment.report(folder / "report.html", gold=None)
    assert size > 0
    assert str(explanation) and explanation.as_dict()["source"]["label"] == first
    again = divea.Alignment(path).evaluate(gold, "closed", min_confidence=0.5)
    assert again.links == len(gold)
    hits: float = alignment.evaluate(gold).h1
    return hits


def use_files(task: divea.AlignmentTask, folder: Path) -> divea.AlignmentTask:
    left_out: list[str] = divea.write_task(task, folder / "task", "openea")
    assert left_out == []
    divea.write_graph(task.source, folder / "source.nt.gz")
    graph: divea.KnowledgeGraph = divea.read_graph(folder / "source.nt.gz")
    assert graph.num_triples == task.source.num_triples
    try:
        divea.read_graph(folder / "none.nt")
    except divea.InputError as error:
        assert "none.nt" in str(error)
    (folder / "names.tsv").write_text("entity\tname\nRome\tRoma\n")
    named: divea.AlignmentTask = divea.read_task(folder / "task", source_names=folder / "names.tsv")
    assert named.source.attributes is not None and named.target.attributes is None
    return divea.read_task(folder / "task")


def main(folder: Path) -> None:
    cities = ["Rome", "Oslo", "Bern", "Wien", "Riga", "Kyiv"]
    triples = [(city, "near", other) for city in cities for other in cities if city < other]
    graph = divea.KnowledgeGraph.from_triples(triples)
    use_graph(graph)
    seeds = divea.Links.from_labels(["Rome", "Oslo"], ["Rome", "Oslo"], graph, graph)
    task = use_task(divea.AlignmentTask(graph, graph, seeds))
    made: divea.AlignmentTask = divea.make_task(triples, graph, {"Rome": "Rome", "Oslo": "Oslo"})
    assert made.source == task.source and made.seeds == task.seeds
    assert len(use_links(task.seeds, task)) >= len(seeds)
    task = use_files(task, folder)
    settings = use_settings(divea.Settings(subtasks=2, iterations=2), folder)
    alignment: divea.Alignment = divea.align(
        task, settings, out=folder / "run", executor="inline", device="cpu", memory="4GiB", random_seed=1
    )
    gold = divea.Links.from_labels(["Bern", "Wien"], ["Bern", "Wien"], task.source, task.target)
    assert 0 <= use_alignment(alignment, gold, folder) <= 1
    divea.write_mappings(alignment.mappings.select(["source", "target"]), folder / "pairs.tsv")
    pairs: divea.Links = divea.read_links(folder / "pairs.tsv", task)
    assert len(pairs) == alignment.mappings.num_rows


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
