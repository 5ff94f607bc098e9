"""Coverage counts the gold links that the subtasks of a division can find."""

from divea.config import DivisionSettings
from divea.division import CPS, DivEA, Whole
from divea.evaluation import coverage
from divea.graphs import Links
from divea.graphs.planted import planted_pair


def test_coverage_is_counted_link_by_link():
    pair = planted_pair(random_seed=2)
    for strategy in (Whole(), CPS(4, 0), DivEA(4, 60, DivisionSettings(), 0, "cpu")):
        division = strategy.divide(pair.task)
        covered, together = 0, 0
        for source, target in pair.gold.pairs.tolist():
            covered += any(
                source in subtask.unmatched and target in subtask.candidates for subtask in division.subtasks
            )
            together += any(
                source in subtask.source_entities and target in subtask.target_entities
                for subtask in division.subtasks
            )
        found = coverage(division, pair.gold)
        assert (found.links, found.covered, found.together) == (len(pair.gold), covered, together)
        assert (found.share, found.share_together) == (covered / found.links, together / found.links)
        assert sum(found.covered_by_subtask) == covered
        # Every source without a seed is matched by one subtask.
        assert sum(found.links_by_subtask) == len(pair.gold)


def test_coverage_of_no_links_is_zero():
    pair = planted_pair(random_seed=2)
    found = coverage(Whole().divide(pair.task), Links.from_pairs(pair.gold.pairs[:0]))
    assert (found.share, found.share_together) == (0, 0)
