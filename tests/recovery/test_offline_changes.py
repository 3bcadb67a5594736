"""What was deleted comes back after tune2fs or resize2fs changed what the log's copies mean.

The kernel makes and deletes the files; the file system is unmounted, checked and changed. Copies in
the log stay as they were, with the inode size, the checksums and the places of that time.
"""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ext4kit.journal.epochs import Epoch, size_told
from ext4kit.parsers.checksums import ONES, crc32c
from ext4kit.parsers.inode import inode_seeds
from ext4kit.parsers.superblock import SUPERBLOCK, Superblock
from ext4kit.unallocated.owners import SeedIndex
from sample_images.recipes import machine
from sample_images.recipes.machine import MachineError
from sample_images.recipes.score import read_records
from tests.conftest import Cli
from tests.writing_kernel import HERE

MIB = 1 << 20
FOLDERS, FILES, LARGEST = 6, 25, 40_000
REMOVED = 60  # files and one directory, at least
NAMED = 0.95  # of the removed files have a record with their path, whatever is left of them
PIECES = "folder0/pieces"


@dataclass(frozen=True)
class Change:
    """A file system, and what is done to it while it is not mounted.

    Attributes:
        options: of mke2fs.
        commands: run on the image after the deletions.
        told: words of the note or warning, None if there is none.
        contents, paths: shares of the removed files that come back at least; the larger inode
            tables take the places of some, and which ones is the allocator's choice.
        mebibytes: size of the file system.
    """

    options: str
    commands: tuple[str, ...]
    told: str | None
    contents: float
    paths: float
    mebibytes: int = 192


SIZE, UUID, SUMS = "inode size was 128", "UUID was different", "no metadata checksums"
WIDTH = None  # nothing is said
PLAIN = "there were metadata checksums"
SMALL = "-J size=1 -b 1024 -I 128"
BY_UUID = "^metadata_csum_seed"  # mke2fs sets it since 1.47.1: the checksums stay the same
CHANGES = {
    "ext3, larger inodes": Change(f"-t ext3 {SMALL}", ("tune2fs -I 256",), SIZE, 0.3, 0.3),
    "ext3 with 4 KiB": Change("-t ext3 -b 4096 -I 128", ("tune2fs -I 256",), SIZE, 0, 0),
    "ext4, larger inodes": Change(
        f"-t ext4 {SMALL} -O ^flex_bg,^metadata_csum", ("tune2fs -I 256",), SIZE, 0.3, 0.3
    ),
    "larger inodes, checksums": Change(
        f"-t ext4 {SMALL} -O ^flex_bg", ("tune2fs -I 256",), SIZE, 0.3, 0.3
    ),
    "no superblock in the log": Change(
        f"-t ext4 {SMALL} -O ^flex_bg,orphan_file", ("tune2fs -I 256",), SIZE, 0.3, 0.3
    ),
    "no superblock, no checksums": Change(
        f"-t ext4 {SMALL} -O ^flex_bg,^metadata_csum,orphan_file",
        ("tune2fs -I 256",),
        SIZE,
        0.3,
        0.3,
    ),
    "another UUID": Change(f"-t ext4 -O {BY_UUID}", ("tune2fs -U random",), UUID, 1, 1),
    "another UUID, orphan file": Change(
        f"-t ext4 -O orphan_file,{BY_UUID}", ("tune2fs -U random", "e2fsck -fy"), UUID, 1, 1
    ),
    "another UUID, small inodes": Change(
        f"-t ext4 -I 128 -O {BY_UUID}", ("tune2fs -U random",), UUID, 1, 1
    ),
    "checksums switched on": Change(
        "-t ext4 -O ^metadata_csum", ("tune2fs -O metadata_csum",), SUMS, 1, 1
    ),
    "larger block numbers": Change(
        "-t ext4 -O ^64bit,^metadata_csum", ("resize2fs -b",), WIDTH, 1, 1
    ),
    "smaller block numbers": Change("-t ext4 -O ^metadata_csum", ("resize2fs -s",), WIDTH, 1, 1),
    "checksums switched off": Change("-t ext4", ("tune2fs -O ^metadata_csum",), PLAIN, 1, 1),
    "UUID and size": Change(
        f"-t ext4 {SMALL} -O ^flex_bg,{BY_UUID}",
        ("tune2fs -U random", "e2fsck -fy", "tune2fs -I 256"),
        SIZE,
        0.3,
        0.3,
    ),
    "moved tables": Change(
        "-t ext3 -b 1024 -O ^resize_inode",
        ("truncate -s 2G", "resize2fs"),
        "inode tables moved after",
        0.3,
        0.3,
        200,
    ),
}


@dataclass
class Scene:
    """An image and what was on it.

    Attributes:
        written: SHA-256 of each file that there ever was, by path.
        removed: paths of the files that were removed.
    """

    image: Path
    written: dict[str, str] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)

    def write(self, root: Path, path: str, data: bytes) -> None:
        (root / path).write_bytes(data)
        self.written[f"/{path}"] = hashlib.sha256(data).hexdigest()

    def write_pieces(self, root: Path, path: str, dice: random.Random) -> None:
        """A file with holes: its map takes a block of its own."""
        with (root / path).open("wb") as file:
            for piece in range(40):
                file.seek(piece * 65536)
                file.write(dice.randbytes(5000))
        self.written[f"/{path}"] = hashlib.sha256((root / path).read_bytes()).hexdigest()

    def remove(self, root: Path, path: str) -> None:
        (root / path).unlink()
        self.removed.add(f"/{path}")


def make(folder: Path, change: Change) -> Scene:
    """Files, half of them removed, and one of the directories with all of them."""
    scene = Scene(folder / "image")
    machine.make_file_system(scene.image, change.mebibytes * MIB, tuple(change.options.split()))
    dice = random.Random(7)
    with machine.mounted(scene.image, "rw") as root:
        for number in range(FOLDERS):
            (root / f"folder{number}").mkdir()
            for file in range(FILES):
                size = dice.randrange(200, LARGEST)
                scene.write(root, f"folder{number}/file{file}", dice.randbytes(size))
        scene.write_pieces(root, PIECES, dice)
        machine.sync(root)
        for number in range(FOLDERS - 1):
            for file in range(0, FILES, 2):
                scene.remove(root, f"folder{number}/file{file}")
            machine.sync(root)
        for file in range(FILES):
            scene.remove(root, f"folder{FOLDERS - 1}/file{file}")
        (root / f"folder{FOLDERS - 1}").rmdir()
        scene.remove(root, PIECES)
    apply(scene.image, ("e2fsck -fy", *change.commands))
    return scene


def apply(image: Path, commands: tuple[str, ...]) -> None:
    """Run tools on an image; e2fsck's exit code says what it did, not whether it could."""
    for command in commands:
        words = command.split()
        if words[0] == "e2fsck":
            assert machine._done((*words, image), None).returncode < 4
        else:
            machine.run(*words, image)


def use(scene: Scene, turn: int = 0) -> None:
    """Mount again, make files and remove some, and half of what was left of the old ones."""
    with machine.mounted(scene.image, "rw") as root:
        for number in range(12 * turn, 12 * turn + 12):
            scene.write(root, f"later{number}", bytes([number + 1]) * 700 * number)
        machine.sync(root)
        for number in range(12 * turn, 12 * turn + 12, 2):
            scene.remove(root, f"later{number}")
        for number in range(FOLDERS - 1):
            for file in range(1 + 2 * turn, FILES, 4):
                scene.remove(root, f"folder{number}/file{file}")


def recover(ext4kit: Cli, scene: Scene, out: Path) -> tuple[list[dict[str, Any]], str]:
    """(the manifest, what was said)."""
    done = ext4kit("recover", scene.image, "-o", out)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    return list(read_records(out)), done.stderr


def judge(scene: Scene, records: list[dict[str, Any]]) -> tuple[set[str], set[str]]:
    """(paths of removed files whose content came back, those with their path); nothing is wrong."""
    by_hash = {value: path for path, value in scene.written.items()}
    known = {*scene.removed, f"/folder{FOLDERS - 1}"}
    contents, paths = set(), set()
    for record in records:
        path, whole = record["path"], by_hash.get(record["sha256"])
        assert record["type"] in ("file", "directory"), record
        assert path is None or path in known, record
        if record["grade"] == "intact" and record["type"] == "file":
            assert whole == path, record
        if whole in scene.removed:
            contents.add(whole)
            assert path in (None, whole), record
            paths |= {path} - {None}
    return contents, paths


@pytest.mark.heavy
@pytest.mark.parametrize("name", CHANGES)
def test_what_was_removed_before_the_change(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path, name: str
) -> None:
    change = CHANGES[name]
    scene = make(tmp_path, change)
    assert len(scene.removed) > REMOVED
    records, said = recover(ext4kit, scene, tmp_path / "out")
    assert said.count(change.told) == 1 if change.told else not said
    contents, paths = judge(scene, records)
    assert len(contents) >= change.contents * len(scene.removed)
    assert len(paths) >= change.paths * len(scene.removed)
    named = {record["path"] for record in records} & scene.removed
    assert len(named) >= NAMED * len(scene.removed)


USED = [name for name in CHANGES if "superblock" not in name]


@pytest.mark.heavy
@pytest.mark.parametrize("name", USED)
def test_what_was_removed_before_and_after_the_change(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path, name: str
) -> None:
    """Blocks that the change moved may have been freed since: no bitmap shows who had them."""
    change = CHANGES[name]
    scene = make(tmp_path, change)
    apply(scene.image, ("e2fsck -fy",))
    use(scene)
    records, said = recover(ext4kit, scene, tmp_path / "out")
    assert change.told is None or change.told in said
    contents, paths = judge(scene, records)
    later = {path for path in scene.removed if "later" in path and scene.written[path]}
    assert {path for path in later if path != "/later0"} <= paths
    # A log that the mount starts again holds what was removed later, and no more.
    share = 0.5 if HERE.log_goes_on else 0.25 * (not HERE.clears_entries)
    assert len(paths) >= change.paths * share * len(scene.removed)


@pytest.mark.heavy
def test_what_was_removed_while_checksums_were_switched_off(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path
) -> None:
    """The log has blocks of three times: with checksums, without, and with them again."""
    scene = make(tmp_path, CHANGES["checksums switched off"])
    use(scene)
    apply(scene.image, ("e2fsck -fy", "tune2fs -O metadata_csum", "e2fsck -fy"))
    use(scene, 1)
    records, said = recover(ext4kit, scene, tmp_path / "out")
    assert SUMS in said or not HERE.log_goes_on
    _, paths = judge(scene, records)
    last = {f"/later{number}" for number in range(12, 24, 2)}
    assert (scene.removed - {"/later0"} if HERE.log_goes_on else last) <= paths
    audited = ext4kit("journal", "audit", scene.image)
    assert audited.returncode == 0, audited.stdout


def test_what_nobody_can_tell_gives_no_names(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A UUID between two others leaves nothing of it but 16 bits of each checksum."""
    if not HERE.knows_orphan_file:
        pytest.skip("the kernel logs the superblock, and the UUID with it, for each orphan")

    def long_mount_point() -> Path:  # of which the kernel logs nothing
        place = tmp_path / ("m" * 64)
        place.mkdir()
        return place

    monkeypatch.setattr(machine, "mount_point", long_mount_point)
    change = Change(
        f"-t ext4 -I 128 -O orphan_file,{BY_UUID}", ("tune2fs -U random", "e2fsck -fy"), "", 0, 0
    )
    scene = make(tmp_path, change)
    before = set(scene.removed)
    use(scene)
    try:
        apply(scene.image, ("tune2fs -U random",))
    except MachineError as error:
        pytest.skip(f"tune2fs wants a check first, which tells more ({error})")
    records, said = recover(ext4kit, scene, tmp_path / "out")
    assert said.count("the earlier values are unknown") == 1
    contents, paths = judge(scene, records)
    assert not paths
    assert len(contents & before) > 0.5 * len(before)


def test_a_block_with_the_seed_of_another_uuid_names_its_owner() -> None:
    now = replace(Superblock.parse(bytes(SUPERBLOCK.size)), uuid=bytes(range(16)))
    then = Epoch(256, crc32c(ONES, b"\1" * 16)).superblock(now)
    pair = np.array([12]), np.array([34])
    seeds = [int(inode_seeds(each, *pair)[0]) for each in (now, then)]
    number, generation = SeedIndex(now, *pair, (then,)).inodes_of(np.array([*seeds, 77]))
    assert (number.tolist(), generation.tolist()) == ([12, 12, 0], [34, 34, 0])
    assert SeedIndex(now, *pair).inodes_of(np.array(seeds))[0].tolist() == [12, 0]


def test_a_table_tells_its_inode_size_where_it_can() -> None:
    small = np.zeros((8, 64), "<u2")
    small[:, 0] = 0o100644
    assert size_told(small.reshape(-1).view(np.uint8), 256) == 128
    large = np.zeros((4, 128), "<u2")
    large[:, 0], large[:, 64] = 0o100644, 32
    assert size_told(large.reshape(-1).view(np.uint8), 256) == 256
    large[:, 64] = 0  # or small ones with every second slot empty
    assert size_told(large.reshape(-1).view(np.uint8), 256) is None
    assert size_told(large.reshape(-1).view(np.uint8), 128) == 128


def _said(ext4kit: Cli, *arguments: str | Path) -> str:
    done = ext4kit(*arguments)
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "name", ["ext3, larger inodes", "larger inodes, checksums", "another UUID"]
)
def test_other_commands_on_such_a_log(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path, name: str
) -> None:
    """The state as of a transaction before the change is not shown; the rest does its work."""
    scene = make(tmp_path, CHANGES[name])
    listed = ext4kit("journal", "list", scene.image, "--json").stdout.splitlines()
    first = next(
        one["transaction"] for one in map(json.loads, listed) if one["record"] == "transaction"
    )
    assert "were changed since" in _said(ext4kit, "ls", scene.image, "--as-of", str(first))
    shown = _said(ext4kit, "journal", "history", scene.image, "/folder0")
    assert ("transaction" in shown) == (name == "another UUID")
    timeline = _said(ext4kit, "timeline", scene.image, "--json")
    paths = {json.loads(line).get("path") for line in timeline.splitlines() if line[:1] == "{"}
    assert {path for path in paths if path and "file" in path} <= set(scene.written)


def test_a_log_that_was_never_changed_says_nothing(
    needs_kernel: None, ext4kit: Cli, tmp_path: Path
) -> None:
    scene = make(tmp_path, Change("-t ext4", (), "", 1, 1))
    records, said = recover(ext4kit, scene, tmp_path / "out")
    assert "journal" not in said
    contents, paths = judge(scene, records)
    assert contents == paths == scene.removed
