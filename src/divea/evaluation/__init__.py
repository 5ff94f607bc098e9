"""Evaluation: the only code that sees gold links. Code that predicts must not import it."""

from divea.evaluation.alignment import AlignmentMetrics, AssignedPairMetrics, evaluate_alignment, judge
from divea.evaluation.coverage import Coverage, coverage
from divea.evaluation.curve import TrueCurve, true_curve
from divea.evaluation.gold import read_gold
from divea.evaluation.metrics import PairedTest, RankMetrics, paired_t_test
from divea.evaluation.ranking import gold_ranks, listed_ranks

__all__ = [
    "AlignmentMetrics",
    "AssignedPairMetrics",
    "Coverage",
    "PairedTest",
    "RankMetrics",
    "TrueCurve",
    "coverage",
    "evaluate_alignment",
    "gold_ranks",
    "judge",
    "listed_ranks",
    "paired_t_test",
    "read_gold",
    "true_curve",
]
