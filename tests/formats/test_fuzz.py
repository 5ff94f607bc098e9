"""Every reader reads a spoiled file or refuses it with an `InputError`; it never fails in another way.

`benchmarks/robustness/fuzz.py` does the same for a longer time.
"""

import random
import time

import pytest

from divea import InputError
from tests.formats.mutations import good_files, spoil

TRIES = 60
SECONDS = 60


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return good_files(tmp_path_factory.mktemp("good"))


def test_good_files_are_read(files):
    for _, given, _, read in files:
        assert read(given) is not None


def count_refused(file, tries, until=float("inf")):
    """Read a file spoiled in many ways, until a time; returns how many tries there were, and refusals."""
    name, given, path, read = file
    good = path.read_bytes()
    # The name is the random seed: a failure can be repeated, and a new file does not change the others.
    chance = random.Random(f"{name} {tries}")
    tried = refused = 0
    try:
        while tried < tries and time.monotonic() < until:
            tried += 1
            path.write_bytes(spoil(good, chance))
            try:
                read(given)
            except InputError as error:
                assert "\n" not in str(error).strip()
                refused += 1
    finally:
        path.write_bytes(good)
    return tried, refused


@pytest.mark.parametrize("part", range(4))
def test_spoiled_files_are_read_or_refused(files, part):
    assert sum(count_refused(file, TRIES)[1] for file in files[part::4]) > TRIES


@pytest.mark.slow
def test_every_reader_withstands_a_minute_of_spoiled_files(files):
    """One reader after the other; a task folder is one reader, whichever of its files is spoiled."""
    readers = {}
    for file in files:
        readers.setdefault(file[0] if file[1] == file[2] else file[0].split()[0], []).append(file)
    for name, own in readers.items():
        tried = refused = 0
        for file in own:
            counts = count_refused(file, 10**9, time.monotonic() + SECONDS / len(own))
            tried, refused = tried + counts[0], refused + counts[1]
        print(f"{name}: {tried} tries, {refused} refused")
        assert refused
