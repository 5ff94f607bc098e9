"""A small data set in the layout of DBP15K, with splits."""

from pathlib import Path

import numpy as np

from divea.formats import write_task
from divea.graphs import AlignmentTask, Links
from divea.graphs.synth import SynthConfig, synthesise

SPLITS = {(5, 0): 0.05, (20, 0): 0.2, (20, 1): 0.2, (30, 0): 0.3}


def write_data(folder: Path, pair: str = "ab_cd", entities: int = 120) -> Path:
    made = synthesise(SynthConfig(entities=entities))
    links = Links.from_pairs(np.concatenate([made.task.seeds.pairs, made.gold.pairs]))
    write_task(AlignmentTask(made.task.source, made.task.target, links), folder / pair, "jape")
    seeds = folder / pair / "sup_ent_ids"
    lines = seeds.read_text().splitlines(keepends=True)
    seeds.unlink()
    for (percent, split), share in SPLITS.items():
        own = folder / pair / "splits" / str(percent) / str(split)
        own.mkdir(parents=True)
        drawn = np.random.default_rng([percent, split]).permutation(lines)
        count = round(share * len(lines))
        (own / "sup_ent_ids").write_text("".join(drawn[:count]))
        (own / "ref_ent_ids").write_text("".join(drawn[count:]))
    return folder
