"""What every structure promises: its two readers agree, on any bytes."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ext4kit import parsers
from ext4kit.errors import CorruptError
from ext4kit.parsers.layout import Layout, Row
from ext4kit.parsers.words import Array, Bytes, Int8ul, Int16sl, Int32ub, Int32ul, Int64ub, Struct


def all_layouts() -> dict[str, Layout]:
    """Every module-level Layout of ext4kit.parsers, by module and name."""
    found = {}
    for module in pkgutil.iter_modules(parsers.__path__, f"{parsers.__name__}."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, Layout):
                found[f"{module.name.rsplit('.', 1)[1]}.{name}"] = value
    return found


LAYOUTS = all_layouts()
every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
SAMPLE = Layout(
    "sample",
    Struct(
        "small" / Int8ul,
        "wide" / Int64ub,
        "negative" / Int16sl,
        "raw" / Bytes(3),
        "many" / Array(2, Int32ul),
        "inner" / Struct("x" / Int32ub),
    ),
)


def plain(value: Any) -> Any:
    """A construct or NumPy value as plain integers, bytes, lists and dicts."""
    if isinstance(value, np.void | dict):
        names = value.dtype.names or () if isinstance(value, np.void) else value
        return {name: plain(value[name]) for name in names if name != "_io"}
    if isinstance(value, Row):
        return plain(value._row)
    if isinstance(value, bytes):
        return list(value)
    if isinstance(value, np.ndarray | list):
        return [plain(part) for part in value]
    return int(value)


def bytes_of(layout: Layout) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=layout.size, max_size=layout.size)


def test_the_layouts_are_found() -> None:
    assert {"xattr.XATTR_ENTRY", "htree.DX_ENTRY", "mmp.MMP", "acl.ACL_ENTRY"} <= set(LAYOUTS)


@every_layout
def test_dtype_and_struct_have_one_size(layout: Layout) -> None:
    assert layout.dtype.itemsize == layout.size == layout.construct.sizeof()


@every_layout
@settings(max_examples=15)
@given(data=st.data())
def test_what_was_parsed_builds_the_same_bytes(layout: Layout, data: st.DataObject) -> None:
    raw = data.draw(bytes_of(layout))
    assert layout.build(layout.parse(raw)) == raw


@every_layout
@settings(max_examples=15)
@given(data=st.data())
def test_the_numpy_view_equals_construct_field_by_field(
    layout: Layout, data: st.DataObject
) -> None:
    first, second = data.draw(bytes_of(layout)), data.draw(bytes_of(layout))
    rows = layout.table(b"?" + first + second, 2, offset=1)
    assert [plain(row) for row in rows] == [
        plain(layout.parse(first)),
        plain(layout.parse(second)),
    ]


@every_layout
@settings(max_examples=15)
@given(data=st.data())
def test_a_table_of_one_has_what_construct_reads(layout: Layout, data: st.DataObject) -> None:
    raw = b"?" + data.draw(bytes_of(layout)) + b"!"
    first, parsed = layout.first(raw, 1), layout.parse(raw, 1)
    for name in layout.dtype.names or ():
        value, wanted = first[name], parsed[name]
        assert plain(value) == plain(getattr(first, name)) == plain(wanted)
        assert isinstance(value, Row | list) or type(value) is type(wanted)


@every_layout
def test_a_word_for_a_field_that_is_none_is_an_error(layout: Layout) -> None:
    with pytest.raises(AttributeError):
        _ = layout.first(bytes(layout.size)).no_such_field


@given(data=st.data())
def test_numbers_are_read_by_sign_and_byte_order(data: st.DataObject) -> None:
    raw = data.draw(bytes_of(SAMPLE))
    expected = {
        "small": raw[0],
        "wide": int.from_bytes(raw[1:9], "big"),
        "negative": int.from_bytes(raw[9:11], "little", signed=True),
        "raw": list(raw[11:14]),
        "many": [int.from_bytes(raw[at : at + 4], "little") for at in (14, 18)],
        "inner": {"x": int.from_bytes(raw[22:26], "big")},
    }
    assert plain(SAMPLE.parse(raw)) == plain(SAMPLE.table(raw)[0]) == expected


@every_layout
def test_one_byte_too_few_is_a_corrupt_structure_by_name(layout: Layout) -> None:
    for read in (layout.parse, layout.first):
        with pytest.raises(CorruptError) as caught:
            read(bytes(layout.size + 2), offset=3)
        assert (caught.value.structure, caught.value.offset) == (layout.name, 3)


def test_a_table_that_the_data_cannot_hold_is_refused() -> None:
    with pytest.raises(CorruptError):
        SAMPLE.table(bytes(3 * SAMPLE.size - 1), 3)


def test_columns_read_one_structure_from_each_row() -> None:
    rows = np.arange(3 * 40, dtype=np.uint8).reshape(3, 40)
    columns = SAMPLE.columns(rows, offset=7)
    assert [plain(row) for row in columns] == [
        plain(SAMPLE.parse(row.tobytes(), 7)) for row in rows
    ]


def test_offsets_count_the_fields_in_front() -> None:
    assert [SAMPLE.offset_of(name) for name in ("small", "wide", "raw", "many", "inner")] == [
        0, 1, 11, 14, 22,
    ]  # fmt: skip
