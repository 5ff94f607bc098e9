"""Settings of the executor: names, ranges, and options that only some executors have."""

import pytest

from divea.config.executor import ExecutorSettings
from divea.errors import InputError


def test_the_bare_name_may_stand_for_the_settings():
    assert ExecutorSettings.checked("local") == ExecutorSettings(name="local")
    assert ExecutorSettings() == ExecutorSettings(name="auto")
    assert ExecutorSettings(name="ray", workers=4, address="auto", gpu_share=0.25, timeout=60.0).workers == 4


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "slurm"}, "executor.name: unknown executor 'slurm'; choose from auto, inline, local, ray"),
        ({"worker": 4}, "executor.worker: unknown setting; did you mean 'workers'?"),
        ({"workers": 0}, "executor.workers: expected an integer from 1 to 100000, or null; found 0"),
        ({"workers": True}, "executor.workers: expected an integer from 1 to 100000, or null; found true"),
        ({"workers": 10**30}, "executor.workers: expected an integer from 1 to 100000, or null; found 10000"),
        ({"timeout": 0}, "executor.timeout: expected a number, above 0, or null; found 0"),
        ({"timeout": float("nan")}, "executor.timeout: expected a number, above 0, or null; found nan"),
        (
            {"name": "ray", "gpu_share": 1.5},
            "executor.gpu_share: expected a number, above 0, at most 1; found 1.5",
        ),
        ({"address": "auto"}, "executor.address has no effect: the executor is 'auto'"),
        ({"name": "local", "gpu_share": 0.5}, "executor.gpu_share has no effect: the executor is 'local'"),
        (
            {"name": "inline", "workers": 2},
            "executor.workers has no effect: the executor 'inline' is this process",
        ),
        (
            {"name": "inline", "timeout": 9.0},
            "executor.timeout has no effect: the executor 'inline' cannot stop a job",
        ),
    ],
    ids=str,
)
def test_wrong_settings_of_the_executor_are_refused_in_one_line(values, message):
    with pytest.raises(InputError) as refused:
        ExecutorSettings.checked(values)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)
