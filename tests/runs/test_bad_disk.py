"""A disk that is full, breaks or loses its power at any system call costs no more than a restart.

`bad_disk.c` is compiled here and loaded into the process that writes, so it sees the calls of Python and of
Arrow alike.
"""

import errno
import random
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.runs.crashing import NOT_FIRED, Crasher
from tests.runs.tiny import tables

FAIL, SHORT, POWER = 1, 2, 3
MODES = {
    "no space left": (errno.ENOSPC, FAIL),
    "input/output error": (errno.EIO, FAIL),
    "short write": (errno.ENOSPC, SHORT),
    "power loss": (errno.EIO, POWER),
}

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler (cc)")


@pytest.fixture(scope="module")
def crash(tmp_path_factory):
    library = tmp_path_factory.mktemp("library") / "bad_disk.so"
    source = Path(__file__).with_name("bad_disk.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl", "-lpthread"], check=True)
    crasher = Crasher(library)
    yield crasher
    crasher.close()


@pytest.fixture(scope="module")
def undisturbed(crash, command, tmp_path_factory):
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    assert crash([*command, "--out", run]) == 0
    return tables(run)


def check_call(crash, command, undisturbed, run, call, mode):
    """Whether a run has a call of this number. If so, it fails, and the next start must end well."""
    error, how = MODES[mode]
    code = crash([*command, "--out", run], below=str(run), call=call, error=error, mode=how)
    if code == NOT_FIRED:
        return False
    if code == 0:
        # The call was not needed, such as a mkdir of a folder that exists: then nothing may be missing.
        assert tables(run) == undisturbed, (call, mode)
    else:
        assert code == (-signal.SIGKILL if how == POWER else 2), (call, mode, code)
    assert crash([*command, "--out", run]) == 0, (call, mode)
    assert tables(run) == undisturbed, (call, mode)
    shutil.rmtree(run)
    return True


@pytest.mark.parametrize("mode", MODES)
def test_a_run_survives_some_failing_calls(crash, command, undisturbed, tmp_path, mode):
    draw = random.Random(mode)
    for call in draw.sample(range(1, 150), 3):
        assert check_call(crash, command, undisturbed, tmp_path / "run", call, mode), call


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_run_survives_every_failing_call(crash, command, undisturbed, tmp_path, mode):
    call = 1
    while check_call(crash, command, undisturbed, tmp_path / "run", call, mode):
        call += 1
    print(f"{mode}: each of {call - 1} calls failed in turn")
    assert call > 150
