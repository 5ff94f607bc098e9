import hashlib

import numpy as np
import pytest

from divea import InputError, read_task
from divea.graphs.storage import save_task
from divea.graphs.synth import SynthConfig, synthesise


def checksum(pair):
    """The checksum of the labels, triples, literals and links of a generated pair."""
    found = hashlib.sha256()
    for graph in (pair.task.source, pair.task.target):
        labels = [*graph.entities.to_pylist(), *graph.relations.to_pylist()]
        if graph.attributes is not None:
            labels += graph.attributes.predicate_labels.to_pylist()
            labels += map(str, graph.attributes.table().to_pylist())
        found.update("\n".join(labels).encode() + graph.triples.astype("<i4").tobytes())
    for links in (pair.task.seeds, pair.gold):
        found.update(links.pairs.astype("<i4").tobytes())
    return found.hexdigest()


@pytest.mark.parametrize(
    "options, expected",
    [
        (
            {"entities": 300, "random_seed": 7},
            "834c91f9d6a116ee4e1fa8ca92cd6868820d9461e45bebcf9a9a690125b23b1a",
        ),
        (
            {"entities": 3000, "random_seed": 1, "matched": 0.6, "common": 0.4, "seed_share": 0.3},
            "35ab7b0bb36816fad787ede7a30f9533ce0f2afe3b985d25ec8081c29e31e696",
        ),
    ],
)
def test_pairs_without_names_have_the_bytes_that_they_had_before_names_existed(options, expected):
    assert checksum(synthesise(SynthConfig(**options))) == expected


def test_the_same_random_seed_gives_the_same_bytes_with_names():
    sums = [checksum(synthesise(SynthConfig(entities=300, names=True, random_seed=n))) for n in (3, 3, 4)]
    assert sums[0] == sums[1] != sums[2]


@pytest.mark.parametrize("entities", [10, 1500])
def test_names_leave_triples_and_links_as_they_are(entities):
    without, with_names = (synthesise(SynthConfig(entities=entities, names=names)) for names in (False, True))
    assert without.gold == with_names.gold and without.task.seeds == with_names.task.seeds
    for side in ("source", "target"):
        bare, named = getattr(without.task, side), getattr(with_names.task, side)
        assert bare.attributes is None and len(named.attributes) > entities
        assert bare.entities.equals(named.entities) and np.array_equal(bare.triples, named.triples)


def names_by_entity(graph, predicate):
    """The name of each entity that has one."""
    number = graph.attributes.predicate_labels.to_pylist().index(predicate)
    rows = np.flatnonzero(graph.attributes.predicates == number)
    entities, values = graph.attributes.entities[rows], graph.attributes.values.take(rows)
    return dict(zip(entities.tolist(), values.to_pylist(), strict=True))


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_linked_entities_have_the_same_name_except_for_the_noise(noise):
    pair = synthesise(SynthConfig(entities=4000, names=True, name_noise=noise, random_seed=2))
    source = names_by_entity(pair.task.source, "http://www.w3.org/2000/01/rdf-schema#label")
    target = names_by_entity(pair.task.target, "http://target.example/property/name")
    assert len(source) == 4000 and len(target) / 4000 == pytest.approx(1 - noise / 6, abs=0.015)
    for links in (pair.task.seeds, pair.gold):
        named = [(left, right) for left, right in links.pairs.tolist() if right in target]
        differs = np.mean([source[left] != target[right] for left, right in named])
        assert differs == pytest.approx(noise, abs=0.06)
    # Entities without a counterpart have names of their own, and few of them are the name of another entity.
    linked = np.concatenate([pair.task.seeds.target, pair.gold.target])
    single = np.setdiff1d(list(target), linked)
    assert len(single) > 800
    assert np.mean([target[entity] in set(source.values()) for entity in single.tolist()]) < 0.08


def test_a_pair_without_seeds_has_all_links_in_gold(tmp_path):
    pair = synthesise(SynthConfig(entities=200, seed_share=0, names=True))
    assert len(pair.task.seeds) == 0 and len(pair.gold) == 154
    save_task(pair.task, tmp_path / "task")
    assert len(read_task(tmp_path / "task").seeds) == 0


def test_the_same_random_seed_gives_the_same_arrays_and_another_gives_others():
    first, again, other = (synthesise(SynthConfig(entities=500, random_seed=seed)) for seed in (3, 3, 4))
    assert first.task.source == again.task.source and first.task.target == again.task.target
    assert first.task.seeds == again.task.seeds and first.gold == again.gold
    assert first.task.source != other.task.source


@pytest.mark.parametrize("entities", [10, 50, 2000])
def test_graphs_and_links_have_the_requested_sizes(entities):
    pair = synthesise(SynthConfig(entities=entities, matched=0.6, seed_share=0.3))
    task = pair.task
    for graph in (task.source, task.target):
        assert graph.num_entities == entities
        assert graph.degrees.min() >= 1 or entities < 50
    links = len(task.seeds) + len(pair.gold)
    assert links == round(0.6 * entities)
    assert len(task.seeds) == round(0.3 * links)
    anchors = set(task.seeds.source.tolist())
    assert not anchors & set(pair.gold.source.tolist())


def test_graphs_share_some_triples_and_have_different_vocabularies():
    pair = synthesise(SynthConfig(entities=3000, common=0.5))
    task = pair.task
    match = np.full(task.source.num_entities, -1)
    for links in (task.seeds, pair.gold):
        match[links.source] = links.target
    in_target = set(map(tuple, task.target.triples[:, [0, 2]].tolist()))
    is_common = [(match[h], match[t]) in in_target for h, _, t in task.source.triples]
    assert 0.4 < np.mean(is_common) < 0.65
    assert task.source.num_relations != task.target.num_relations
    assert not set(task.source.entities.to_pylist()) & set(task.target.entities.to_pylist())


def test_labels_and_ids_do_not_reveal_the_match():
    pair = synthesise(SynthConfig(entities=3000))
    left, right = pair.gold.labels(pair.task.source, pair.task.target)
    numbers = [[int(label.rpartition("E")[2]) for label in side.to_pylist()] for side in (left, right)]
    assert abs(np.corrcoef(*numbers)[0, 1]) < 0.1
    assert abs(np.corrcoef(pair.gold.source, pair.gold.target)[0, 1]) < 0.1


def test_the_shape_is_close_to_zh_en(shared_data):
    real = read_task(shared_data / "dbp15k" / "zh_en").source
    made = synthesise(SynthConfig(entities=real.num_entities, triples_per_entity=3.6)).task.source
    percents = [25, 50, 75, 90, 99]
    degrees = [np.percentile(graph.degrees, percents) for graph in (real, made)]
    assert (np.abs(np.log(degrees[0] / degrees[1])) < np.log(1.6)).all()
    shares = [
        np.sort(np.bincount(graph.triples[:, 1]))[::-1].cumsum() / graph.num_triples for graph in (real, made)
    ]
    for rank in (1, 10, 100, 500):
        assert shares[1][rank - 1] == pytest.approx(shares[0][rank - 1], abs=0.1)


@pytest.mark.parametrize(
    "bad, message",
    [
        ({"entities": 2}, "entities must be at least 10"),
        ({"matched": 1.5}, "matched must be between 0 and 1"),
        ({"seed_share": 1}, "seed_share must be at least 0 and below 1"),
        ({"seed_share": -0.1}, "seed_share must be at least 0 and below 1"),
        ({"names": True, "name_noise": 1.2}, "name_noise must be from 0 to 1"),
        ({"name_noise": 0.1}, "name_noise has no effect without names"),
        ({"triples_per_entity": 0}, "triples_per_entity must be between 0.5 and 100"),
    ],
)
def test_impossible_parameters_are_refused(bad, message):
    with pytest.raises(InputError, match=message):
        SynthConfig(**bad)
