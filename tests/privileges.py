"""Tests of files that may not be read have to work for root too, who may read everything."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_VERSION = 0x20080522
_OVERRIDE, _READ_SEARCH = 1, 2


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _Sets(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]


@contextmanager
def without_privileges() -> Iterator[None]:
    """Within the block, the permissions of files hold for root as they do for everyone else."""
    if os.geteuid() != 0 or sys.platform != "linux":
        yield
        return
    libc, header, sets = ctypes.CDLL(None, use_errno=True), _Header(_VERSION, 0), (_Sets * 2)()
    assert libc.capget(ctypes.byref(header), sets) == 0
    before = sets[0].effective
    sets[0].effective = before & ~(1 << _OVERRIDE | 1 << _READ_SEARCH)
    assert libc.capset(ctypes.byref(header), sets) == 0
    try:
        yield
    finally:
        sets[0].effective = before
        assert libc.capset(ctypes.byref(header), sets) == 0
