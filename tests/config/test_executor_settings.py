"""Settings of the executor: names, ranges, and options that only some executors have."""

import pytest

from divea.config.executor import ExecutorSettings
from divea.errors import InputError


def test_the_bare_name_may_stand_for_the_settings():
    assert ExecutorSettings.checked("local") == ExecutorSettings(name="local")
    assert ExecutorSettings() == ExecutorSettings(name="auto")
    assert ExecutorSettings(name="ray", workers=4, address="auto", gpu_share=0.25, timeout=60.0).workers == 4


@pytest.mark.parametrize(
    "address", ["auto", "host:6379", "192.0.2.2:6379", "[::1]:6379", "a.b-c.example:1024"]
)
def test_addresses_of_ray_are_accepted(address):
    assert ExecutorSettings(name="ray", address=address).address == address


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "slurm"}, "executor.name: unknown executor 'slurm'; choose from auto, inline, local, ray"),
        ({"worker": 4}, "executor.worker: unknown setting; did you mean 'workers'?"),
        ({"workers": 0}, "executor.workers: expected an integer from 1 to 100000, or null; found 0"),
        ({"workers": True}, "executor.workers: expected an integer from 1 to 100000, or null; found true"),
        ({"workers": 10**30}, "executor.workers: expected an integer from 1 to 100000, or null; found 10000"),
        ({"timeout": 0}, "executor.timeout: expected a number, above 0, at most 31536000, or null; found 0"),
        (
            {"timeout": float("nan")},
            "executor.timeout: expected a number, above 0, at most 31536000, or null; found nan",
        ),
        (
            {"timeout": float("inf")},
            "executor.timeout: expected a number, above 0, at most 31536000, or null",
        ),
        ({"timeout": 1e300}, "executor.timeout: expected a number, above 0, at most 31536000, or null"),
        ({"timeout": -1}, "executor.timeout: expected a number, above 0, at most 31536000, or null"),
        *(
            (
                {"name": "ray", "address": address},
                "executor.address: expected auto, or host:port with a port from 1024 to 65535; found",
            )
            for address in (
                "",
                "garbage",
                "host:",
                ":6379",
                "host:70000",
                "host:80",
                "ray://host:10001",
                "a b:6379",
                "local",
                "host:6379\n",
            )
        ),
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
