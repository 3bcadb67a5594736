"""Files in fast commits written by hand: their maps, inodes and space; e2fsck judges each."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest

from ext4kit.filesystem import FileSystem
from tests.journal.fast_commit_images import View, faults
from tests.journal.fast_commit_images import replayed as view_of
from tests.journal.kernel_log import opened, run
from tests.journal.written_fast_commits import (
    CREAT,
    EXTENTS,
    FILE,
    INLINE,
    LINK,
    NOW,
    UNLINK,
    Written,
    add_range,
    del_range,
    entry,
    inode,
    make,
    names,
    raw_inode,
    register,
)

pytestmark = pytest.mark.heavy

FORMS = {
    "4k": "-b 4096",
    "1k": "-b 1024",
    "no checksums": "-b 1024 -O ^metadata_csum,^64bit",
    "uninit": "-b 1024 -O ^metadata_csum,uninit_bg",
    "small groups": "-b 1024 -g 1024 -N 4096 -O ^flex_bg,^resize_inode",
    "bigalloc": "-b 1024 -O bigalloc -C 4096",
    "inode 128": "-b 1024 -I 128",
    "no huge file": "-b 1024 -O ^huge_file",
}
OLD, NEW = "/old", 30
SIZE = 1024
START = 14000  # far from all that mke2fs uses
EXTRA = {"inode 128": 0}
ROOT = 2


def scene(folder: Path, form: str = "1k") -> Written:
    tree = folder / "tree"
    tree.mkdir()
    (tree / "old").write_bytes(bytes(range(250)) * 40)
    (tree / "dir").mkdir()
    (tree / "dir" / "inner").write_bytes(b"inner")
    return make(folder, FORMS[form], tree)


def mapped(fs: FileSystem, number: int) -> list[tuple[int, int, int, bool]]:
    """(file block, length, block, not written) of each extent."""
    runs = fs.block_map(fs.inode(number))
    columns = (runs.logical, runs.length, runs.physical, runs.unwritten)
    return list(zip(*(one.tolist() for one in columns), strict=True))


def in_use(view: View, blocks: list[int]) -> list[bool]:
    found: list[bool] = view.fs.bitmaps.blocks_in_use(np.array(blocks)).tolist()
    return found


def counts(image: Path) -> tuple[int, int]:
    """Free blocks and inodes of the superblock, as dumpe2fs tells."""
    told = run("dumpe2fs", "-h", image)
    found = [re.findall(rf"Free {what}: +(\d+)", told)[0] for what in ("blocks", "inodes")]
    return int(found[0]), int(found[1])


def start_of(form: str) -> int:
    return 3000 if form == "4k" else START


@pytest.mark.parametrize("form", FORMS)
def test_a_new_file_gets_inode_name_blocks_and_space(form: str, tmp_path: Path) -> None:
    made = scene(tmp_path, form)
    size, first = made.block_size, start_of(form)
    free_blocks, free_inodes = counts(made.image)
    made.write(first * size, b"new content".ljust(3 * size, b"+"))
    made.commit(
        add_range(NEW, 0, 3, first),
        inode(NEW, raw_inode(size=3 * size - 5, extra=EXTRA.get(form, 32), generation=99)),
        entry(CREAT, ROOT, NEW, "new"),
    )
    view = made.replayed()
    assert names(view.fs) == {"old", "dir", "inner", "lost+found", "new"}
    file = view.fs.inode(NEW)
    cluster = 4 if form == "bigalloc" else 3
    assert (file.mode, file.size, file.links_count, file.generation) == (FILE, 3 * size - 5, 1, 99)
    assert struct.unpack_from("<I", file.raw, 28)[0] == cluster * size // 512
    assert mapped(view.fs, NEW) == [(0, 3, first, False)]
    assert view.fs.content(file).read(0, file.size)[:13] == b"new content++"
    written = made.image.with_suffix(".written")
    assert counts(written) == (free_blocks - cluster, free_inodes - 1)
    assert "Type: regular" in run("debugfs", "-R", "stat new", written)


def test_what_e2fsck_replays_is_the_same(tmp_path: Path) -> None:
    made = scene(tmp_path)
    old, inner = made.number("/old"), made.number("/dir/inner")
    made.commit(
        add_range(NEW, 0, 2, START), add_range(NEW, 5, 1, START + 7, unwritten=True),
        inode(NEW, raw_inode(size=6 * SIZE)), entry(CREAT, ROOT, NEW, "new"),
    )  # fmt: skip
    made.commit(del_range(old, 2, 3), entry(LINK, ROOT, inner, "second"))
    made.commit(entry(UNLINK, made.number("/dir"), inner, "inner"))
    view = made.replayed()
    run("e2fsck", "-fp", made.image)
    for path in ("/new", "/old", "/second"):
        told = made.debugfs(f"stat {path}")
        number = int(re.findall(r"Inode: (\d+)", told)[0])
        (found,) = [one for one in view.fs.walk(b"/") if one.path == path.encode()]
        assert found.number == number
        assert made.debugfs(f"blocks {path}").split() == [
            str(block + step)
            for _, length, block, _ in mapped(view.fs, number)
            for step in range(length)
        ]
        assert int(re.findall(r"Blockcount: (\d+)", told)[0]) == int(
            struct.unpack_from("<I", view.fs.inode(number).raw, 28)[0]
        )
        assert int(re.findall(r"Links: (\d+)", told)[0]) == view.fs.inode(number).links_count
    assert "inner" not in names(view.fs)


def test_a_range_in_the_middle_of_a_file_is_given_back(tmp_path: Path) -> None:
    made = scene(tmp_path)
    old = made.number(OLD)
    (first, _) = (int(one) for one in made.debugfs("blocks /old").split()[:2])
    free = counts(made.image)[0]
    made.commit(del_range(old, 3, 4))
    view = made.replayed()
    assert mapped(view.fs, old) == [(0, 3, first, False), (7, 3, first + 7, False)]
    assert in_use(view, list(range(first, first + 10))) == [True] * 3 + [False] * 4 + [True] * 3
    assert counts(made.image.with_suffix(".written"))[0] == free + 4


def test_a_range_can_go_to_others_in_the_same_fast_commits(tmp_path: Path) -> None:
    made = scene(tmp_path)
    old, free = made.number(OLD), counts(made.image)[0]
    first = int(made.debugfs("blocks /old").split()[0])
    made.commit(
        del_range(old, 0, 2), add_range(NEW, 0, 2, first), inode(NEW, raw_inode(size=2 * SIZE)),
        entry(CREAT, ROOT, NEW, "new"), add_range(old, 0, 1, START),
    )  # fmt: skip
    view = made.replayed()
    assert mapped(view.fs, old) == [(0, 1, START, False), (2, 8, first + 2, False)]
    assert mapped(view.fs, NEW) == [(0, 2, first, False)]
    assert counts(made.image.with_suffix(".written"))[0] == free - 1


@pytest.mark.parametrize(
    ("count", "nodes"), [(4, 0), (5, 1), (84, 1), (85, 2), (4 * 84, 4), (4 * 84 + 1, 6)]
)
def test_a_file_in_many_pieces_gets_tree_blocks(count: int, nodes: int, tmp_path: Path) -> None:
    made = scene(tmp_path)
    free = counts(made.image)[0]
    pieces = [(2 * number, 1, START + 2 * number, False) for number in range(count)]
    made.commit(
        *(add_range(NEW, *piece) for piece in pieces),
        inode(NEW, raw_inode(size=2 * count * SIZE)),
        entry(CREAT, ROOT, NEW, "new"),
    )
    view = made.replayed()
    assert mapped(view.fs, NEW) == pieces
    assert struct.unpack_from("<I", view.fs.inode(NEW).raw, 28)[0] == (count + nodes) * 2
    assert counts(made.image.with_suffix(".written"))[0] == free - count - nodes
    own = {piece[2] for piece in pieces}
    listed = tree_blocks(made.image.with_suffix(".written"), "new")
    assert len(listed) == nodes
    assert not own & set(listed)


def tree_blocks(image: Path, path: str) -> list[int]:
    """Blocks of a file's extent tree, as debugfs lists them."""
    told = run("debugfs", "-R", f"stat {path}", image)
    return [int(one) for one in re.findall(r"\(ETB\d+\):(\d+)", told)]


def test_a_tree_that_gets_smaller_gives_its_blocks_back(tmp_path: Path) -> None:
    made = scene(tmp_path)
    free = counts(made.image)[0]
    made.commit(
        *(add_range(NEW, 2 * number, 1, START + 2 * number) for number in range(100)),
        inode(NEW, raw_inode(size=200 * SIZE)), entry(CREAT, ROOT, NEW, "new"),
    )  # fmt: skip
    made.commit(del_range(NEW, 5, 500))
    view = made.replayed()
    assert mapped(view.fs, NEW) == [(2 * n, 1, START + 2 * n, False) for n in range(3)]
    assert counts(made.image.with_suffix(".written"))[0] == free - 3


def test_a_tree_on_disk_is_used_again_and_given_back(tmp_path: Path) -> None:
    """Holes made by debugfs give the file a tree; its block is the first that is used again."""
    made = scene(tmp_path)
    made.change(*(f"punch old {block} {block}" for block in (1, 3, 5, 7)))
    old, free = made.number(OLD), counts(made.image)[0]
    node = tree_blocks(made.image, "old")
    pieces = mapped(opened(made.image), old)
    assert len(pieces) == 5
    assert len(node) == 1
    made.commit(add_range(old, 1, 1, START))
    view = made.replayed()
    assert mapped(view.fs, old) == sorted([*pieces, (1, 1, START, False)])
    assert tree_blocks(made.image.with_suffix(".written"), "old") == node
    assert counts(made.image.with_suffix(".written"))[0] == free - 1


def test_a_tree_that_is_not_needed_any_more_goes(tmp_path: Path) -> None:
    made = scene(tmp_path)
    made.change(*(f"punch old {block} {block}" for block in (1, 3, 5, 7)))
    old, free = made.number(OLD), counts(made.image)[0]
    made.commit(del_range(old, 8, 1))
    view = made.replayed()
    assert len(mapped(view.fs, old)) == 5
    made.commit(del_range(old, 6, 4))
    view = made.replayed()
    assert [one[0] for one in mapped(view.fs, old)] == [0, 2, 4]
    # blocks 6, 8 and 9 and the tree block
    assert counts(made.image.with_suffix(".written"))[0] == free + 3 + 1
    assert tree_blocks(made.image.with_suffix(".written"), "old") == []


def test_a_new_inode_tag_changes_all_but_the_map(tmp_path: Path) -> None:
    made = scene(tmp_path)
    old = made.number(OLD)
    before = mapped(opened(made.image), old)
    raw = bytearray(made.raw(old))
    struct.pack_into("<HHI", raw, 0, 0o100600, 77, 9999)
    made.commit(inode(old, bytes(raw)))
    file = (view := made.replayed()).fs.inode(old)
    assert (file.mode, file.uid, file.size) == (0o100600, 77, 9999)
    assert mapped(view.fs, old) == before


@pytest.mark.parametrize("form", ["1k", "no checksums", "bigalloc", "small groups"])
def test_a_removed_file_gives_everything_back(form: str, tmp_path: Path) -> None:
    made = scene(tmp_path, form)
    old, (blocks, inodes) = made.number(OLD), counts(made.image)
    held = [int(one) for one in made.debugfs("blocks /old").split()]
    inner = made.number("/dir/inner")
    raw = bytearray(made.raw(inner))
    struct.pack_into("<I", raw, 12, NOW + 50)  # i_ctime
    made.commit(entry(UNLINK, ROOT, old, "old"))
    made.commit(inode(inner, bytes(raw)))
    view = made.replayed()
    gone = view.fs.inode(old)
    assert (gone.links_count, gone.size, gone.mode) == (0, 0, FILE)
    assert struct.unpack_from("<II", gone.raw, 20)[0] == NOW + 50  # i_dtime: when all was written
    assert struct.unpack_from("<I", gone.raw, 28)[0] == 0  # i_blocks
    assert mapped(view.fs, old) == []
    assert in_use(view, held) == [False] * len(held)
    clusters = 12 if form == "bigalloc" else 10
    assert counts(made.image.with_suffix(".written")) == (blocks + clusters, inodes + 1)
    assert "old" not in names(view.fs)


def test_without_any_time_a_file_went_when_the_superblock_was_last_written(tmp_path: Path) -> None:
    """A time of 1 would be the next inode of the orphans to a reader of i_dtime."""
    made = scene(tmp_path)
    old = made.number(OLD)
    made.commit(entry(UNLINK, ROOT, old, "old"))
    (written,) = struct.unpack_from("<I", made.superblock, 0x30)
    assert struct.unpack_from("<I", made.replayed().fs.inode(old).raw, 20)[0] == written


@pytest.mark.parametrize(("committed", "gone"), [(NOW + 90, NOW + 90), (NOW + 10, NOW + 50)])
def test_the_last_time_that_is_known_is_that_of_the_deletion(
    committed: int, gone: int, tmp_path: Path
) -> None:
    """Of the transactions in the log, or of inodes in the fast commits."""
    made = scene(tmp_path)
    made.committed = committed
    old, inner = made.number(OLD), made.number("/dir/inner")
    raw = bytearray(made.raw(inner))
    struct.pack_into("<I", raw, 12, NOW + 50)  # i_ctime
    made.commit(entry(UNLINK, ROOT, old, "old"), inode(inner, bytes(raw)))
    assert struct.unpack_from("<I", made.replayed().fs.inode(old).raw, 20)[0] == gone


def test_a_removed_name_leaves_the_others(tmp_path: Path) -> None:
    made = scene(tmp_path)
    made.change("ln /old /second", "sif /old links_count 2")
    old = made.number(OLD)
    before = mapped(opened(made.image), old)
    made.commit(entry(UNLINK, ROOT, old, "old"))
    view = made.replayed()
    assert names(view.fs) == {"dir", "inner", "lost+found", "second"}
    assert view.fs.inode(old).links_count == 1
    assert mapped(view.fs, old) == before


def test_an_inode_that_is_used_again_is_another(tmp_path: Path) -> None:
    made = scene(tmp_path)
    old = made.number(OLD)
    held = [int(one) for one in made.debugfs("blocks /old").split()]
    made.commit(
        entry(UNLINK, ROOT, old, "old"), inode(old, raw_inode(size=10, generation=5)),
        add_range(old, 0, 1, START), entry(CREAT, ROOT, old, "young"),
    )  # fmt: skip
    view = made.replayed()
    assert names(view.fs) == {"dir", "inner", "lost+found", "young"}
    assert view.fs.inode(old).generation == 5
    assert in_use(view, [START, *held]) == [True] + [False] * 10


@pytest.mark.parametrize(
    ("mode", "root", "size"),
    [
        (0o120777, b"where it leads", 14),
        (0o020600, struct.pack("<I", 5 << 8 | 1), 0),
        (0o060600, struct.pack("<II", 0, 300 << 8 | 7), 0),
        (0o010600, b"", 0),
        (0o140600, b"", 0),
    ],
)
def test_what_is_no_file_has_all_in_its_inode(
    mode: int, root: bytes, size: int, tmp_path: Path
) -> None:
    made = scene(tmp_path)
    raw = raw_inode(mode, size, flags=0, root=root)
    made.commit(inode(NEW, raw), entry(CREAT, ROOT, NEW, "new"))
    view = made.replayed()
    assert view.fs.inode(NEW).mode == mode
    assert view.fs.inode(NEW).i_block == root.ljust(60, b"\0")
    kinds = {0o12: ("symlink", 7), 0o2: ("character", 3), 0o6: ("block", 4),
             0o1: ("FIFO", 5), 0o14: ("socket", 6)}  # fmt: skip
    name, file_type = kinds[mode >> 12]
    image = made.image.with_suffix(".written")
    assert f"Type: {name}" in run("debugfs", "-R", "stat new", image)
    assert re.search(
        rf"^ *{NEW} +{mode:o} \({file_type}\)", run("debugfs", "-R", "ls -l", image), re.M
    )


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (add_range(NEW, 0, 1, 16384), "range at block"),
        (add_range(NEW, 0, 2, 16383), "range at block"),
        (add_range(NEW, 0, 1, 1), "range at block"),
        (add_range(NEW, 0, 0, START), "range at block"),
        (inode(31, raw_inode(extra=0).ljust(257, b"\0")), "with 257 bytes"),
        (inode(5, raw_inode()), "inode 5 cannot be changed"),
        (inode(0, raw_inode()), "inode 0 cannot be changed"),
        (inode(4097, raw_inode()), "inode 4097 cannot be changed"),
        (entry(CREAT, NEW, NEW, "x"), "is not a directory"),
    ],
)
def test_what_cannot_be_applied_is_reported_and_the_rest_applied(
    bad: bytes, told: str, tmp_path: Path
) -> None:
    made = scene(tmp_path)
    made.commit(
        add_range(NEW, 0, 1, START), inode(NEW, raw_inode(size=1500)),
        entry(CREAT, ROOT, NEW, "new"), bad, add_range(NEW, 1, 1, START + 1),
    )  # fmt: skip
    made.finish()
    view = view_of(made.image)
    problems = [str(one) for one in view.fs.problems]
    assert len(problems) == 1
    assert told in problems[0]
    assert made.verdict(view) == ""
    assert mapped(view.fs, NEW) == [(0, 2, START, False)]


def test_the_last_block_of_the_file_system_can_be_given_to_a_file(tmp_path: Path) -> None:
    made = scene(tmp_path)
    made.commit(
        add_range(NEW, 0, 2, 16382),
        inode(NEW, raw_inode(size=2000)),
        entry(CREAT, ROOT, NEW, "new"),
    )
    assert mapped(made.replayed().fs, NEW) == [(0, 2, 16382, False)]


def test_a_range_that_others_have_is_reported(tmp_path: Path) -> None:
    made = scene(tmp_path)
    first = int(made.debugfs("blocks /old").split()[0])
    made.commit(
        inode(NEW, raw_inode(size=10)), add_range(NEW, 0, 2, first + 8),
        add_range(NEW, 2, 1, START), entry(CREAT, ROOT, NEW, "new"),
    )  # fmt: skip
    made.finish()
    view = view_of(made.image)
    (problem,) = (str(one) for one in view.fs.problems)
    assert problem.endswith("2 clusters that they use are also mapped by other inodes")


def test_a_file_leaves_its_inode(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "small").write_bytes(b"s" * 100)
    made = make(tmp_path, "-b 1024 -O inline_data -I 512", tree)
    made.change('ea_set /small user.mine "kept as it is"')
    small = made.number("/small")
    assert opened(made.image).inode(small).flags & INLINE
    raw = bytearray(made.raw(small))
    struct.pack_into("<I", raw, 4, 2000)
    struct.pack_into("<I", raw, 32, EXTENTS)
    raw[40:100] = raw_inode()[40:100]
    made.commit(add_range(small, 0, 2, START), inode(small, bytes(raw)))
    view = made.replayed()
    assert mapped(view.fs, small) == [(0, 2, START, False)]
    told = run("debugfs", "-R", "ea_list /small", made.image.with_suffix(".written"))
    assert "kept as it is" in told
    assert "system.data" not in told


def test_attributes_that_are_shared_go_with_the_last_file(tmp_path: Path) -> None:
    made = scene(tmp_path, "1k")
    value = "v" * 300
    made.change(f"ea_set /old user.large {value}")
    old, inner = made.number(OLD), made.number("/dir/inner")
    block = int(re.findall(r"File ACL: (\d+)", made.debugfs("stat /old"))[0])
    made.change(f"sif /dir/inner file_acl {block}", "sif /dir/inner blocks 4")
    place = block * SIZE
    body = bytearray(made.read(place, SIZE))
    struct.pack_into("<I", body, 4, 2)  # h_refcount
    struct.pack_into("<I", body, 16, 0)
    seed = register(0xFFFFFFFF, made.superblock[0x68:0x78])  # s_uuid
    checksum = register(register(seed, struct.pack("<Q", block)), bytes(body))
    struct.pack_into("<I", body, 16, checksum)
    made.write(place, bytes(body))
    assert faults(made.image) == ""
    made.commit(entry(UNLINK, ROOT, old, "old"))
    view = made.replayed()
    assert in_use(view, [block]) == [True]
    assert struct.unpack_from("<I", view.fs.blocks.read(block), 4)[0] == 1
    made.commit(entry(UNLINK, made.number("/dir"), inner, "inner"))
    view = made.replayed()
    assert in_use(view, [block]) == [False]


def test_a_file_of_indirect_blocks_keeps_its_map(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "old").write_bytes(b"o" * 40 * SIZE)
    made = make(tmp_path, "-b 1024 -O ^extents,^64bit", tree)
    old = made.number(OLD)
    before = mapped(opened(made.image), old)
    raw = bytearray(made.raw(old))
    struct.pack_into("<HH", raw, 0, 0o100600, 55)
    made.commit(inode(old, bytes(raw)))
    view = made.replayed()
    assert (view.fs.inode(old).mode, view.fs.inode(old).uid) == (0o100600, 55)
    assert mapped(view.fs, old) == before
    made.commit(add_range(old, 50, 1, START))
    made.finish()
    (problem,) = (str(one) for one in view_of(made.image).fs.problems)
    assert "it has no extents" in problem


def test_a_removed_file_of_indirect_blocks_gives_back_these_too(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "old").write_bytes(b"o" * 300 * SIZE)
    made = make(tmp_path, "-b 1024 -O ^extents,^64bit", tree)
    old, (blocks, inodes) = made.number(OLD), counts(made.image)
    made.commit(entry(UNLINK, ROOT, old, "old"))
    view = made.replayed()
    assert view.fs.inode(old).i_block == bytes(60)
    # 12 direct blocks, 256 of an indirect one, 32 below a double indirect one
    assert counts(made.image.with_suffix(".written")) == (blocks + 300 + 3, inodes + 1)


@pytest.mark.parametrize("block", [START, 8000], ids=["other group", "same group"])
def test_an_attribute_block_is_the_files_own(block: int, tmp_path: Path) -> None:
    """It counts for the size on disk, and for no block that two files have."""
    made = scene(tmp_path)
    made.change("ea_set /old user.large " + "v" * 300)
    old = made.number(OLD)
    made.commit(add_range(old, 9, 1, block))
    view = made.replayed()
    assert struct.unpack_from("<I", view.fs.inode(old).raw, 28)[0] == 11 * 2


def test_an_orphan_stays_in_use(tmp_path: Path) -> None:
    made = scene(tmp_path)
    old = made.number(OLD)
    held = [int(one) for one in made.debugfs("blocks /old").split()]
    made.change("unlink /old", f"sif <{old}> links_count 0", f"ssv last_orphan {old}")
    raw = bytearray(made.raw(old))
    struct.pack_into("<I", raw, 12, NOW + 1)
    made.commit(inode(old, bytes(raw)))
    made.finish()
    view = view_of(made.image)
    assert in_use(view, held) == [True] * 10
    assert view.fs.bitmaps.inodes_in_use(np.array([old])).tolist() == [True]
    assert struct.unpack_from("<I", view.fs.inode(old).raw, 12)[0] == NOW + 1


def test_an_inode_without_links_that_is_no_orphan_is_freed(tmp_path: Path) -> None:
    made = scene(tmp_path)
    old = made.number(OLD)
    held = [int(one) for one in made.debugfs("blocks /old").split()]
    raw = bytearray(made.raw(old))
    struct.pack_into("<H", raw, 26, 0)  # i_links_count
    made.commit(inode(old, bytes(raw)), entry(UNLINK, ROOT, old, "old"))
    made.finish()
    view = view_of(made.image)
    assert in_use(view, held) == [False] * 10
    assert view.fs.bitmaps.inodes_in_use(np.array([old])).tolist() == [False]


def test_a_damaged_map_is_reported(tmp_path: Path) -> None:
    made = scene(tmp_path, "no checksums")
    old = made.number(OLD)
    made.write(made.place(old) + 40, b"\x0a\xf3\xff\xff")  # more entries than there is room for
    made.commit(add_range(old, 20, 1, START), add_range(made.number("/dir/inner"), 0, 1, START))
    made.finish()
    view = view_of(made.image)
    (problem,) = (str(one) for one in view.fs.problems if "cannot be applied" in str(one))
    assert f"inode {old}: its block map is damaged" in problem
    assert mapped(view.fs, made.number("/dir/inner")) == [(0, 1, START, False)]


def test_a_directorys_structure_is_that_of_the_replay(tmp_path: Path) -> None:
    """Of its flags and size the tag says what they were when it was written."""
    made = scene(tmp_path)
    number = made.number("/dir")
    raw = bytearray(made.raw(number))
    struct.pack_into("<HHI", raw, 0, 0o040700, 9, 77 * SIZE)
    struct.pack_into("<I", raw, 32, 0x1000 | 0x80)  # a hash index, no access times, no extents
    raw[40:100] = b"\xee" * 60
    made.commit(inode(number, bytes(raw)))
    found = made.replayed().fs.inode(number)
    assert (found.mode, found.uid, found.size) == (0o040700, 9, SIZE)
    assert found.flags == EXTENTS | 0x80


def test_another_generation_seals_the_tree_anew(tmp_path: Path) -> None:
    """Checksums of tree blocks are those of number and generation."""
    made = scene(tmp_path)
    made.change(*(f"punch old {block} {block}" for block in (1, 3, 5, 7)))
    old = made.number(OLD)
    pieces = mapped(opened(made.image), old)
    raw = bytearray(made.raw(old))
    struct.pack_into("<I", raw, 100, 0x1234)  # i_generation
    made.commit(inode(old, bytes(raw)))
    view = made.replayed()
    assert view.fs.inode(old).generation == 0x1234
    assert mapped(view.fs, old) == pieces


def test_the_group_of_a_new_tree_block_is_that_of_its_inode(tmp_path: Path) -> None:
    made = scene(tmp_path, "small groups")
    number = 12 * 256 + 5
    made.commit(
        inode(number, raw_inode(size=20 * SIZE)),
        *(add_range(number, 2 * n, 1, START + 2 * n) for n in range(6)),
        entry(CREAT, ROOT, number, "new"),
    )
    made.replayed()
    (node,) = tree_blocks(made.image.with_suffix(".written"), "new")
    assert (node - 1) // 1024 == 12
