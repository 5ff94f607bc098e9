"""Files that are written whole or not at all, checksums, and files of JSON lines."""

import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divea.errors import InputError
from divea.io import (
    append_line,
    checksum,
    cut_torn_line,
    file_checksum,
    new_file,
    new_folder,
    read_lines,
    reported,
    sweep,
    temporary_path,
)


def names(folder):
    """Everything in a folder, hidden files too."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture
def synced(monkeypatch):
    """The paths that were forced to the disk, in order."""
    paths = []

    def record(handle):
        paths.append(Path(f"/proc/self/fd/{handle}").readlink())

    monkeypatch.setattr(os, "fsync", record)
    return paths


@pytest.fixture
def full_disk(monkeypatch):
    def fail(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)


# Files.


def test_a_file_appears_when_it_is_complete(tmp_path):
    with new_file(tmp_path / "a" / "b.txt") as temporary:
        temporary.write_text("text")
        assert not (tmp_path / "a" / "b.txt").exists()
    assert (tmp_path / "a" / "b.txt").read_text() == "text"
    assert names(tmp_path) == ["a", "a/b.txt"]


def test_a_file_is_replaced_when_the_new_one_is_complete(tmp_path):
    (tmp_path / "a.txt").write_text("old")
    with new_file(tmp_path / "a.txt") as temporary:
        temporary.write_text("new")
        assert (tmp_path / "a.txt").read_text() == "old"
    assert (tmp_path / "a.txt").read_text() == "new"


def test_the_temporary_file_is_beside_the_final_one_and_has_its_suffixes(tmp_path):
    """A rename is atomic only within a file system, and writers choose formats by suffixes."""
    with new_file(tmp_path / "a.tsv.gz") as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffixes[-2:] == [".tsv", ".gz"]
        temporary.touch()


def test_a_file_is_forced_to_the_disk_before_it_is_renamed_and_its_folder_afterwards(tmp_path, synced):
    with new_file(tmp_path / "a.txt") as temporary:
        temporary.write_text("text")
    assert synced == [temporary, tmp_path]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, InputError])
def test_a_file_stays_as_it_was_if_writing_raises(tmp_path, error):
    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(error, match="bad luck"), new_file(tmp_path / "a.txt") as temporary:
        temporary.write_text("half")
        raise error("bad luck")
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_file_stays_as_it_was_if_the_disk_is_full(tmp_path, full_disk):
    (tmp_path / "a.txt").write_text("old")
    message = r"a\.txt: cannot be written: No space left on device$"
    with pytest.raises(InputError, match=message), new_file(tmp_path / "a.txt") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_file_that_was_not_written_is_an_error(tmp_path):
    with pytest.raises(InputError, match="No such file"), new_file(tmp_path / "a.txt"):
        pass
    assert names(tmp_path) == []


def test_a_folder_is_not_replaced_by_a_file(tmp_path):
    with pytest.raises(InputError, match="is a folder; name a file to write"), new_file(tmp_path):
        pass


def test_a_file_below_another_file_is_an_error_of_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(InputError, match=r"cannot be written: (File exists|Not a directory)"),
        new_file(tmp_path / "file" / "a.txt"),
    ):
        pass
    assert names(tmp_path) == ["file"]


# Folders.


def test_a_folder_appears_when_it_is_complete(tmp_path):
    with new_folder(tmp_path / "a" / "b") as temporary:
        (temporary / "inner").mkdir()
        (temporary / "inner" / "c.txt").write_text("text")
        assert not (tmp_path / "a" / "b").exists()
    assert (tmp_path / "a" / "b" / "inner" / "c.txt").read_text() == "text"
    assert names(tmp_path) == ["a", "a/b", "a/b/inner", "a/b/inner/c.txt"]


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "a").mkdir()
    with new_folder(tmp_path / "a") as temporary:
        (temporary / "b.txt").write_text("text")
    assert names(tmp_path) == ["a", "a/b.txt"]


def test_everything_in_a_folder_is_forced_to_the_disk_before_it_is_renamed(tmp_path, synced):
    with new_folder(tmp_path / "a") as temporary:
        (temporary / "inner").mkdir()
        (temporary / "inner" / "c.txt").write_text("text")
    inside = {temporary, temporary / "inner", temporary / "inner" / "c.txt"}
    assert {*synced[:-1]} == inside
    assert synced[-1] == tmp_path


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, InputError])
def test_nothing_is_left_of_a_folder_if_filling_it_raises(tmp_path, error):
    with pytest.raises(error, match="bad luck"), new_folder(tmp_path / "a") as temporary:
        (temporary / "b.txt").write_text("half")
        raise error("bad luck")
    assert names(tmp_path) == []


def test_nothing_is_left_of_a_folder_if_the_disk_is_full(tmp_path, full_disk):
    message = r"a: cannot be written: No space left on device$"
    with pytest.raises(InputError, match=message), new_folder(tmp_path / "a") as temporary:
        (temporary / "b.txt").write_text("text")
    assert names(tmp_path) == []


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_exists_is_not_replaced_by_a_folder(tmp_path, kind):
    if kind == "folder":
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "precious").write_text("mine")
    else:
        (tmp_path / "a").write_text("mine")
    before = names(tmp_path)
    with (
        pytest.raises(InputError, match="exists already and is not empty; name a new folder"),
        new_folder(tmp_path / "a"),
    ):
        pass
    assert names(tmp_path) == before


@pytest.mark.parametrize("is_link", [False, True])
def test_a_pipe_or_device_is_not_replaced_by_a_file(tmp_path, is_link):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    output = pipe
    if is_link:
        output = tmp_path / "link"
        output.symlink_to(pipe)
    with pytest.raises(InputError, match="is not a regular file"), new_file(output) as temporary:
        temporary.write_text("text")
    assert pipe.is_fifo() and output.is_symlink() == is_link and len(names(tmp_path)) == 1 + is_link


# What killed processes leave behind.


def test_sweep_removes_temporary_files_and_folders_only(tmp_path):
    (tmp_path / "inner").mkdir()
    kept = ["a.txt", ".hidden", ".my.partial.notes", ".divea-partial-mine.txt", "inner/b.txt"]
    for name in kept:
        (tmp_path / name).write_text("mine")
    temporary_path(tmp_path / "a.txt").write_text("half")
    folder = temporary_path(tmp_path / "folder")
    folder.mkdir()
    temporary_path(folder / "c").write_text("half")
    sweep(tmp_path)
    assert names(tmp_path) == sorted([*kept, "inner"])


def test_sweep_removes_what_an_interrupted_writer_leaves(tmp_path):
    """The names that the writers choose are those that are swept."""
    with new_file(tmp_path / "a.txt") as temporary:
        temporary.write_text("text")
        shutil.copy(temporary, tmp_path / "copy")
    shutil.move(tmp_path / "copy", temporary)
    sweep(tmp_path)
    assert names(tmp_path) == ["a.txt"]


def test_sweep_does_not_follow_links(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("mine")
    swept = tmp_path / "swept"
    swept.mkdir()
    temporary_path(swept / "link").symlink_to(elsewhere)
    sweep(swept)
    assert names(swept) == []
    assert names(elsewhere) == ["precious"]


def test_errors_of_the_system_become_one_line(tmp_path):
    with (
        pytest.raises(InputError, match=r"a: cannot be written: Permission denied$") as found,
        reported(Path("a")),
    ):
        raise PermissionError(errno.EACCES, "Permission denied", "a")
    assert found.value.path == Path("a")
    with pytest.raises(InputError, match="cannot be written: without a number"), reported(tmp_path):
        raise OSError("without a number")
    with pytest.raises(ValueError, match="not of the system"), reported(tmp_path):
        raise ValueError("not of the system")


# Checksums.


def test_the_checksum_of_a_file_depends_on_its_bytes_alone(tmp_path):
    for name, data in {"a": b"same", "b": b"same", "c": b"other", "d": b""}.items():
        (tmp_path / name).write_bytes(data)
    a, b, c, d = (file_checksum(tmp_path / name) for name in "abcd")
    assert a == b
    assert len({a, c, d}) == 3


def test_a_file_that_cannot_be_read_has_no_checksum(tmp_path):
    assert file_checksum(tmp_path / "missing") is None


text_or_array = st.one_of(
    st.text(max_size=4), st.binary(max_size=4).map(lambda b: np.frombuffer(b, np.uint8))
)


def as_bytes(part):
    return part.encode() if isinstance(part, str) else part.tobytes()


@given(st.lists(text_or_array, max_size=4), st.lists(text_or_array, max_size=4))
def test_sequences_have_the_same_checksum_only_if_their_parts_have_the_same_bytes(one, other):
    same = list(map(as_bytes, one)) == list(map(as_bytes, other))
    assert (checksum(*one) == checksum(*other)) == same


def test_the_checksum_of_an_array_does_not_depend_on_its_layout():
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    assert checksum(array[:, ::2]) == checksum(array[:, ::2].copy())
    assert checksum(np.asfortranarray(array)) == checksum(array)
    assert checksum(array) != checksum(array + 1)


# Files of JSON lines.


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
lines = st.dictionaries(st.text(max_size=4), values, max_size=3)


@settings(max_examples=50)
@given(st.lists(lines, max_size=4), st.integers(0, 200))
def test_a_torn_file_loses_lines_only_from_its_end(tmp_path_factory, written, cut):
    path = tmp_path_factory.mktemp("lines") / "lines.jsonl"
    for line in written:
        append_line(path, line, durable=False)
    assert read_lines(path) == written
    data = path.read_bytes() if written else b""
    path.write_bytes(data[:cut])
    left = read_lines(path)
    assert left == written[: data[:cut].count(b"\n")]
    cut_torn_line(path)
    append_line(path, {"new": 1}, durable=False)
    assert read_lines(path) == [*left, {"new": 1}]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b"{}{}",
        b"[" * 10_000,
        b'{"a": %s}' % (b"9" * 5000),
    ],
    ids=["empty", "torn", "list", "number", "null", "text", "bytes", "two", "deep", "huge"],
)
def test_lines_that_hold_no_object_are_left_out(tmp_path, line):
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b"\n".join([line, b'{"a": 1}', line, b'{"b": 2}', b""]))
    assert read_lines(path) == [{"a": 1}, {"b": 2}]


def test_a_file_that_does_not_exist_has_no_lines(tmp_path):
    assert read_lines(tmp_path / "missing.jsonl") == []
    assert read_lines(tmp_path) == []


def test_a_line_is_forced_to_the_disk_if_that_is_asked_for(tmp_path, synced):
    path = tmp_path / "lines.jsonl"
    append_line(path, {"a": 1}, durable=False)
    assert synced == []
    append_line(path, {"b": 2}, durable=True)
    assert synced == [path]
    assert read_lines(path) == [{"a": 1}, {"b": 2}]


def test_a_line_that_cannot_be_written_is_an_error_of_one_line(tmp_path, full_disk):
    with pytest.raises(InputError, match=r"cannot be written: No such file"):
        append_line(tmp_path / "missing" / "lines.jsonl", {}, durable=False)
    with pytest.raises(InputError, match=r"cannot be written: No space left on device"):
        append_line(tmp_path / "lines.jsonl", {}, durable=True)


@pytest.mark.parametrize(
    ("text", "left"),
    [("", ""), ("torn", ""), ("{}\n", "{}\n"), ("{}\n\n", "{}\n\n"), ('{}\n{"a"', "{}\n"), ("\ntorn", "\n")],
)
def test_what_follows_the_last_line_break_is_cut(tmp_path, text, left):
    path = tmp_path / "lines.jsonl"
    path.write_text(text)
    cut_torn_line(path)
    assert path.read_text() == left


def test_a_file_that_does_not_exist_is_not_cut(tmp_path):
    cut_torn_line(tmp_path / "missing.jsonl")
    assert names(tmp_path) == []
