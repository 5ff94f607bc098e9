"""The compact protocol of Thrift, in which the footer and the page headers of a Parquet file are written.

Values that have no meaning here, such as text, stay bytes; what was read can be written again.
"""

from __future__ import annotations

from typing import Any

DEEPEST = 12
"""The most levels of structures and lists; the Parquet format has about half of that."""

_TRUE, _FALSE, _I8, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = (*range(1, 11), 12)


class Struct(dict[int, Any]):
    """The values of a structure, by the numbers of its fields."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: dict[int, int] = {}


class List(list[Any]):
    """The values of a list."""

    def __init__(self, kind: int):
        super().__init__()
        self.kind = kind


def read_struct(data: bytes, at: int = 0, levels: int = DEEPEST) -> tuple[Struct, int]:
    """The structure at this position, and where it ends.

    Raises IndexError if the data ends before it does. Raises ValueError for what no writer has a reason to
    write, such as a field that appears twice: parsers may differ in how they understand it.

    >>> fields, end = read_struct(bytes([0x15, 4, 0x25, 3, 0]))
    >>> fields, end
    ({1: 2, 3: -2}, 5)
    """
    fields = Struct()
    number = 0
    while data[at]:
        step, kind = data[at] >> 4, data[at] & 15
        at += 1
        if step:
            number += step
        else:
            number, at = _integer(data, at)
        if number in fields or not 0 < number < 1 << 15:
            raise ValueError("a wrong number of a field")
        fields.kinds[number] = kind
        if kind in (_TRUE, _FALSE):
            fields[number] = kind == _TRUE
        else:
            fields[number], at = _value(data, at, kind, levels)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, levels: int) -> tuple[Any, int]:
    """A value of this kind, and where it ends; its bytes if it is no number, structure or list."""
    if not levels:
        raise ValueError("nested too deeply")
    if kind in (_I16, _I32, _I64):
        value, at = _integer(data, at)
        if kind != _I64 and not -(1 << 31) <= value < 1 << 31:
            raise ValueError("an integer of more than 32 bits")
        return value, at
    if kind == _STRUCT:
        return read_struct(data, at, levels - 1)
    if kind in (_LIST, _SET):
        return _list(data, at, levels - 1)
    length = {_TRUE: 1, _FALSE: 1, _I8: 1, _DOUBLE: 8}.get(kind)
    if kind == _BINARY:
        length, at = _varint(data, at)
    if length is None:
        raise ValueError("a kind of value that Parquet does not have")
    if at + length > len(data):
        raise IndexError("the data ends before the value does")
    return data[at : at + length], at + length


def _list(data: bytes, at: int, levels: int) -> tuple[List, int]:
    count, kind = data[at] >> 4, data[at] & 15
    at += 1
    if count == 15:
        count, at = _varint(data, at)
    values = List(kind)
    for _ in range(count):
        value, at = _value(data, at, kind, levels)
        values.append(value)
    return values, at


def _integer(data: bytes, at: int) -> tuple[int, int]:
    """A signed number: its sign is the lowest bit."""
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            if value >= 1 << 64:
                break
            return value, at
    raise ValueError("an integer of more than 64 bits")


def write_struct(fields: Struct) -> bytes:
    """The bytes of a structure that was read, with the values that it has now.

    >>> data = bytes([0x15, 4, 0x25, 3, 0])
    >>> write_struct(read_struct(data)[0]) == data
    True
    """
    written = bytearray()
    last = 0
    for number, value in fields.items():
        kind = fields.kinds[number]
        if kind in (_TRUE, _FALSE):
            kind = _TRUE if value else _FALSE
        step = number - last
        written += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + _of_integer(number)
        if kind not in (_TRUE, _FALSE):
            written += _of_value(value, kind)
        last = number
    return bytes(written) + b"\0"


def _of_value(value: Any, kind: int) -> bytes:
    if kind in (_I16, _I32, _I64):
        return _of_integer(value)
    if kind == _STRUCT:
        return write_struct(value)
    if kind in (_LIST, _SET):
        count = len(value)
        start = bytes([count << 4 | value.kind] if count < 15 else [15 << 4 | value.kind])
        start += b"" if count < 15 else _of_varint(count)
        return start + b"".join(_of_value(item, value.kind) for item in value)
    return (_of_varint(len(value)) if kind == _BINARY else b"") + bytes(value)


def _of_integer(value: int) -> bytes:
    return _of_varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _of_varint(value: int) -> bytes:
    groups = bytearray()
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])
