"""How often the system ended a process for lack of memory, as control groups of both versions count it."""

import pathlib

import pytest

from divea.resources import machine

EVENTS = "low 0\nhigh 0\nmax 12\noom 4\noom_kill 3\n"
CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        pytest.param("0::/a/b\n", {"sys/fs/cgroup/a/b/memory.events": EVENTS}, 3, id="version 2"),
        pytest.param("0::/\n", {"sys/fs/cgroup/memory.events": EVENTS}, 3, id="version 2 in a container"),
        pytest.param("0::/\n", {}, 0, id="the root group, which counts nothing"),
        pytest.param(
            "9:cpu:/a\n4:memory:/a\n0::/\n",
            {"sys/fs/cgroup/memory/a/memory.oom_control": CONTROL},
            5,
            id="version 1",
        ),
        pytest.param(
            "4:memory:/docker/a\n",
            {"sys/fs/cgroup/memory/memory.oom_control": CONTROL},
            5,
            id="version 1 in a container",
        ),
        pytest.param(
            "4:memory:/a\n",
            {"sys/fs/cgroup/memory/a/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n"},
            0,
            id="an old system, which does not count",
        ),
        pytest.param(None, {}, 0, id="no Linux"),
    ],
)
def test_kills_are_read_from_the_group_of_this_process(tmp_path, monkeypatch, groups, files, expected):
    if groups is not None:
        files = {**files, "proc/self/cgroup": groups}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(machine, "Path", lambda *parts: tmp_path / pathlib.Path(*parts).relative_to("/"))
    assert machine.oom_kills() == expected
