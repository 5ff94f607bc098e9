"""Gold links are the links of a file without the seeds."""

import pytest

from divea.errors import InputError
from divea.evaluation import read_gold
from divea.graphs import AlignmentTask, KnowledgeGraph, Links


def task_of(seeds):
    source = KnowledgeGraph.from_triples([("a1", "r", "a2")], ["a3"])
    target = KnowledgeGraph.from_triples([("b1", "r", "b2")], ["b3"])
    return AlignmentTask(source, target, Links.from_labels(*zip(*seeds, strict=True), source, target))


def test_seeds_are_not_gold(tmp_path):
    file = tmp_path / "links.tsv"
    file.write_text("a1\tb1\na2\tb2\na3\tb3\n")
    task = task_of([("a1", "b1")])
    gold = read_gold(file, task)
    assert gold == Links.from_labels(["a2", "a3"], ["b2", "b3"], task.source, task.target)
    with pytest.raises(InputError, match="every link is a seed"):
        read_gold(file, task_of([("a1", "b1"), ("a2", "b2"), ("a3", "b3")]))
