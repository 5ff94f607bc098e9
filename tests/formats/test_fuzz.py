"""Every reader reads a spoiled file or refuses it with an `InputError`; it never fails in another way.

`benchmarks/robustness/fuzz.py` does the same for a longer time.
"""

import random

import pytest

from divea import InputError
from tests.formats.mutations import good_files, spoil

TRIES = 60


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return good_files(tmp_path_factory.mktemp("good"))


def test_good_files_are_read(files):
    for _, given, _, read in files:
        assert read(given) is not None


@pytest.mark.parametrize("part", range(4))
def test_spoiled_files_are_read_or_refused(files, part):
    refused = 0
    for name, given, path, read in files[part::4]:
        good = path.read_bytes()
        # The name is the random seed: a failure can be repeated, and a new file does not change the others.
        chance = random.Random(name)
        try:
            for _ in range(TRIES):
                path.write_bytes(spoil(good, chance))
                try:
                    read(given)
                except InputError as error:
                    assert "\n" not in str(error).strip()
                    refused += 1
        finally:
            path.write_bytes(good)
    assert refused > TRIES
