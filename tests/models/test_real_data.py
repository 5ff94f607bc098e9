"""Label propagation on DBP15K: with options far below the defaults, H@1 is far above chance."""

import numpy as np
import pytest

from divea.evaluation import RankMetrics, gold_ranks, listed_ranks, read_gold
from divea.formats import read_task
from divea.graphs import Links
from divea.matching import match
from tests.models.small_models import small_model


@pytest.fixture(scope="module")
def aligned(shared_data):
    """The task, its gold links and the embeddings of its entities."""
    folder = shared_data / "dbp15k" / "zh_en"
    split = folder / "splits" / "20" / "0"
    task = read_task(folder, seeds=split / "sup_ent_ids")
    gold = read_gold(split / "ref_ent_ids", task, folder=folder)
    model = small_model("label-propagation", labels=64, heads=32, rounds=1)
    return task, gold, model.embed(task, random_seed=1)


def assert_lists_agree(matches, gold, found):
    """The ranks in lists of ten matches agree with the ranks among all candidates."""
    listed = RankMetrics.of(listed_ranks(matches, gold))
    assert np.allclose([listed.h1, listed.h5, listed.h10], [found.h1, found.h5, found.h10], atol=1e-3)


@pytest.mark.slow
def test_label_propagation_on_dbp15k(aligned):
    task, gold, embeddings = aligned
    found = RankMetrics.of(gold_ranks(embeddings, task, gold))
    assert found.h1 > 0.35
    assert found.coverage == 1
    assert_lists_agree(match(embeddings, task.unmatched_source, task.unmatched_target), gold, found)


def test_label_propagation_on_a_sample_of_dbp15k(aligned):
    """A sixth of the links by the closed protocol, where 2000 sources compete for 2000 targets."""
    task, gold, embeddings = aligned
    sample = Links.from_pairs(np.random.default_rng(0).permutation(gold.pairs)[:2000])
    found = RankMetrics.of(gold_ranks(embeddings, task, sample, protocol="closed"))
    assert found.h1 > 0.5
    assert found.coverage == 1
    assert_lists_agree(match(embeddings, sample.source, sample.target), sample, found)
