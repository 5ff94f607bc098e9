"""Evaluation: the only code that sees gold. Nothing that predicts may import it."""

from divea.evaluation.alignment import AlignmentMetrics, GivenPairs, evaluate_alignment, judge
from divea.evaluation.coverage import Coverage, coverage
from divea.evaluation.gold import read_gold
from divea.evaluation.metrics import PairedTest, PairMetrics, RankMetrics, pair_metrics, paired_t_test
from divea.evaluation.ranking import gold_ranks, listed_ranks

__all__ = [
    "AlignmentMetrics",
    "Coverage",
    "GivenPairs",
    "PairMetrics",
    "PairedTest",
    "RankMetrics",
    "coverage",
    "evaluate_alignment",
    "gold_ranks",
    "judge",
    "listed_ranks",
    "pair_metrics",
    "paired_t_test",
    "read_gold",
]
