"""Task and division folders with random damage are read or refused; a sample of `fuzz_folders`."""

import random
import shutil
import subprocess
import sys

import pytest

from benchmarks.robustness.fuzz_folders import damage
from divea import InputError
from divea.division import DivEA, load_division, write_division
from divea.graphs import load_task, save_task
from divea.graphs.synth import SynthConfig, synthesise

TRIES = 60


def count_refused(good, kind, read):
    """How many of the damaged copies of a folder are refused."""
    chance, refused = random.Random(kind), 0
    copy = good.with_name("copy")
    for _ in range(TRIES):
        shutil.copytree(good, copy)
        what = damage(copy, chance)
        try:
            read(copy)
        except InputError as error:
            assert "\n" not in str(error), what
            refused += 1
        finally:
            shutil.rmtree(copy)
    return refused


def test_folders_with_random_damage_are_read_or_refused(tmp_path):
    task = synthesise(SynthConfig(entities=120)).task
    save_task(task, tmp_path / "task")
    assert count_refused(tmp_path / "task", "task", load_task) > TRIES // 2
    write_division(DivEA(2, 150).divide(task), task, tmp_path / "division", layouts=[])
    found = count_refused(tmp_path / "division", "division", lambda copy: load_division(copy, task))
    assert found > TRIES // 2


@pytest.mark.slow
def test_signed_folders_with_random_damage_are_opened_by_the_commands_or_refused():
    command = [sys.executable, "-m", "benchmarks", "run", "fuzz_folders", "--tries", "40"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
