"""Whether models give the same bits again on this device, and whether they keep the contract there.

python benchmarks/gpu_repeats.py ../shared/data/dbp15k/zh_en [--device cuda]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from divea.formats import read_task
from divea.models import check_model, resolve_model

SHORT: dict[str, dict[str, object]] = {
    "rrea": {"steps": 40},
    "gcn-align": {"steps": 200},
    "dual-amn": {"steps": 20},
    "label-propagation": {"rounds": 2},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    task = read_task(arguments.folder, seeds=arguments.folder / "splits/20/0/sup_ent_ids")
    for name, options in SHORT.items():
        model = resolve_model(name, **options)
        first = model.embed(task, seed=1, device=arguments.device)
        again = model.embed(task, seed=1, device=arguments.device)
        same = first.source.equal(again.source) and first.target.equal(again.target)
        try:
            check_model(model, device=arguments.device)
            kept = "kept"
        except AssertionError as error:
            kept = f"BROKEN: {error}"
        print(f"{arguments.device} {name} {options}: same bits again {same}, contract {kept}", flush=True)


if __name__ == "__main__":
    main()
