"""Feeds spoiled files to every reader for a while; any exception but InputError is a bug.

python benchmarks/fuzz.py --seconds 60
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from divea import InputError
from tests.formats.mutations import good_files, spoil


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="time for each file kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="file kinds whose name starts so")
    options = parser.parse_args()
    bugs = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, given, path, read in good_files(Path(folder)):
            if not name.startswith(options.only):
                continue
            good = path.read_bytes()
            chance = random.Random(f"{name} {options.seed}")
            tries = refused = 0
            stop = time.monotonic() + options.seconds
            while time.monotonic() < stop:
                data = spoil(good, chance)
                path.write_bytes(data)
                tries += 1
                try:
                    read(given)
                except InputError:
                    refused += 1
                except Exception:
                    bugs += 1
                    print(f"BUG in {name}: {data!r}")
                    traceback.print_exc()
                    break
            path.write_bytes(good)
            print(f"{name}: {tries} spoiled files, {refused} refused, {tries - refused} read", flush=True)
    print(f"{bugs} bugs")
    return 1 if bugs else 0


if __name__ == "__main__":
    sys.exit(main())
