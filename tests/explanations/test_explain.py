"""Explanations: contributions add up, neighbours are those of the graphs, and every case has its verdict."""

import json
import shutil
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import divea
from divea.errors import InputError
from divea.explanations import explain, kept
from divea.explanations.explain import explain_pair
from divea.explanations.neighbours import (
    Counterparts,
    EdgeIndex,
    RelationAgreement,
    edges_of,
    matching_neighbours,
)
from divea.features.attributes import _comparison, read_properties
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.synth import SynthConfig, synthesise
from divea.runs.evidence import Evidence, read_evidence
from divea.runs.finished import open_finished, read_ranked_lists
from divea.runs.layout import EVIDENCE, FEATURES
from tests.command_line import divea as command
from tests.loop.small_loops import with_shuffled_literals

SVG = "{http://www.w3.org/2000/svg}"
NO_EVIDENCE = Evidence(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0), (), None)


@pytest.fixture(scope="module", params=["seeds", "no seeds", "no confidence"])
def alignment(request, tmp_path_factory):
    share = {"seeds": 0.3, "no seeds": 0.0, "no confidence": 0.02}[request.param]
    pair = synthesise(SynthConfig(entities=300, names=share == 0, seed_share=share, random_seed=4))
    out = tmp_path_factory.mktemp("explained") / "run"
    held_back = {"confidence.held_back": 0.0} if request.param == "no confidence" else {}
    return divea.align(pair.task, out=out, device="cpu", subtasks=2, iterations=2, **held_back)


def found_pairs(alignment, count=40):
    """Assigned pairs, among them some that are not in the mappings."""
    table = alignment.ranked.filter(alignment.ranked["given"])
    step = max(len(table) // count, 1)
    return list(zip(*(table[name].to_pylist()[::step] for name in ("source", "target")), strict=True))


def test_contributions_add_up_to_the_confidence(alignment):
    ranked = alignment.ranked.filter(alignment.ranked["given"])
    given = dict(zip(ranked["source"].to_pylist(), ranked["confidence"].to_pylist(), strict=True))
    for source, target in found_pairs(alignment):
        found = alignment.explain(source)
        assert found.target is not None and found.target.label == target
        if given[source] is None:
            assert found.confidence is None and found.contributions == ()
            continue
        total = sum(item.log_odds for item in found.contributions)
        assert 1 / (1 + np.exp(-total)) == pytest.approx(given[source], abs=1e-4)
        assert found.contributions[-1].confidence == pytest.approx(given[source], abs=1e-4)
        assert found.confidence == given[source]


def test_neighbours_are_matched_and_connected_and_their_shares_add_up(alignment):
    task = alignment.task
    ranked = alignment.ranked.filter(alignment.ranked["given"])
    match = dict(zip(ranked["source"].to_pylist(), ranked["target"].to_pylist(), strict=True))
    match |= dict(
        zip(task.source.label(task.seeds.source), task.target.label(task.seeds.target), strict=True)
    )
    near = [neighbours_by_label(graph) for graph in (task.source, task.target)]
    seen = 0
    for source, target in found_pairs(alignment):
        found = alignment.explain(source, target)
        expected = {one for one in near[0][source] if match.get(one) in near[1][target]} - {source}
        assert {item.source for item in found.neighbours} == expected
        assert all(match[item.source] == item.target for item in found.neighbours)
        assert [item.share for item in found.neighbours] == sorted(
            (item.share for item in found.neighbours), reverse=True
        )
        assert not expected or sum(item.share for item in found.neighbours) == pytest.approx(1)
        assert all(item.source_relations and item.target_relations for item in found.neighbours)
        seen += len(expected)
    assert seen > 10


def test_lone_neighbours_match_none_of_the_other_entity(alignment):
    near = [neighbours_by_label(graph) for graph in (alignment.task.source, alignment.task.target)]
    seen = 0
    for source, target in found_pairs(alignment):
        found = alignment.explain(source, target)
        sides = {"source": near[0][source], "target": near[1][target]}
        matching = {
            "source": {item.source for item in found.neighbours},
            "target": {item.target for item in found.neighbours},
        }
        for side in sides:
            lone = [item for item in found.lone_neighbours if item.side == side]
            assert {item.label for item in lone} <= sides[side] - matching[side]
            assert len(lone) == min(len(sides[side] - matching[side]), 5)
            assert all(item.relations for item in lone)
        seen += len(found.lone_neighbours)
    assert seen > 10


def test_many_explanations_are_the_same_as_each_alone(alignment):
    run = open_finished(alignment.path)
    many = kept.Kept(run, many=True)
    for source, target in found_pairs(alignment, 20):
        ids = int(run.task.source.find([source])[0]), int(run.task.target.find([target])[0])
        assert explain_pair(many, *ids).as_dict() == explain(run, source, target).as_dict()


@given(st.lists(st.tuples(*[st.integers(0, 6)] * 3), min_size=1))
def test_the_index_finds_the_edges_of_every_entity(triples):
    graph = KnowledgeGraph.from_triples([(f"e{head}", f"r{by}", f"e{tail}") for head, by, tail in triples])
    index = EdgeIndex(graph)
    for entity in range(graph.num_entities):
        one, other = index.of(entity), edges_of(graph, entity)
        for name in ("neighbour", "relation", "is_outgoing"):
            assert getattr(one, name).tolist() == getattr(other, name).tolist()


def test_the_picture_is_well_formed_and_shows_every_part(alignment, tmp_path):
    source, target = found_pairs(alignment)[0]
    printed = command("explain", alignment.path, source, target, "--picture", tmp_path / "why.svg")
    assert printed.code == 0
    found = alignment.explain(source, target)
    found.save(tmp_path / "again.svg")
    assert (tmp_path / "why.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()
    texts = ["".join(one.itertext()) for one in ElementTree.parse(tmp_path / "why.svg").iter(f"{SVG}text")]
    assert {item.evidence for item in found.contributions} <= set(texts)
    assert sum(text in ("source", "target") for text in texts) == 2
    boxes = ElementTree.parse(tmp_path / "why.svg").findall(f"{SVG}g")
    assert len(boxes) == 2 + 2 * min(len(found.neighbours), 8) + len(found.lone_neighbours)


def test_a_picture_is_svg(alignment):
    source, _ = found_pairs(alignment)[0]
    with pytest.raises(InputError, match=r"end in \.svg"):
        alignment.explain(source).save("why.png")
    assert command("explain", alignment.path, source, "--picture", "why.png").code == 2


def neighbours_by_label(graph):
    labels = graph.entities.to_pylist()
    near = {label: set() for label in labels}
    for head, _, tail in graph.triples.tolist():
        if head != tail:
            near[labels[head]].add(labels[tail])
            near[labels[tail]].add(labels[head])
    return near


def test_the_ranked_list_is_that_of_the_table(alignment):
    for source, target in found_pairs(alignment, 10):
        rows = alignment.ranked.filter(np.asarray(alignment.ranked["source"].to_pylist()) == source)
        others = [row for row in rows.to_pylist() if row["target"] != target and row["score"] >= 0.0005]
        found = alignment.explain(source)
        shown = [(item.target, item.rank) for item in found.runners_up]
        assert shown == [(row["target"], row["rank"]) for row in others][: len(shown)]
        assert len(shown) >= min(len([row for row in others if row["rank"] <= 6]), 5)


def test_every_case_has_its_verdict(alignment):
    task = alignment.task
    sources, targets = task.source.entities.to_pylist(), task.target.entities.to_pylist()
    (source, target), (_, other) = found_pairs(alignment)[:2]
    assert alignment.explain(source, target).verdict.startswith(("matched", "left out of the mappings"))
    assert alignment.explain(source, other).verdict.startswith("not matched: the target")
    assert alignment.explain(source, other).contributions == ()
    if len(task.seeds):
        seed = sources[task.seeds.source[0]], targets[task.seeds.target[0]]
        assert alignment.explain(*seed).verdict == "the pair is a seed"
        assert alignment.explain(*seed).confidence == 1
        assert "another target by a seed" in alignment.explain(seed[0], other).verdict
        assert "another source by a seed" in alignment.explain(source, seed[1]).verdict
    matched = set(alignment.ranked.filter(alignment.ranked["given"])["source"].to_pylist())
    for label in [label for label in sources if label not in matched][:20]:
        assert str(alignment.explain(label))


def test_the_same_as_text_and_as_json(alignment):
    source, _ = found_pairs(alignment)[0]
    found = alignment.explain(source)
    assert json.loads(json.dumps(found.as_dict()))["source"]["label"] == source
    printed = command("explain", alignment.path, source)
    assert printed.code == 0
    assert printed.out.rstrip("\n") == str(found).rstrip("\n")
    as_json = command("explain", alignment.path, source, "--json")
    assert json.loads(as_json.out) == json.loads(json.dumps(found.as_dict()))


@pytest.mark.parametrize("arguments", [("nothing",), (None, "nothing")])
def test_unknown_entities_are_refused_in_one_line(alignment, arguments):
    source = arguments[0] or found_pairs(alignment)[0][0]
    with pytest.raises(InputError, match=r"nothing is no entity of the (source|target) graph"):
        alignment.explain(source, *arguments[1:])


def test_labels_cannot_control_the_terminal(tmp_path):
    evil = "x\x1b[31mred"
    graph = KnowledgeGraph.from_triples([(f"{evil}{i}", "r", f"{evil}{(i + 1) % 40}") for i in range(40)])
    ids = np.arange(20, dtype=np.int32)
    task = AlignmentTask(graph, graph, Links(ids, ids))
    alignment = divea.align(task, out=tmp_path / "run", device="cpu", features="none", iterations=1)
    assert "\x1b" not in str(alignment.explain(graph.entities[30].as_py()))


def test_relations_agree_as_far_as_they_connect_counterparts():
    """Relation r of the source is s of the target in three of four triples, and inverse of t in one."""
    source = KnowledgeGraph.from_triples([("a", "r", "b"), ("c", "r", "d"), ("e", "r", "f"), ("g", "r", "h")])
    target = KnowledgeGraph.from_triples([("A", "s", "B"), ("C", "s", "D"), ("E", "s", "F"), ("H", "t", "G")])
    labels = "abcdefgh"
    seeds = Links(source.find(list(labels)), target.find(list(labels.upper())))
    task = AlignmentTask(source, target, seeds)
    known = Counterparts.of(task, NO_EVIDENCE)
    found = RelationAgreement.of(task, known, np.array([0]), np.array([0, 1]))
    r = source.relations.to_pylist().index("r")
    s, t = (target.relations.to_pylist().index(label) for label in "st")
    assert found.same[r, s] == pytest.approx(3 / np.sqrt(4 * 3))
    assert found.same[r, t] == 0 == found.inverse[r, s]
    assert found.inverse[r, t] == pytest.approx(1 / 2)
    assert found.total([(r, True)], [(t, False)]) == pytest.approx(1 / 2)
    assert edges_of(source, int(source.find(["a"])[0])).to(int(source.find(["b"])[0])) == [(r, True)]
    first = [edges_of(graph, int(graph.find([label])[0])) for graph, label in ((source, "a"), (target, "A"))]
    (pair,) = matching_neighbours(task, known, *first, found)
    assert pair.is_seed and pair.share == 1 and pair.source_relations == ("r",)


TRIPLES = st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=20, unique=True)


@given(TRIPLES, TRIPLES, st.lists(st.integers(-1, 4), min_size=5, max_size=5))
def test_the_agreement_of_relations_is_a_cosine(ours, theirs, counterpart):
    """The oracle has a number for every possible triple; source entities may share a counterpart."""
    source, target = (
        KnowledgeGraph.from_triples([(f"e{h}", f"r{r}", f"e{t}") for h, r, t in triples])
        for triples in (ours, theirs)
    )
    target_of = np.array(counterpart)[np.arange(source.num_entities)].clip(max=target.num_entities - 1)
    known = Counterparts(target_of, np.ones(len(target_of)), target_of >= 5, target_of)
    found = RelationAgreement.of(AlignmentTask(source, target), known)
    size = target.num_entities
    is_matched = np.isin(np.arange(size), target_of)
    here, there = (np.zeros((graph.num_relations, size, size)) for graph in (source, target))
    for h, r, t in source.triples:
        here[r, target_of[h], target_of[t]] += target_of[h] >= 0 and target_of[t] >= 0
    for h, r, t in target.triples:
        there[r, h, t] += is_matched[h] and is_matched[t]
    lengths = np.sqrt(np.maximum(np.outer(here.sum((1, 2)), there.sum((1, 2))), 1))
    assert np.allclose(found.same.toarray(), np.einsum("rht,sht->rs", here, there) / lengths)
    assert np.allclose(found.inverse.toarray(), np.einsum("rth,sht->rs", here, there) / lengths)


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.2, 0.5, 0.9, np.nan])), max_size=12))
def test_the_most_confident_source_of_a_target_is_its_counterpart(pairs):
    """Sources may share a target. The oracle sorts all of them by confidence."""
    graph = KnowledgeGraph.from_triples([(str(i), "r", str(i + 1)) for i in range(12)])
    target = np.array([one for one, _ in pairs], dtype=np.int32)
    confidence = np.array([value for _, value in pairs], dtype=np.float64)
    ids = np.arange(len(pairs), dtype=np.int32)
    found = Counterparts.of(AlignmentTask(graph, graph), Evidence(ids, target, confidence, (), None))
    expected = np.full(graph.num_entities, -1)
    for source in np.argsort(confidence, kind="stable").tolist():
        expected[target[source]] = source
    assert found.source.tolist() == expected.tolist()


def test_evidence_of_another_run_is_refused(alignment, tmp_path):
    small = KnowledgeGraph.from_triples([("a", "r", "b")])
    with pytest.raises(InputError, match="holds no evidence of this run"):
        read_evidence(alignment.path / EVIDENCE, AlignmentTask(small, small))
    broken = tmp_path / "evidence.arrow"
    for content in (b"", b"ARROW1", (alignment.path / EVIDENCE).read_bytes()[:200]):
        broken.write_bytes(content)
        with pytest.raises(InputError, match="holds no evidence of this run"):
            read_evidence(broken, alignment.task)


def test_damaged_evidence_is_noticed(alignment, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(alignment.path, copy)
    content = bytearray((copy / EVIDENCE).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / EVIDENCE).write_bytes(content)
    with pytest.raises(InputError, match="is damaged"):
        explain(open_finished(copy), found_pairs(alignment)[0][0])


@pytest.mark.parametrize(
    "content", ["[]", "3", "null", '{"names": 1}', '{"attributes": [{}]}', '{"attributes": 3}', "{"]
)
def test_what_was_learned_is_checked(content, tmp_path):
    """Somebody else may have made the run and signed its files."""
    path = tmp_path / "features.json"
    path.write_text(content)
    with pytest.raises(InputError):
        kept._learned(path)


@pytest.mark.parametrize("content", ["[]", "{}", '{"threshold": "x"}', '{"threshold": true}', "{"])
def test_the_threshold_is_checked(content, tmp_path):
    path = tmp_path / "calibration.json"
    path.write_text(content)
    with pytest.raises(InputError):
        kept._threshold(path)


def test_a_pair_is_left_out_if_no_threshold_gives_the_precision(alignment, tmp_path, monkeypatch):
    (tmp_path / "calibration.json").write_text('{"threshold": null}')
    assert kept._threshold(tmp_path / "calibration.json") == np.inf
    monkeypatch.setattr(kept, "_threshold", lambda path: np.inf)
    found = alignment.explain(found_pairs(alignment)[0][0])
    if found.confidence is not None:
        assert found.verdict.startswith("left out of the mappings, because no threshold")


@pytest.mark.parametrize("order", ["by subtask", "by source, as earlier versions wrote it"])
def test_every_list_is_found_in_many_row_groups(tmp_path, monkeypatch, order):
    monkeypatch.setattr("divea.runs.tables._ROWS", 64)
    pair = synthesise(SynthConfig(entities=200, random_seed=1))
    divea.align(pair.task, out=tmp_path / "run", subtasks=3, device="cpu", features="none")
    path = tmp_path / "run" / "ranked.parquet"
    table = pq.read_table(path)
    assert pq.read_metadata(path).num_row_groups > 20
    if order != "by subtask":
        ids = pair.task.source.find(table["source"].combine_chunks())
        table = table.take(np.argsort(ids, kind="stable"))
        pq.write_table(table.replace_schema_metadata(None), path, row_group_size=64)
    found = kept.Kept(open_finished(tmp_path / "run", check_large=False))
    expected = {}
    for row in table.to_pylist():
        expected.setdefault(row["source"], []).append((row["target"], row["score"]))
    for source, listed in expected.items():
        (number,) = pair.task.source.find([source])
        targets, scores = zip(*found.ranked(number), strict=True)
        labels = [pair.task.target.entities[target].as_py() for target in targets]
        assert list(zip(labels, scores, strict=True)) == listed
    whole = read_ranked_lists(open_finished(tmp_path / "run", check_large=False)).matches
    sources = [pair.task.source.entities[source].as_py() for source in whole.source]
    assert whole.source.tolist() == sorted(whole.source) and set(sources) == expected.keys()
    for source, targets in zip(sources, whole.target, strict=True):
        labels = [pair.task.target.entities[target].as_py() for target in targets[targets >= 0]]
        assert labels == [target for target, _ in expected[source]]


def test_literals_count_as_much_as_in_the_run(tmp_path):
    """Compared with the feature's own figures, for all assigned pairs."""
    pair = synthesise(SynthConfig(entities=400, names=True, seed_share=0.1, random_seed=1))
    found = divea.align(pair.task, out=tmp_path / "run", device="cpu", subtasks=2, iterations=2)
    learned = {
        (item["source"], item["target"]): item
        for item in json.loads((tmp_path / "run" / FEATURES).read_text())["attributes"]
    }
    properties = [
        {item.label: item for item in side} for side in read_properties(found.task, found.settings.features)
    ]
    everything = kept.Kept(open_finished(tmp_path / "run"), many=True)
    gaps, verdicts = [], []
    for source, target in zip(everything.evidence.source, everything.evidence.target, strict=True):
        for item in explain_pair(everything, int(source), int(target)).literals:
            names = item.source_property, item.target_property
            both = [side[name] for side, name in zip(properties, names, strict=True)]
            figures = _comparison(*both, np.array([[source, target]]))[0]
            weights = [learned[names][name] for name in ("agreement", "rare_agreement", "presence")]
            gaps.append(item.log_odds - figures @ weights)
            verdicts.append((item.verdict == "differ") == (figures[0] == 0))
    assert len(gaps) > 300 and len({item["kind"] for item in learned.values()}) > 2
    assert np.abs(gaps).max() < 1 and np.abs(gaps).mean() < 0.15
    assert all(verdicts)


def test_the_property_that_the_user_chose_names_entities(tmp_path):
    """It comes before labels, as in exports; and a run without names shows names nevertheless."""
    lines = []
    for at in range(60):
        one = f"<http://x.example/{at}>"
        lines.append(f'{one} <http://www.w3.org/2000/01/rdf-schema#label> "label {at}" .')
        lines.append(f'{one} <http://x.example/official> "Official {at}" .')
        lines.append(f"{one} <http://x.example/near> <http://x.example/{(at * 7 + 1) % 60}> .")
    (tmp_path / "a.nt").write_text("\n".join(lines))
    (tmp_path / "b.nt").write_text("\n".join(lines).replace("x.example", "y.example"))
    chosen = "http://x.example/official"
    named = ["--source-names", chosen, "--target-names", chosen.replace("x.", "y.", 1)]
    graphs = ["--source", tmp_path / "a.nt", "--target", tmp_path / "b.nt"]
    for name, options in (("chosen", named), ("none", ["--features", "none", "--seeds", tmp_path / "s.tsv"])):
        pairs = (f"http://x.example/{at}\thttp://y.example/{at}" for at in range(20))
        (tmp_path / "s.tsv").write_text("\n".join(pairs))
        ended = command("align", *graphs, *options, "--out", tmp_path / name)
        assert ended.code == 0, ended.err
    shown = command("explain", tmp_path / "chosen", "Official 33")
    assert shown.code == 0 and "Official 33" in shown.out and "label 33" not in shown.out.splitlines()[0]
    shown = command("explain", tmp_path / "none", "http://x.example/33")
    assert shown.code == 0 and "label 33" in shown.out.splitlines()[0]


def test_other_candidates_are_shown_whatever_their_scores_mean(tmp_path):
    """Scores of CSLS may be negative."""
    pair = synthesise(SynthConfig(entities=150, seed_share=0.3, random_seed=2))
    found = divea.align(
        pair.task, out=tmp_path / "run", device="cpu", subtasks=1, iterations=1, matching={"method": "csls"}
    )
    explained = [found.explain(source) for source, _ in found_pairs(found, 20)]
    assert all(one.runners_up for one in explained)
    assert any(candidate.score < 0 for one in explained for candidate in one.runners_up)


def test_names_are_shown_even_if_they_have_no_weight(tmp_path):
    """Useless names do not count, but people know the entities by them."""
    pair = synthesise(SynthConfig(entities=300, names=True, seed_share=0.3, random_seed=4))
    target = with_shuffled_literals(pair.task.target)
    task = AlignmentTask(pair.task.source, target, pair.task.seeds)
    found = divea.align(task, out=tmp_path / "run", device="cpu", subtasks=1, iterations=2)
    learned = json.loads((tmp_path / "run" / FEATURES).read_text())
    assert learned["weights"] == {"names": 0.0, "attributes": 0.0}
    explained = [found.explain(source) for source, _ in found_pairs(found, 10)]
    assert all(one.source.name != one.source.label.rpartition("/")[2] for one in explained)
    assert not any(one.literals for one in explained)
