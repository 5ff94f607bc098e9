import numpy as np
import pytest

from divea import InputError, read_task
from divea.graphs.synth import SynthConfig, synthesise


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
        ({"seed_share": 0}, "seed_share must be between 0 and 1"),
        ({"triples_per_entity": 0}, "triples_per_entity must be between 0.5 and 100"),
    ],
)
def test_impossible_parameters_are_refused(bad, message):
    with pytest.raises(InputError, match=message):
        SynthConfig(**bad)
