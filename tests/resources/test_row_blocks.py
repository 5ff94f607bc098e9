"""Blocks of rows in threads: every row once, and errors are raised."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divea.resources.row_blocks import for_row_blocks


@given(rows=st.integers(0, 50), size=st.integers(1, 60), threads=st.integers(1, 5))
def test_every_row_is_in_one_block(rows, size, threads):
    seen = np.zeros(rows, dtype=int)

    def work(block):
        assert 0 < block.stop - block.start <= size
        seen[block] += 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("divea.resources.row_blocks.cores", lambda: threads)
        for_row_blocks(work, rows, size)
    assert (seen == 1).all()


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_in_a_block_is_raised(threads, monkeypatch):
    monkeypatch.setattr("divea.resources.row_blocks.cores", lambda: threads)

    def work(block):
        if block.start == 4:
            raise ValueError("block 4")

    with pytest.raises(ValueError, match="block 4"):
        for_row_blocks(work, 10, 2)
