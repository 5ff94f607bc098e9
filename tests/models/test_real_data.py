"""A model on real data: settings far below the default, a figure far above chance."""

import numpy as np

from divea.evaluation import RankMetrics, gold_ranks, listed_ranks, read_gold
from divea.formats import read_task
from divea.matching import match
from divea.models import resolve_model


def test_label_propagation_on_dbp15k(shared_data):
    folder = shared_data / "dbp15k" / "zh_en"
    split = folder / "splits" / "20" / "0"
    task = read_task(folder, seeds=split / "sup_ent_ids")
    gold = read_gold(split / "ref_ent_ids", task, folder=folder)
    model = resolve_model("label-propagation", labels=64, heads=32, rounds=1)
    embeddings = model.embed(task, seed=1)
    found = RankMetrics.of(gold_ranks(embeddings, task, gold))
    assert found.h1 > 0.35
    assert found.coverage == 1
    # The table of matches tells the same as far as it goes.
    matches = match(embeddings, task.unmatched_source, task.unmatched_target)
    listed = RankMetrics.of(listed_ranks(matches, gold))
    assert np.allclose([listed.h1, listed.h5, listed.h10], [found.h1, found.h5, found.h10], atol=1e-3)
