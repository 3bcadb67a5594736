"""Directories that go on in an attribute of their inode, while fast commits change them.

Written by hand, as no tool without a mount makes them: 60 bytes in i_block, of which the first four
name the parent, and the value of `system.data` behind the inode's fields. e2fsck judges.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.journal.fast_commit_images import replayed as view_of
from tests.journal.kernel_log import opened, run
from tests.journal.test_directory_records import record
from tests.journal.written_fast_commits import (
    INLINE,
    LINK,
    UNLINK,
    Written,
    entry,
    make,
    names,
)

pytestmark = pytest.mark.heavy

ROOT, SIZE = 2, 512  # of an inode
BODY = 128 + 32  # where attributes begin: behind i_extra_isize
NAMES = (b"first", b"second file", b"third", b"fourth")


def attribute(index: int, name: bytes, offset: int, size: int) -> bytes:
    """One entry: lengths, place and size of the value, no hash."""
    row = struct.pack("<BBHIII", len(name), index, offset, 0, size, 0) + name
    return row.ljust(-(-len(row) // 4) * 4, b"\0")


@pytest.fixture
def made(tmp_path: Path) -> Written:
    """A directory `some` with two names in i_block, two in the attribute, and another attribute."""
    tree = tmp_path / "tree"
    (tree / "some").mkdir(parents=True)
    for name in NAMES:
        (tree / name.decode()).write_bytes(b"x" * 2000)
    image = make(tmp_path, "-b 1024 -O inline_data,^metadata_csum -I 512", tree)
    image.change(*(f'sif "/{name.decode()}" links_count 2' for name in NAMES))
    write_directory(image)
    return image


def write_directory(made: Written, size: int = 60 + 60, body: bytes | None = None) -> None:
    one, two, three, four = (made.number(f'"/{name.decode()}"') for name in NAMES)
    place = made.place(made.number("/some"))
    raw = bytearray(made.read(place, SIZE))
    assert struct.unpack_from("<I", raw, 32)[0] & INLINE
    struct.pack_into("<I", raw, 4, size)
    raw[40:100] = struct.pack("<I", ROOT) + record(one, 16, NAMES[0]) + record(two, 40, NAMES[1])
    value = record(three, 16, NAMES[2]) + record(four, 44, NAMES[3])
    room = SIZE - BODY - 4
    area = attribute(7, b"data", room - 60, 60) + attribute(1, b"mine", room - 72, 10) + bytes(4)
    area = area.ljust(room - 72, b"\0") + b"kept as is".ljust(12, b"\0") + value
    raw[BODY:] = struct.pack("<I", 0xEA020000) + area if body is None else body
    made.write(place, bytes(raw))


def test_names_in_both_parts_are_there(made: Written) -> None:
    fs = opened(made.image)
    assert names(fs, b"/some") == {name.decode() for name in NAMES}
    assert run("e2fsck", "-fn", made.image)
    assert "kept as is" in made.debugfs("ea_list /some")


@pytest.mark.parametrize("gone", NAMES)
def test_a_name_in_either_part_is_taken_out(gone: bytes, made: Written) -> None:
    some, number = made.number("/some"), made.number(f'"/{gone.decode()}"')
    made.commit(entry(UNLINK, some, number, gone))
    view = made.replayed()
    assert names(view.fs, b"/some") == {name.decode() for name in NAMES if name != gone}
    assert view.fs.inode(number).links_count == 1
    assert view.fs.inode(some).flags & INLINE
    assert view.fs.inode(some).size == 120


@pytest.mark.parametrize("name", [b"n" * 12, b"n" * 13, b"n" * 20])
def test_a_name_goes_where_there_is_room(name: bytes, made: Written) -> None:
    """20 bytes are to spare in i_block, 28 in the attribute."""
    some, number = made.number("/some"), made.number('"/first"')
    made.commit(entry(LINK, some, number, name))
    view = made.replayed()
    assert view.fs.inode(some).flags & INLINE
    assert names(view.fs, b"/some") == {*(one.decode() for one in NAMES), name.decode()}
    in_block = name in view.fs.inode(some).i_block
    assert in_block is (len(name) == 12)


def test_a_name_that_is_in_the_attribute_is_left_as_it_is(made: Written) -> None:
    some, first, third = (made.number(path) for path in ("/some", "/first", "/third"))
    made.commit(entry(LINK, some, first, b"third"))
    view = made.replayed()
    assert view.fs.inode(first).links_count == 2
    assert {one.path: one.number for one in view.fs.walk(b"/some")}[b"/some/third"] == third


def test_without_room_all_names_move_into_a_block(made: Written) -> None:
    some, number = made.number("/some"), made.number('"/first"')
    made.commit(entry(LINK, some, number, b"n" * 21))
    view = made.replayed()
    directory = view.fs.inode(some)
    assert not directory.flags & INLINE
    assert directory.size == 1024
    assert names(view.fs, b"/some") == {*(one.decode() for one in NAMES), "n" * 21}
    told = run("debugfs", "-R", "ea_list /some", made.image.with_suffix(".written"))
    assert "kept as is" in told
    assert "system.data" not in told
    raw = directory.raw[BODY:]
    entries = attribute(1, b"mine", SIZE - BODY - 4 - 12, 10)
    assert raw == struct.pack("<I", 0xEA020000) + entries.ljust(
        SIZE - BODY - 4 - 12, b"\0"
    ) + b"kept as is".ljust(12, b"\0")


def test_an_attribute_area_that_held_the_names_alone_is_empty(made: Written) -> None:
    room = SIZE - BODY - 4
    area = (attribute(7, b"data", room - 4, 0) + bytes(4)).ljust(room, b"\0")
    write_directory(made, 60, struct.pack("<I", 0xEA020000) + area)
    for name in (b"third", b"fourth"):
        made.change(f'sif "/{name.decode()}" links_count 1')
    some, number = made.number("/some"), made.number('"/first"')
    made.commit(entry(LINK, some, number, b"n" * 21))
    view = made.replayed()
    assert view.fs.inode(some).raw[BODY:] == bytes(SIZE - BODY)
    assert names(view.fs, b"/some") == {"first", "second file", "n" * 21}


def test_a_size_without_an_attribute_means_i_block_alone(made: Written) -> None:
    """What lies where attributes would begin is not read without their magic."""
    write_directory(made, 100, b"\xaa" * (SIZE - BODY))
    some, number = made.number("/some"), made.number('"/first"')
    made.commit(entry(LINK, some, number, b"new"))
    made.finish()
    view = view_of(made.image)
    assert view.applied == 1
    assert b"new" in view.fs.inode(some).i_block
    assert b"fourth" not in view.fs.inode(some).raw


def test_the_size_says_how_much_of_the_attribute_counts(made: Written) -> None:
    write_directory(made, 60)
    some, third = made.number("/some"), made.number('"/third"')
    made.commit(entry(UNLINK, some, third, b"third"))
    made.finish()
    view = view_of(made.image)
    assert b"third" in view.fs.inode(some).raw
    assert view.fs.inode(third).links_count == 2
