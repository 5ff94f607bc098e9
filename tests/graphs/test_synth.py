import numpy as np
import pytest

from divea import InputError, read_task
from divea.graphs.synth import SynthConfig, synthesise


def test_same_seed_same_arrays_other_seed_others():
    first, again, other = (synthesise(SynthConfig(entities=500, seed=seed)) for seed in (3, 3, 4))
    assert first.task.source == again.task.source and first.gold == again.gold
    assert first.task.source != other.task.source


@pytest.mark.parametrize("entities", [10, 50, 2000])
def test_what_was_asked_for_is_there(entities):
    pair = synthesise(SynthConfig(entities=entities, matched=0.6, seeds=0.3))
    task = pair.task
    for graph in (task.source, task.target):
        assert graph.num_entities == entities
        assert graph.degrees.min() >= 1 or entities < 50
    links = len(task.seeds) + len(pair.gold)
    assert links == round(0.6 * entities)
    assert len(task.seeds) == round(0.3 * links)
    anchors = set(task.seeds.source.tolist())
    assert not anchors & set(pair.gold.source.tolist())


def test_graphs_overlap_in_part_and_speak_different_vocabularies():
    pair = synthesise(SynthConfig(entities=3000, common=0.5))
    task = pair.task
    match = np.full(task.source.num_entities, -1)
    for links in (task.seeds, pair.gold):
        match[links.source] = links.target
    there = set(map(tuple, task.target.triples[:, [0, 2]].tolist()))
    both = [(match[h], match[t]) in there for h, _, t in task.source.triples]
    assert 0.4 < np.mean(both) < 0.65
    assert task.source.num_relations != task.target.num_relations
    assert not set(task.source.entities.to_pylist()) & set(task.target.entities.to_pylist())


def test_labels_do_not_give_the_match_away():
    pair = synthesise(SynthConfig(entities=3000))
    left, right = pair.gold.labels(pair.task.source, pair.task.target)
    numbers = [[int(label.rpartition("E")[2]) for label in side.to_pylist()] for side in (left, right)]
    assert abs(np.corrcoef(*numbers)[0, 1]) < 0.1
    assert abs(np.corrcoef(pair.gold.source, pair.gold.target)[0, 1]) < 0.1


def test_shape_is_close_to_zh_en(shared_data):
    real = read_task(shared_data / "dbp15k" / "zh_en").source
    made = synthesise(SynthConfig(entities=real.num_entities, triples_per_entity=3.6)).task.source
    at = [25, 50, 75, 90, 99]
    degrees = [np.percentile(graph.degrees, at) for graph in (real, made)]
    assert (np.abs(np.log(degrees[0] / degrees[1])) < np.log(1.6)).all()
    shares = [
        np.sort(np.bincount(graph.triples[:, 1]))[::-1].cumsum() / graph.num_triples for graph in (real, made)
    ]
    for rank in (1, 10, 100, 500):
        assert shares[1][rank - 1] == pytest.approx(shares[0][rank - 1], abs=0.1)


@pytest.mark.parametrize("bad", [{"entities": 2}, {"matched": 1.5}, {"seeds": 0}, {"triples_per_entity": 0}])
def test_nonsense_is_refused(bad):
    with pytest.raises(InputError):
        SynthConfig(**bad)
