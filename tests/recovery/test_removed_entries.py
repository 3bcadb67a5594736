"""What is said of entries that a removal left: whose name each is, and where its directory stood.

debugfs removes as kernels before 5.13 do, and sets times to what each rule looks at.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

import ext4kit
from ext4kit.filesystem import FileSystem
from ext4kit.history.places import FOREVER, Ground, LiveDirectories
from ext4kit.recovery import find_deleted
from ext4kit.recovery.model import Unbound
from ext4kit.recovery.search_sources import JOURNAL_ONLY
from sample_images.kernels.names import names_of
from sample_images.recipes.truth import load
from tests.conftest import Images
from tests.environment import needs
from tests.filesystem.matrix_oracle import debugfs

pytestmark = needs("mke2fs", "debugfs")
MADE, GONE, LATER = 1_700_000_000, 1_700_000_100, 1_700_000_200  # seconds
FILE = "/home/anna/plan.txt"
FOLDERS = ("/", "/home", "/home/anna", "/old")


class Scene:
    """A file system on which one file of several is removed at a time of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        root, self.image = folder / "tree", folder / "image"
        for path in FOLDERS:
            (root / path[1:]).mkdir(parents=True, exist_ok=True)
        for name in ("first.txt", "plan.txt", "last.txt"):
            (root / "home/anna" / name).write_bytes(b"content of " + name.encode())
        command = ["mke2fs", "-q", "-F", "-t", "ext4", *options, "-d", str(root), str(self.image)]
        subprocess.run([*command, "4M"], check=True, capture_output=True)
        for path in FOLDERS:
            self.set(path, crtime=MADE, ctime=MADE, mtime=MADE)
        self.number = self.number_of(FILE)
        for name in ("first.txt", "plan.txt", "last.txt"):
            self.set(f"/home/anna/{name}", crtime=MADE, ctime=MADE, mtime=MADE)

    def do(self, *requests: str) -> str:
        return debugfs(self.image, *requests, write=True).decode()

    def number_of(self, path: str) -> int:
        return int(self.do(f"stat {path}").partition("Inode: ")[2].split()[0])

    def set(self, what: str, **times: int) -> None:
        self.do(*(f"sif {what} {field} @{time}" for field, time in times.items()))

    def remove(self, path: str = FILE) -> None:
        """Remove it; its directory changes at that time, its inode too."""
        number = self.number_of(path)
        self.do(f"rm {path}")
        self.set(f"<{number}>", ctime=GONE, mtime=GONE, dtime=GONE)
        self.touch(path.rpartition("/")[0], GONE)

    def touch(self, folder: str, time: int) -> None:
        self.set(folder, ctime=time, mtime=time)

    def found(self) -> tuple[str | None, Ground | None, Unbound | None]:
        """(path, ground) of the deleted file, and why its name is listed beside, if it is."""
        with ext4kit.open(self.image) as image:
            deleted = find_deleted(image.volume().filesystem(), sources=JOURNAL_ONLY)
            (file,) = (one for one in deleted if one.number == self.number)
            names = [one for one in deleted.removed_names() or () if one.inode == self.number]
            reasons = {one.reason for one in names}
        assert len(reasons) <= 1
        path = None if file.path is None else file.path.decode()
        return path, file.path_ground, next(iter(reasons), None)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_path_is_proven_where_the_directory_above_is_older_than_the_removal(scene: Scene) -> None:
    scene.remove()
    scene.touch("/home/anna", LATER)
    assert scene.found() == (FILE, Ground.PROVEN, None)


def test_a_path_is_proven_where_the_directory_itself_is_older(scene: Scene) -> None:
    scene.remove()
    scene.touch("/home/anna", GONE - 1)  # within the second that a removal takes
    scene.touch("/home", LATER)
    scene.touch("/", LATER)
    scene.set("/home", ctime=MADE, mtime=MADE)
    assert scene.found() == (FILE, Ground.PROVEN, None)


def test_where_both_changed_since_it_is_the_present_place(scene: Scene) -> None:
    scene.remove()
    scene.touch("/home/anna", LATER)
    scene.touch("/home", LATER)
    assert scene.found() == (FILE, Ground.PRESENT_PLACE, None)


def test_a_change_in_the_very_tick_of_the_removal_proves_nothing(scene: Scene) -> None:
    scene.remove()
    scene.touch("/home", GONE)
    assert scene.found() == (FILE, Ground.PRESENT_PLACE, None)


def test_without_file_types_removed_entries_are_read_too(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "-O", "^filetype")
    scene.remove()
    assert scene.found() == (FILE, Ground.PROVEN, None)


def test_inodes_without_a_time_of_creation(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "-I", "128")
    scene.remove()
    assert scene.found()[0] == FILE


@pytest.mark.parametrize("folder", ["/home/anna", "/home"])
def test_a_directory_that_changed_without_its_entries_seems_renamed(
    scene: Scene, folder: str
) -> None:
    scene.remove()
    for path in ("/", "/home", "/home/anna"):
        scene.touch(path, LATER)
    scene.set(folder, ctime=LATER + 1)
    assert scene.found() == (None, None, Unbound.MOVED)


def test_nothing_stood_below_a_directory_that_was_made_later(scene: Scene) -> None:
    scene.remove()
    for path in ("/", "/home", "/home/anna"):
        scene.touch(path, LATER)
    scene.set("/home", crtime=LATER)
    assert scene.found() == (None, None, Unbound.MOVED)


@pytest.mark.parametrize(("left", "is_known"), [(LATER, False), (GONE - 10, True)])
def test_an_entry_that_a_directory_left_elsewhere(scene: Scene, left: int, is_known: bool) -> None:
    """It went from there by the last change of the directory there."""
    scene.do("ln /home/anna /old/anna", "unlink /old/anna")
    scene.touch("/old", left)
    scene.remove()
    scene.touch("/home/anna", LATER)
    scene.touch("/home", LATER)
    path = (FILE, Ground.PRESENT_PLACE, None) if is_known else (None, None, Unbound.MOVED)
    assert scene.found() == path


def test_a_number_younger_than_one_behind_it_was_in_use_before(scene: Scene) -> None:
    scene.set(FILE, crtime=MADE + 50)
    scene.remove()
    assert scene.found() == (None, None, Unbound.USED_AGAIN)


def test_a_number_that_all_behind_it_are_younger_than_was_not(scene: Scene) -> None:
    for path in ("/home/anna/last.txt", "/home/anna/first.txt", "/old"):
        scene.set(path, crtime=MADE + 50)
    scene.remove()
    assert scene.found() == (FILE, Ground.PROVEN, None)


def test_an_inode_made_after_the_last_change_of_the_directory_is_another(scene: Scene) -> None:
    for path in (FILE, "/home/anna/last.txt", "/home/anna/first.txt", "/old"):
        scene.set(path, crtime=MADE + 50)
    scene.remove()
    scene.touch("/home/anna", MADE + 40)
    assert scene.found() == (None, None, Unbound.USED_AGAIN)


def test_an_inode_that_went_after_the_last_change_of_the_directory(scene: Scene) -> None:
    """The file had another name then."""
    scene.remove()
    scene.touch("/home/anna", GONE - 10)
    assert scene.found() == (None, None, Unbound.GONE_LATER)


def test_of_two_entries_of_one_inode_neither_is_its_last_name(scene: Scene) -> None:
    scene.do(f"ln {FILE} /old/plan.txt", "unlink /old/plan.txt")
    scene.touch("/old", GONE)
    scene.remove()
    assert scene.found() == (None, None, Unbound.SEVERAL)


def test_of_two_entries_one_is_the_name_where_the_other_directory_is_older(scene: Scene) -> None:
    scene.do(f"ln {FILE} /old/plan.txt", "unlink /old/plan.txt")
    scene.touch("/old", GONE - 10)
    scene.remove()
    assert scene.found() == (FILE, Ground.PROVEN, Unbound.GONE_LATER)


def test_an_entry_of_another_type_is_anothers(scene: Scene) -> None:
    scene.remove()
    scene.do(f"sif <{scene.number}> mode 0120644")
    assert scene.found() == (None, None, Unbound.OTHER_TYPE)


def test_the_name_of_an_inode_in_use_is_listed(scene: Scene) -> None:
    scene.do(f"ln {FILE} /old/plan.txt", "unlink /old/plan.txt")
    with ext4kit.open(scene.image) as image:
        deleted = find_deleted(image.volume().filesystem(), sources=JOURNAL_ONLY)
        names = deleted.removed_names() or []
    (name,) = names
    assert (name.path, name.inode, name.reason) == (
        b"/old/plan.txt",
        scene.number,
        Unbound.IN_USE,
    )
    assert name.directory == scene.number_of("/old")


@pytest.mark.parametrize("is_dated", [False, True])
def test_a_name_that_only_the_journal_holds(tmp_path: Path, is_dated: bool) -> None:
    """It is listed where its number may have been another inode's when the copy was made.

    debugfs dates no transaction; an inode in it shows how late it was still running.
    """
    scene = Scene(tmp_path, "-O", "^metadata_csum")
    block = int(scene.do("blocks /home/anna").splitlines()[-1].split()[0])
    dated = int(scene.do("imap /").rpartition("block ")[2].split(",")[0])
    before, cleared = tmp_path / "before", tmp_path / "cleared"
    start, end = 1024 * block, 1024 * (block + 1)
    entries = scene.image.read_bytes()[start:end]
    scene.remove()
    scene.touch("/", GONE)
    image = bytearray(scene.image.read_bytes())
    before.write_bytes(entries + image[1024 * dated :][:1024])
    at = image.index(b"plan.txt", start, end)
    image[at - 8 : at - 4], image[at : at + 8] = bytes(4), bytes(8)  # as since Linux 5.13
    cleared.write_bytes(image[start:end])
    scene.image.write_bytes(image)
    scene.do("jo", f"jw -b {block}{f',{dated}' * is_dated} {before}", "jc")
    scene.do("jo", f"jw -b {block} {cleared}", "jc")
    if is_dated:
        assert scene.found() == (FILE, Ground.JOURNAL, None)
    else:
        assert scene.found() == (None, None, Unbound.USED_AGAIN)


@needs("fls")
def test_the_names_that_fls_lists_are_given_or_listed(tmp_path: Path) -> None:
    """Those without a number too, which stood first in their block."""
    root, image = tmp_path / "tree", tmp_path / "image"
    (root / "many").mkdir(parents=True)
    names = [f"{number:03}-{'n' * 90}" for number in range(60)]
    for name in names:
        (root / "many" / name).write_bytes(name.encode())
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024", "-d", str(root), str(image)]
    subprocess.run([*command, "4M"], check=True, capture_output=True)
    debugfs(image, *(f"rm /many/{name}" for name in names[::2] + names[1::4]), write=True)
    said = subprocess.run(["fls", "-rdp", image], capture_output=True, check=True).stdout
    expected = {
        (b"/" + path, int(number))
        for number, path in re.findall(rb"^\S+ \* (\d+)(?:\(realloc\))?:\t(many/.*)$", said, re.M)
    }
    with ext4kit.open(image) as opened:
        deleted = find_deleted(opened.volume().filesystem(), sources=JOURNAL_ONLY)
        given = {(file.path, file.number) for file in deleted}
        left = {(name.path, name.inode or 0) for name in deleted.removed_names() or ()}
    assert not given & left
    assert expected <= given | left
    assert {number for _, number in expected if number == 0}


@pytest.mark.kernel
@pytest.mark.slow
@needs("fls")
def test_directories_that_move_lead_to_no_wrong_path(built: Images) -> None:
    """Kernels before 5.13 leave names here, whose directories have moved since."""
    made = built("moved_since")
    names = names_of(made.image, load(made.truth))
    assert names.deleted > 200
    assert (names.wrong, names.wrong_places, names.missing) == (0, 0, 0)


def test_directories_in_each_other_have_no_path() -> None:
    """A hostile tree can name two directories as each other's."""
    table = SimpleNamespace(**dict.fromkeys(("ctime", "mtime", "crtime"), np.array([1, 2, 3])))
    superblock = SimpleNamespace(check_time=0)
    fs = cast(FileSystem, SimpleNamespace(inode_table=lambda _: table, superblock=superblock))
    live = LiveDirectories(fs, {20: (30, b"a"), 30: (20, b"b")})
    assert live.number.tolist() == [2, 20, 30]
    assert [live.path(number) for number in (2, 20, 30, 40)] == [b"", None, None, None]
    assert live.moved.tolist() == [0, FOREVER, FOREVER]
    assert live.newest.tolist() == [1, FOREVER, FOREVER]
