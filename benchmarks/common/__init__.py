"""What all benchmarks share: measuring, data, held-out seeds, options, figures and records.

A benchmark is a module `benchmarks/KIND/NAME.py` with a docstring and three names:

    NEEDS                   the data, hardware and time that it needs
    add_options(parser)     adds its own options
    run(options)            measures, and returns `Figures`
"""

from benchmarks.common import by_sorting
from benchmarks.common.data import (
    DBP15K,
    LARGE_SIZES,
    SETS,
    SMALL_SIZES,
    DataSet,
    held_out_seeds,
    synthetic_pair,
    task_and_links,
    task_for,
    validation_folds,
)
from benchmarks.common.figures import Figures, Table, Value, shown
from benchmarks.common.measuring import (
    MIB,
    Measurement,
    Rounds,
    Spread,
    clock,
    in_turns,
    measure,
    measure_in_child,
)
from benchmarks.common.options import (
    LIGHTEA,
    Needs,
    add_data,
    add_device,
    add_links,
    add_models,
    add_pairs,
    add_random_seed,
    add_rounds,
    add_settings,
    make_models,
)
from benchmarks.common.progress import say
from benchmarks.common.records import make_record, write_record

__all__ = [
    "DBP15K",
    "LARGE_SIZES",
    "LIGHTEA",
    "MIB",
    "SETS",
    "SMALL_SIZES",
    "DataSet",
    "Figures",
    "Measurement",
    "Needs",
    "Rounds",
    "Spread",
    "Table",
    "Value",
    "add_data",
    "add_device",
    "add_links",
    "add_models",
    "add_pairs",
    "add_random_seed",
    "add_rounds",
    "add_settings",
    "by_sorting",
    "clock",
    "held_out_seeds",
    "in_turns",
    "make_models",
    "make_record",
    "measure",
    "measure_in_child",
    "say",
    "shown",
    "synthetic_pair",
    "task_and_links",
    "task_for",
    "validation_folds",
    "write_record",
]
