"""Directories in fast commits written by hand: in blocks, hashed, in the inode; e2fsck judges."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ext4kit.journal.fast_commits.allocation import BlockAllocator
from ext4kit.journal.fast_commits.directories import DirectoryEditor
from ext4kit.journal.fast_commits.inodes import InodeEditors
from ext4kit.journal.fast_commits.overlay import BlockOverlay
from tests.journal.fast_commit_images import replayed as view_of
from tests.journal.kernel_log import opened, run
from tests.journal.written_fast_commits import (
    CREAT,
    DIRECTORY,
    FILE,
    INDEX,
    INLINE,
    LINK,
    UNLINK,
    Written,
    add_range,
    entry,
    inode,
    make,
    names,
    raw_inode,
)

pytestmark = pytest.mark.heavy

FORMS = {
    "1k": "-b 1024",
    "4k": "-b 4096",
    "no checksums": "-b 1024 -O ^metadata_csum,^64bit",
    "no types": "-b 1024 -O ^filetype",
    "bigalloc": "-b 1024 -O bigalloc -C 4096",
}
ROOT, NEW = 2, 900


def scene(folder: Path, options: str = "-b 1024", count: int = 0, length: int = 200) -> Written:
    """A directory `big` with so many links to one file, and a directory `some` with two names."""
    tree = folder / "tree"
    for name in ("big", "some"):
        (tree / name).mkdir(parents=True)
    (tree / "some" / "file").write_bytes(b"x" * 1500)
    (tree / "some" / "other").write_bytes(b"y" * 100)
    for number in range(count):
        os.link(tree / "some" / "file", tree / "big" / big_name(number, length))
    made = make(folder, options, tree)
    return made


def big_name(number: int, length: int = 200) -> str:
    return f"{number:04d} ".ljust(length, "n")


def links(made: Written, number: int) -> int:
    return opened(made.image).inode(number).links_count


def entries_of(image: Path, path: str) -> dict[str, tuple[int, int]]:
    """Name -> (inode, type) of the entries of a directory, as debugfs lists them."""
    rows = re.findall(
        r"^ *(\d+) +\d+ \((\d+)\).*:\d\d (.+)$", run("debugfs", "-R", f"ls -l {path}", image), re.M
    )
    return {name.strip(): (int(number), int(kind)) for number, kind, name in rows}


def test_a_directory_that_was_read_without_blocks_is_read_again_with_its_first(
    tmp_path: Path,
) -> None:
    """A name is looked for before the directory has a block; found by damaged images."""
    made = scene(tmp_path)
    file = made.number("/some/file")
    made.commit(
        inode(NEW, raw_inode(DIRECTORY, 0, links=2)), entry(UNLINK, NEW, file, "not yet"),
        entry(CREAT, ROOT, NEW, "new"), entry(LINK, NEW, file, "first"),
        *(entry(LINK, NEW, file, big_name(number)) for number in range(8)),
    )  # fmt: skip
    made.finish()
    view = view_of(made.image)
    assert {b"/new/first", *(b"/new/" + big_name(at).encode() for at in range(8))} <= {
        one.path for one in view.fs.walk(b"/")
    }
    assert not view.fs.problems.errors


def test_a_directory_whose_block_is_damaged_stays_so(tmp_path: Path) -> None:
    """Names that it should get are told, once for each log block; found by damaged images."""
    made = scene(tmp_path, "-b 1024 -O ^metadata_csum,^64bit")
    some, file = made.number("/some"), made.number("/some/file")
    fs = opened(made.image)
    block = int(fs.block_map(fs.inode(some)).physical[0])
    made.write(block * 1024 + 24 + 4, b"\xff\xff")  # a length of a record
    made.commit(*(entry(LINK, some, file, big_name(number)) for number in range(5)))
    made.finish()
    view = view_of(made.image)
    told = [one.what for one in view.fs.problems if "invalid entries" in one.what]
    assert len(told) == 2


def test_ranges_of_a_directory_are_read_again(tmp_path: Path) -> None:
    """The kernel logs none; the names are those of the block that the range leads to."""
    made = scene(tmp_path)
    some, file, big = (made.number(path) for path in ("/some", "/some/file", "/big"))
    start = opened(made.image).block_map(opened(made.image).inode(big)).physical[0]
    made.commit(
        entry(LINK, some, file, "before"), add_range(some, 0, 1, int(start)),
        entry(LINK, some, file, "after"), entry(UNLINK, some, file, "before"),
    )  # fmt: skip
    made.finish()
    view = view_of(made.image)
    assert names(view.fs) >= {"after"}
    assert "before" not in {one.path.rpartition(b"/")[2].decode() for one in view.fs.walk(b"/some")}


def test_an_inode_that_was_a_directory_and_is_one_again_has_its_own_names(tmp_path: Path) -> None:
    made = scene(tmp_path)
    some, file = made.number("/some"), made.number("/some/file")
    made.commit(
        entry(LINK, some, file, "before"), inode(some, raw_inode(DIRECTORY, 0, links=0)),
        inode(some, raw_inode(DIRECTORY, 0, links=2, generation=9)),
        entry(CREAT, ROOT, some, "other"), entry(LINK, some, file, "after"),
    )  # fmt: skip
    made.finish()
    view = view_of(made.image)
    paths = {one.path for one in view.fs.walk(b"/")}
    assert {b"/other", b"/some/after"} <= paths
    assert b"/some/before" not in paths


def test_a_directory_that_became_a_file_gets_no_names(tmp_path: Path) -> None:
    made = scene(tmp_path)
    some, file = made.number("/some"), made.number("/some/file")
    made.commit(
        entry(LINK, some, file, "before"), inode(some, raw_inode(FILE, 1024)),
        entry(LINK, some, file, "after"),
    )  # fmt: skip
    made.finish()
    view = view_of(made.image)
    assert "after" not in names(view.fs)
    assert any("is not a directory" in one.what for one in view.fs.problems)


@pytest.mark.parametrize("form", FORMS)
def test_names_come_and_go(form: str, tmp_path: Path) -> None:
    made = scene(tmp_path, FORMS[form])
    some, file, other = (made.number(path) for path in ("/some", "/some/file", "/some/other"))
    typed = form != "no types"
    made.commit(
        entry(LINK, some, file, "second name"),
        entry(LINK, ROOT, file, b"\xff\xfe not in any alphabet"),
        entry(UNLINK, some, other, "other"),
    )
    made.commit(entry(UNLINK, some, file, "file"), entry(LINK, some, file, "f"))
    view = made.replayed()
    image = made.image.with_suffix(".written")
    kind = 1 if typed else 0
    assert entries_of(image, "/some") == {
        ".": (some, 2 * typed), "..": (ROOT, 2 * typed), "second name": (file, kind),
        "f": (file, kind),
    }  # fmt: skip
    assert view.fs.inode(file).links_count == 3
    assert view.fs.inode(other).links_count == 0
    assert b"/\xff\xfe not in any alphabet" in {one.path for one in view.fs.walk(b"/")}


def test_a_name_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    made = scene(tmp_path)
    some, file, other = (made.number(path) for path in ("/some", "/some/file", "/some/other"))
    made.commit(entry(LINK, some, other, "file"))
    view = made.replayed()
    assert entries_of(made.image.with_suffix(".written"), "/some")["file"] == (file, 1)
    assert (view.fs.inode(file).links_count, view.fs.inode(other).links_count) == (1, 1)


def test_a_name_that_leads_elsewhere_stays_and_costs_a_link(tmp_path: Path) -> None:
    made = scene(tmp_path)
    some, file, other = (made.number(path) for path in ("/some", "/some/file", "/some/other"))
    made.commit(entry(LINK, ROOT, file, "again"), entry(UNLINK, some, file, "other"))
    made.finish()
    view = view_of(made.image)
    assert {"file", "other", "again"} <= names(view.fs)
    assert view.fs.inode(file).links_count == 1
    assert view.fs.inode(other).links_count == 1


def test_a_name_that_is_not_there_costs_nothing(tmp_path: Path) -> None:
    made = scene(tmp_path)
    some, file = made.number("/some"), made.number("/some/file")
    made.commit(entry(UNLINK, some, file, "nobody"), entry(LINK, ROOT, file, "second"))
    assert made.replayed().fs.inode(file).links_count == 2


def test_names_of_what_does_not_live_are_neither_made_nor_removed(tmp_path: Path) -> None:
    made = scene(tmp_path)
    file = made.number("/some/file")
    made.commit(
        entry(LINK, ROOT, NEW, "ghost"), entry(UNLINK, ROOT, NEW, "some"),
        entry(UNLINK, NEW, file, "in no directory"), entry(LINK, ROOT, file, "real"),
    )  # fmt: skip
    view = made.replayed()
    assert names(view.fs) == {"big", "some", "file", "other", "lost+found", "real"}
    assert view.fs.inode(NEW).raw == bytes(256)
    assert view.fs.inode(file).links_count == 2


@pytest.mark.parametrize("form", FORMS)
def test_a_new_directory_has_itself_and_its_parent(form: str, tmp_path: Path) -> None:
    made = scene(tmp_path, FORMS[form])
    size, some = made.block_size, made.number("/some")
    before = links(made, some)
    made.commit(
        inode(NEW, raw_inode(DIRECTORY, size, links=2)), entry(CREAT, some, NEW, "new"),
        inode(NEW + 1, raw_inode()), entry(CREAT, NEW, NEW + 1, "child"),
    )  # fmt: skip
    view = made.replayed()
    directory = view.fs.inode(NEW)
    assert (directory.size, directory.links_count) == (size, 2)
    assert links(made, some) == before
    assert view.fs.inode(some).links_count == before + 1
    typed = form != "no types"
    listed = entries_of(made.image.with_suffix(".written"), "/some/new")
    assert listed == {
        ".": (NEW, 2 * typed), "..": (some, 2 * typed), "child": (NEW + 1, 1 * typed)
    }  # fmt: skip


def test_a_new_directory_that_has_its_block_keeps_what_is_in_it(tmp_path: Path) -> None:
    made = scene(tmp_path, "-b 1024 -O ^metadata_csum,^64bit")
    start = 14000
    rows = struct.pack("<IHBB4sIHBB4s", NEW, 12, 1, 2, b".", 2, 1012, 2, 2, b"..")
    made.write(start * 1024, rows.ljust(1024, b"\0"))
    made.commit(
        inode(NEW, raw_inode(DIRECTORY, 1024, links=2)), add_range(NEW, 0, 1, start),
        entry(CREAT, ROOT, NEW, "new"),
    )  # fmt: skip
    view = made.replayed()
    assert view.fs.block_map(view.fs.inode(NEW)).physical.tolist() == [start]


def test_a_removed_directory_costs_its_parent_a_link(tmp_path: Path) -> None:
    made = scene(tmp_path)
    big, before = made.number("/big"), links(made, ROOT)
    made.commit(entry(UNLINK, ROOT, big, "big"))
    view = made.replayed()
    assert view.fs.inode(ROOT).links_count == before - 1
    assert (view.fs.inode(big).links_count, view.fs.inode(big).size) == (0, 0)
    told = run("dumpe2fs", made.image.with_suffix(".written"))
    assert sum(int(one) for one in re.findall(r"(\d+) directories", told)) == 3  # with lost+found


def test_a_directory_of_a_removed_inode_is_another(tmp_path: Path) -> None:
    made = scene(tmp_path)
    some, file, other = (made.number(path) for path in ("/some", "/some/file", "/some/other"))
    made.commit(
        entry(UNLINK, some, file, "file"), entry(UNLINK, some, other, "other"),
        entry(UNLINK, ROOT, some, "some"),
    )  # fmt: skip
    made.commit(
        inode(some, raw_inode(DIRECTORY, 1024, links=2, generation=8)),
        entry(CREAT, ROOT, some, "anew"), inode(NEW, raw_inode()),
        entry(CREAT, some, NEW, "inside"),
    )  # fmt: skip
    view = made.replayed()
    assert names(view.fs) == {"big", "lost+found", "anew", "inside"}


def test_many_directories_are_counted_as_one_link(tmp_path: Path) -> None:
    """From 65,000 links on a directory counts one; such a one is left alone."""
    made = scene(tmp_path)
    made.change("sif /some links_count 64999", "sif /big links_count 1")
    some, big = made.number("/some"), made.number("/big")
    made.commit(
        inode(NEW, raw_inode(DIRECTORY, 1024, links=2)), entry(CREAT, some, NEW, "a"),
        inode(NEW + 1, raw_inode(DIRECTORY, 1024, links=2)), entry(CREAT, big, NEW + 1, "b"),
    )  # fmt: skip
    made.finish()
    view = view_of(made.image)
    assert view.fs.inode(some).links_count == 1
    assert view.fs.inode(big).links_count == 1


def test_a_block_more_when_all_are_full(tmp_path: Path) -> None:
    made = scene(tmp_path, count=3, length=250)  # 264 bytes each: three to a block
    big, file = made.number("/big"), made.number("/some/file")
    new = [big_name(number, 250) for number in range(10, 17)]
    made.commit(*(entry(LINK, big, file, name) for name in new))
    view = made.replayed()
    assert view.fs.inode(big).size == 4 * 1024
    assert names(view.fs, b"/big") == {*(big_name(n, 250) for n in range(3)), *new}
    assert not view.fs.inode(big).flags & INDEX
    assert view.fs.inode(file).links_count == 1 + 3 + 7


def test_room_that_a_removed_name_leaves_is_used(tmp_path: Path) -> None:
    made = scene(tmp_path, count=9, length=250)
    big, file = made.number("/big"), made.number("/some/file")
    before = opened(made.image).inode(big).size
    made.commit(
        entry(UNLINK, big, file, big_name(4, 250)), entry(UNLINK, big, file, big_name(0, 250)),
        entry(LINK, big, file, big_name(20, 250)), entry(LINK, big, file, big_name(21, 250)),
        entry(UNLINK, big, file, big_name(20, 250)), entry(LINK, big, file, big_name(22, 250)),
    )  # fmt: skip
    view = made.replayed()
    assert view.fs.inode(big).size == before
    left = {1, 2, 3, 5, 6, 7, 8, 21, 22}
    assert names(view.fs, b"/big") == {big_name(number, 250) for number in left}


# --- with a hash index ----------------------------------------------------------------------


def hashed(made: Written) -> Written:
    """The directories with the index that e2fsck makes."""
    subprocess.run(["e2fsck", "-fyD", made.image], capture_output=True, check=False)
    assert opened(made.image).inode(made.number("/big")).flags & INDEX
    return made


HASHED = ["-b 1024", "-b 1024 -O ^metadata_csum,^64bit", "-b 1024 -O large_dir"]


@pytest.mark.parametrize("options", HASHED)
def test_names_in_a_hashed_directory(options: str, tmp_path: Path) -> None:
    made = hashed(scene(tmp_path, options, count=40))
    big, file = made.number("/big"), made.number("/some/file")
    new = [big_name(number) for number in range(100, 160)]
    gone = [big_name(number) for number in range(0, 40, 3)]
    made.commit(*(entry(LINK, big, file, name) for name in new))
    made.commit(*(entry(UNLINK, big, file, name) for name in gone))
    view = made.replayed()
    assert names(view.fs, b"/big") == {*new, *(big_name(n) for n in range(40))} - {*gone}
    assert view.fs.inode(file).links_count == 1 + 40 + 60 - 14


@pytest.mark.parametrize("flags", [1, 2], ids=["signed", "unsigned"])
@pytest.mark.parametrize("version", ["legacy", "half_md4", "tea"])
def test_every_hash_leads_to_the_leaf_that_e2fsck_expects(
    version: str, flags: int, tmp_path: Path
) -> None:
    made = scene(tmp_path, count=30)
    run("tune2fs", "-E", f"hash_alg={version}", made.image)
    made.change(f"ssv flags {flags}")
    hashed(made)
    big, file = made.number("/big"), made.number("/some/file")
    new = [f"{number} \xe4\xf6" + "z" * 150 for number in range(40)]
    made.commit(*(entry(LINK, big, file, name.encode("latin-1")) for name in new))
    assert len(names_raw(made)) == 70


def names_raw(made: Written) -> set[bytes]:
    view = made.replayed()
    return {one.path for one in view.fs.walk(b"/big") if one.path != b"/big"}


@pytest.mark.heavy
@pytest.mark.parametrize("options", HASHED)
def test_a_full_index_gets_another_level(options: str, tmp_path: Path) -> None:
    """With 1,024 bytes a root names 123 or 124 leaves of three names each."""
    made = hashed(scene(tmp_path, options, count=360, length=250))
    big, file = made.number("/big"), made.number("/some/file")
    new = [big_name(number, 250) for number in range(1000, 1060)]
    made.commit(*(entry(LINK, big, file, name) for name in new))
    view = made.replayed()
    assert len(names(view.fs, b"/big")) == 420
    root = bytes(view.fs.content(view.fs.inode(big)).read(0, 1024))
    assert root[30] == 1  # indirect_levels
    made.commit(*(entry(UNLINK, big, file, name) for name in new[::2]))
    assert len(names(made.replayed().fs, b"/big")) == 390


def directory_of(made: Written, number: int) -> DirectoryEditor:
    """The directory in memory, for changes."""
    fs = opened(made.image)
    draft, none = BlockOverlay(fs.blocks), np.zeros(0, np.int64)
    subjects = InodeEditors(fs, draft, BlockAllocator(fs, draft, (none, none)), 1)
    return DirectoryEditor(subjects, subjects.get(number))


@pytest.mark.parametrize(("options", "levels"), [("-b 1024", 1), ("-b 1024 -O large_dir", 2)])
def test_an_index_has_as_many_levels_as_the_feature_allows(
    options: str, levels: int, tmp_path: Path
) -> None:
    assert directory_of(make(tmp_path, options), ROOT)._index().most_levels == levels


@pytest.mark.parametrize("hash_version", [6, 9])
def test_names_that_cannot_be_hashed_are_reported(hash_version: int, tmp_path: Path) -> None:
    """Version 6 needs the key of an encrypted directory."""
    made = hashed(scene(tmp_path, "-b 1024 -O ^metadata_csum", count=20))
    big, file = made.number("/big"), made.number("/some/file")
    first = int(opened(made.image).block_map(opened(made.image).inode(big)).physical[0])
    made.write(first * 1024 + 28, bytes([hash_version]))
    made.commit(entry(LINK, big, file, "new"), entry(LINK, ROOT, file, "there"))
    made.finish()
    view = view_of(made.image)
    (problem,) = (str(one) for one in view.fs.problems)
    assert f"a tag LINK cannot be applied: directory {big}: its hashes need a key" in problem
    assert "there" in names(view.fs)


def test_a_directory_with_a_hole_is_reported(tmp_path: Path) -> None:
    made = scene(tmp_path, count=9, length=250)
    made.change("punch big 1 1")
    big, file = made.number("/big"), made.number("/some/file")
    made.commit(entry(LINK, big, file, "new"), entry(LINK, ROOT, file, "there"))
    made.finish()
    view = view_of(made.image)
    (problem,) = (str(one) for one in view.fs.problems)
    assert f"directory {big}: has holes" in problem
    assert "there" in names(view.fs)


def test_what_is_no_directory_gets_no_names(tmp_path: Path) -> None:
    made = scene(tmp_path)
    file, other = made.number("/some/file"), made.number("/some/other")
    made.commit(entry(LINK, file, other, "inside"), entry(LINK, ROOT, file, "there"))
    made.finish()
    view = view_of(made.image)
    (problem,) = (str(one) for one in view.fs.problems)
    assert f"inode {file}: is not a directory" in problem
    assert made.verdict(view) == ""


def test_without_the_feature_a_flag_of_an_index_means_nothing(tmp_path: Path) -> None:
    made = scene(tmp_path, "-b 1024 -O ^dir_index", count=5)
    big, file = made.number("/big"), made.number("/some/file")
    made.commit(entry(LINK, big, file, "one more"))
    assert "one more" in names(made.replayed().fs, b"/big")


# --- in the inode ---------------------------------------------------------------------------


def inline_scene(folder: Path, size: int = 256) -> Written:
    tree = folder / "tree"
    (tree / "some").mkdir(parents=True)
    (tree / "some" / "file").write_bytes(b"x" * 1500)
    (tree / "some" / "other").write_bytes(b"y" * 1500)
    made = make(folder, f"-b 1024 -O inline_data -I {size}", tree)
    assert opened(made.image).inode(made.number("/some")).flags & INLINE
    return made


@pytest.mark.parametrize("size", [256, 512])
def test_a_directory_in_its_inode_takes_names_and_gives_them_back(
    size: int, tmp_path: Path
) -> None:
    made = inline_scene(tmp_path, size)
    some, file, other = (made.number(path) for path in ("/some", "/some/file", "/some/other"))
    made.commit(entry(UNLINK, some, other, "other"), entry(LINK, some, file, "again"))
    view = made.replayed()
    assert view.fs.inode(some).flags & INLINE
    assert names(view.fs, b"/some") == {"file", "again"}
    assert entries_of(made.image.with_suffix(".written"), "/some")["again"] == (file, 1)


@pytest.mark.parametrize("size", [256, 512])
def test_a_directory_that_has_no_room_leaves_its_inode(size: int, tmp_path: Path) -> None:
    made = inline_scene(tmp_path, size)
    made.change('ea_set /some user.mine "kept as it is"')
    some, file = made.number("/some"), made.number("/some/file")
    assert opened(made.image).inode(some).flags & INLINE
    new = [f"{number} " + "m" * 100 for number in range(6)]
    made.commit(*(entry(LINK, some, file, name) for name in new))
    view = made.replayed()
    assert not view.fs.inode(some).flags & INLINE
    assert names(view.fs, b"/some") == {"file", "other", *new}
    listed = entries_of(made.image.with_suffix(".written"), "/some")
    assert listed["."] == (some, 2)
    assert listed[".."] == (ROOT, 2)
    told = run("debugfs", "-R", "ea_list /some", made.image.with_suffix(".written"))
    assert "kept as it is" in told


def test_entries_in_the_attribute_of_an_inode_are_found(tmp_path: Path) -> None:
    """A directory of more than 60 bytes goes on in the attribute system.data."""
    tree = tmp_path / "tree"
    (tree / "some").mkdir(parents=True)
    for name in ("first file", "second file", "third file", "fourth file"):
        (tree / "some" / name).write_bytes(b"x")
    made = make(tmp_path, "-b 1024 -O inline_data -I 512", tree)
    some = made.number("/some")
    assert opened(made.image).inode(some).size > 60
    gone = made.number('"/some/fourth file"')
    made.commit(
        entry(UNLINK, some, gone, "fourth file"),
        entry(LINK, some, made.number('"/some/first file"'), "new"),
    )
    view = made.replayed()
    assert names(view.fs, b"/some") == {"first file", "second file", "third file", "new"}
