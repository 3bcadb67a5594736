"""What was done on a mounted file system is what the timeline tells, step by step."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
from pathlib import Path

import pytest

import ext4kit
from ext4kit.timeline import EventKind, build_timeline
from sample_images.recipes import machine
from tests.timeline.scripts import events_of, mounted, told

pytestmark = pytest.mark.kernel

LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, AT_SYMLINK_FOLLOW, RENAME_EXCHANGE = -100, 0x400, 2
LAYOUTS = {
    "ext4": ("-t", "ext4", "-J", "size=4"),
    "ext3-128": ("-t", "ext3", "-I", "128", "-J", "size=4"),
    "inline": ("-t", "ext4", "-O", "inline_data", "-J", "size=4"),
    "orphan-list": ("-t", "ext4", "-O", "^orphan_file", "-J", "size=4"),
}


@pytest.fixture(params=LAYOUTS)
def image(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "script.img"
    machine.make_file_system(path, 48 << 20, LAYOUTS[request.param])
    return path


def test_a_directory_that_moved_takes_the_paths_below_it_along(image: Path) -> None:
    marks: list[int] = []
    with mounted(image, marks) as script:
        root = script.root
        (root / "a/x/y").mkdir(parents=True)
        (root / "b").mkdir()
        (root / "a/x/y/file").write_bytes(b"x" * 500)
        script.commit()
        (root / "a/x").rename(root / "b/z")
        script.commit()
        (root / "b/z/y/file").chmod(0o600)
        script.commit()
        (root / "b/z").rename(root / "b/w")
        (root / "b/w/y/new").write_bytes(b"")
        script.commit()
        shutil.rmtree(root / "b")
        script.commit()
    events = events_of(image)
    assert told(events, marks, 1) == [("moved", "/b/z", "/a/x")]
    assert told(events, marks, 2) == [("mode", "/b/z/y/file", None)]
    assert told(events, marks, 3) == [
        ("created", "/b/w/y/new", None),
        ("renamed", "/b/w", "/b/z"),
    ]
    assert told(events, marks, 4) == [
        ("deleted", "/b/w/y/file", None),
        ("deleted", "/b/w/y/new", None),
        ("directory-removed", "/b", None),
        ("directory-removed", "/b/w", None),
        ("directory-removed", "/b/w/y", None),
    ]


def test_a_file_unlinked_while_open_is_an_orphan_first(image: Path) -> None:
    marks: list[int] = []
    with mounted(image, marks) as script:
        path = script.root / "open"
        path.write_bytes(b"content" * 3000)
        script.commit()
        with path.open("rb"):
            path.unlink()
            script.commit()
        script.commit()
    events = events_of(image)
    assert told(events, marks, 1) == [("orphan-added", "/open", None)]
    assert told(events, marks, 2) == [("deleted", "/open", None)]


def test_a_name_used_again_within_one_transaction_is_told_of_both_files(image: Path) -> None:
    marks: list[int] = []
    with mounted(image, marks) as script:
        path = script.root / "name"
        path.write_bytes(b"first" * 1000)
        first = path.stat().st_ino
        script.commit()
        path.unlink()
        path.write_bytes(b"second" * 1000)
        second = path.stat().st_ino
        script.commit()
    events = events_of(image)
    assert told(events, marks, 1) == [("created", "/name", None), ("deleted", "/name", None)]
    inodes = {
        str(event.kind): event.inode
        for event in events
        if event.transaction and marks[0] < event.transaction <= marks[1]
    }
    assert inodes["deleted"] == first
    assert inodes["created"] == second


def test_links_that_come_and_go_together_are_told_one_by_one(image: Path) -> None:
    marks: list[int] = []
    with mounted(image, marks) as script:
        root = script.root
        (root / "one").write_bytes(b"x")
        (root / "folder").mkdir()
        script.commit()
        (root / "folder/two").hardlink_to(root / "one")
        (root / "three").hardlink_to(root / "one")
        script.commit()
        (root / "one").unlink()
        (root / "three").unlink()
        script.commit()
        (root / "folder/two").unlink()
        script.commit()
    events = events_of(image)
    assert told(events, marks, 1) == [
        ("linked", "/folder/two", None),
        ("linked", "/three", None),
    ]
    assert told(events, marks, 2) == [("unlinked", "/one", None), ("unlinked", "/three", None)]
    assert told(events, marks, 3) == [("deleted", "/folder/two", None)]


def test_access_lists_flags_and_times_are_told(image: Path) -> None:
    marks: list[int] = []
    entries = ((1, 6, 0xFFFFFFFF), (2, 4, 1000), (4, 4, 0xFFFFFFFF), (16, 4, 0xFFFFFFFF),
               (32, 4, 0xFFFFFFFF))  # fmt: skip
    access = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    with mounted(image, marks) as script:
        path = script.root / "file"
        path.write_bytes(b"x" * 200)
        path.chmod(0o644)
        script.commit()
        os.setxattr(path, "system.posix_acl_access", access)
        script.commit()
        machine.run("chattr", "+d", path)
        script.commit()
        os.utime(path, ns=(10**18, path.stat().st_mtime_ns))
        script.commit()
    events = events_of(image)
    assert [told(events, marks, step) for step in (1, 2, 3)] == [
        [("acl", "/file", None)],
        [("flags", "/file", None)],
        [("times", "/file", None)],
    ]


def test_a_file_made_without_a_name_is_linked_later(image: Path) -> None:
    marks: list[int] = []
    with mounted(image, marks) as script:
        (script.root / "folder").mkdir()
        script.commit()
        handle = os.open(script.root / "folder", os.O_TMPFILE | os.O_RDWR)
        os.write(handle, b"x" * 300)
        script.commit()
        name = os.fsencode(script.root / "folder/named")
        proc = b"/proc/self/fd/%d" % handle
        linked = LIBC.linkat(AT_FDCWD, proc, AT_FDCWD, name, AT_SYMLINK_FOLLOW)
        os.close(handle)
        assert linked == 0
        script.commit()
    events = events_of(image)
    assert told(events, marks, 1) == [("created", None, None)]
    assert told(events, marks, 2) == [("linked", "/folder/named", None)]


def test_two_names_exchanged_are_two_renamings(image: Path) -> None:
    marks: list[int] = []
    with mounted(image, marks) as script:
        (script.root / "one").write_bytes(b"1")
        (script.root / "folder").mkdir()
        (script.root / "folder/two").write_bytes(b"2")
        script.commit()
        paths = [os.fsencode(script.root / name) for name in ("one", "folder/two")]
        assert LIBC.renameat2(AT_FDCWD, paths[0], AT_FDCWD, paths[1], RENAME_EXCHANGE) == 0
        script.commit()
    assert told(events_of(image), marks, 1) == [
        ("moved", "/folder/two", "/one"),
        ("moved", "/one", "/folder/two"),
    ]


def test_a_large_transaction_in_a_directory_of_several_levels(tmp_path: Path) -> None:
    image, marks = tmp_path / "large.img", list[int]()
    machine.make_file_system(image, 128 << 20, ("-t", "ext4", "-b", "1024", "-J", "size=32"))
    count = 6000
    names = [
        f"a-name-that-is-long-enough-to-need-many-blocks-{number:05}" for number in range(count)
    ]
    with mounted(image, marks) as script:
        folder = script.root / "folder"
        folder.mkdir()
        script.commit()
        for name in names:
            (folder / name).touch()
        script.commit()
        for name in names[::2]:
            (folder / name).unlink()
        for name in names[1:200:2]:
            (folder / name).rename(script.root / name)
        script.commit()
    events = events_of(image)
    assert told(events, marks, 1) == [("created", f"/folder/{name}", None) for name in names]
    gone = [("deleted", f"/folder/{name}", None) for name in names[::2]]
    moved = [("moved", f"/{name}", f"/folder/{name}") for name in names[1:200:2]]
    assert told(events, marks, 2) == [*gone, *moved]
    assert all(event.exact for event in events if event.kind is not EventKind.HINT)


def test_what_only_fast_commits_hold_is_left_out_and_said_to_be(tmp_path: Path) -> None:
    image, marks = tmp_path / "fast.img", list[int]()
    options = ("-t", "ext4", "-O", "fast_commit", "-J", "size=8")
    machine.make_file_system(image, 64 << 20, options)
    with mounted(image, marks) as script:
        (script.root / "folder").mkdir()
        (script.root / "folder/full").write_bytes(b"x" * 100)
        script.commit()
        for name in ("folder/fast", "fast"):
            with (script.root / name).open("wb") as file:
                file.write(b"x" * 5000)
                file.flush()
                os.fsync(file.fileno())
        (script.root / "folder/full").rename(script.root / "moved")
        with (script.root / "moved").open("ab") as file:
            os.fsync(file.fileno())
        machine.copy_sparse(image, tmp_path / "cut.img")
    with ext4kit.open(tmp_path / "cut.img") as opened:
        fs = opened.volume().filesystem()
        timeline = build_timeline(fs)
        events = list(timeline)
        known = set(timeline.commits.tids.tolist())
    assert {event.transaction for event in events} <= known
    assert any("fast commits" in problem.what for problem in fs.problems)
    paths = {event.path for event in events}
    assert b"/folder/full" in paths
    assert not paths & {b"/folder/fast", b"/fast", b"/moved"}
