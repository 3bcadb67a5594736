"""Signatures agree with blkid on what the real tools make."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import ext4kit
from ext4kit.evidence import open_evidence
from ext4kit.evidence.magics import VolumeSignature
from ext4kit.evidence.raw import RawFile
from ext4kit.evidence.signatures import identify
from ext4kit.parsers.superblock import SUPERBLOCK
from tests.environment import skip_if_revision_0

Run = Callable[..., str]
Make = Callable[[str, int], Path]

VOLUMES: list[tuple[int, str]] = [
    (16, "mke2fs -q -t ext2 -L two"),
    (16, "mke2fs -q -t ext3 -L three"),
    (16, "mke2fs -q -t ext4 -L four"),
    (16, "mke2fs -q -t ext4 -O ^has_journal"),
    (16, "mke2fs -q -t ext4 -L sixteen-letters-"),
    (16, "mke2fs -q -t ext2 -O extent"),
    (16, "mke2fs -q -t ext2 -O metadata_csum"),
    (16, "mke2fs -q -t ext3 -O meta_bg,^resize_inode"),
    (16, "mke2fs -q -t ext4 -b 1024"),
    (16, "mke2fs -q -F -t ext4 -b 65536"),
    (16, "mke2fs -q -t ext2 -r 0"),
    (16, "mke2fs -q -O journal_dev -b 4096 -L log"),
    (320, "mkfs.xfs -q -L exes"),
    (128, "mkfs.btrfs -q -L butter"),
    (64, "mkreiserfs -q -f -f -l rest"),
    (32, "mkfs.jfs -q -L jay"),
    (8, "mkfs.minix -1"),
    (8, "mkfs.minix -2"),
    (8, "mkfs.minix -3"),
    (16, "mkfs.vfat -F 12 -n TWELVE"),
    (64, "mkfs.vfat -F 16 -n SIXTEEN"),
    (64, "mkfs.vfat -F 32 -n THIRTYTWO"),
    (64, "mkfs.vfat -F 32"),
    (8, "mkswap -q -L swapped"),
    (8, "mkswap -q -p 8192"),
    (8, "mkswap -q -p 65536"),
    (300, "mkfs.ocfs2 -q -x -F -M local -N 1 -L ocean"),
    (256, "mkfs.nilfs2 -q -f -L nil"),
    (16, "mkudffs --media-type=hd --label=Disc"),
    (16, "mkudffs --media-type=hd --blocksize=2048 --udfrev=0x0102 --label=Disc"),
    (16, "mkfs.exfat -L extended"),
    (128, "mkfs.gfs2 -q -O -p lock_nolock -j 1 -J 8"),
    (4, "hformat -l Classic"),
    (64, "make-bcache -B"),
    (128, "mkfs.f2fs -q -l flash"),
    (600, "mkapfs -L Apple"),
    (64, "mkfs.reiser4 -fffy -L four"),
]


def _blkid(run: Run, path: Path) -> dict[str, str]:
    lines = run("blkid", "-p", "-o", "export", path).replace("\\ ", " ").splitlines()
    return dict(line.split("=", 1) for line in lines)


def _identify(path: Path) -> VolumeSignature:
    source = RawFile(path)
    try:
        return identify(source)
    finally:
        source.close()


def _agree(run: Run, path: Path) -> None:
    told = _blkid(run, path)
    found = _identify(path)
    assert found.kind == told["TYPE"]
    assert found.version == told.get("VERSION", "")
    assert found.uuid == told.get("UUID", "")
    assert found.label == told.get("LABEL", "")
    assert not found.backup


@pytest.mark.parametrize(("size", "command"), VOLUMES, ids=[each[1] for each in VOLUMES])
def test_kind_label_and_uuid_are_what_blkid_says(
    run: Run, make: Make, size: int, command: str
) -> None:
    skip_if_revision_0(command)
    path = make("volume", size)
    run(*command.split(), path)
    _agree(run, path)


def test_ntfs_is_what_blkid_says(run: Run, make: Make) -> None:
    path = make("volume", 16)
    run("mkfs.ntfs", "-q", "-F", "-f", "-L", "Windows", path)
    _agree(run, path)
    assert _identify(path).label == "Windows"


@pytest.mark.parametrize(
    "command",
    [
        "mkfs.cramfs -n crammed FOLDER IMAGE",
        "mksquashfs FOLDER IMAGE -quiet -no-progress",
        "mkfs.erofs IMAGE FOLDER",
        "genisoimage -quiet -V plain -o IMAGE FOLDER",
        "genisoimage -quiet -J -V Joliet -o IMAGE FOLDER",
        "genisoimage -quiet -udf -V Bridge -o IMAGE FOLDER",
    ],
)
def test_an_image_of_a_folder_is_what_blkid_says(run: Run, tmp_path: Path, command: str) -> None:
    folder, image = tmp_path / "folder", tmp_path / "image"
    folder.mkdir()
    (folder / "file").write_text("content")
    places = {"FOLDER": str(folder), "IMAGE": str(image)}
    run(*(places.get(word, word) for word in command.split()))
    _agree(run, image)


@pytest.mark.parametrize("version", ["luks1", "luks2"])
def test_luks_is_what_blkid_says(run: Run, make: Make, version: str) -> None:
    path = make("volume", 32)
    cheap = ("--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000")
    run("cryptsetup", "-q", "luksFormat", "--type", version, *cheap, path, "-", text="secret")
    _agree(run, path)
    assert _identify(path).version == version.removeprefix("luks")


@pytest.mark.kernel
def test_an_lvm_member_is_what_blkid_says(run: Run, make: Make, loop: Callable[..., Path]) -> None:
    path = make("volume", 16)
    run("pvcreate", "-q", "-q", "-y", "--config", 'devices{filter=["a/.*/"]}', loop(path))
    _agree(run, path)
    assert _identify(path).kind == "LVM2_member"


@pytest.mark.parametrize("content", [bytes(1 << 20), b"\xff" * (1 << 20), b"x"])
def test_nothing_known_is_unknown(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "volume"
    path.write_bytes(content)
    assert _identify(path) == VolumeSignature("unknown")


@pytest.mark.heavy
def test_an_older_ext_superblock_does_not_hide_what_was_made_over_it(run: Run, make: Make) -> None:
    path = make("volume", 320)
    run("mkfs.xfs", "-q", path)
    other = make("other", 320)
    run("mke2fs", "-q", other)
    with path.open("r+b") as file:  # xfs leaves room where ext's superblock may survive
        file.seek(1024)
        file.write(other.read_bytes()[1024:2048])
    assert _identify(path).kind == "xfs"


# ------------------------------------------------------------------- ext without its superblock


def _wipe(path: Path, start: int, length: int) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(bytes(length))


@pytest.mark.parametrize(
    ("size", "options"),
    [
        (32, ("-b", "1024")),
        (80, ("-b", "2048")),
        (300, ("-b", "4096")),
        (1200, ("-F", "-b", "8192")),
        (40_000, ("-F", "-b", "65536")),
        (32, ("-b", "1024", "-t", "ext2", "-O", "^sparse_super,^resize_inode")),
        (300, ("-b", "1024", "-O", "bigalloc", "-C", "16384")),
    ],
    ids=lambda value: str(value),
)
def test_a_destroyed_superblock_is_told_from_a_backup(
    run: Run, make: Make, size: int, options: tuple[str, ...]
) -> None:
    path = make("volume", size)
    lazy = ("-E", "lazy_itable_init=1,lazy_journal_init=1", "-N", "4096", "-L", "behind")
    kind = () if "-t" in options else ("-t", "ext4")
    run("mke2fs", "-q", *kind, *lazy, *options, path)
    before = _blkid(run, path)
    _wipe(path, 1024, 1024)
    found = _identify(path)
    assert (found.kind, found.uuid, found.label) == (before["TYPE"], before["UUID"], "behind")
    assert found.backup
    with open_evidence(path) as evidence:
        assert [(volume.is_ext, volume.backup) for volume in evidence.volumes] == [(True, True)]


def test_the_backup_in_group_3_serves_when_group_1_is_gone_too(run: Run, make: Make) -> None:
    path = make("volume", 64)
    run("mke2fs", "-q", "-t", "ext4", "-b", "1024", path)
    _wipe(path, 0, (8193 + 1) * 1024)
    found = _identify(path)
    assert (found.kind, found.backup, found.offset) == ("ext4", True, (1 + 3 * 8192) * 1024)


def test_a_backup_of_revision_0_does_not_tell_its_group(run: Run, make: Make) -> None:
    """Its field is younger than that; e2fsprogs' own f_zero_super has 0 there."""
    skip_if_revision_0("-r 0")
    path = make("volume", 64)
    run("mke2fs", "-q", "-r", "0", "-b", "1024", path)
    with path.open("r+b") as file:
        for group in range(1, 8):
            file.seek((1 + group * 8192) * 1024 + SUPERBLOCK.offset_of("s_block_group_nr"))
            file.write(bytes(2))
    _wipe(path, 1024, 1024)
    assert "8193" in run("dumpe2fs", "-o", "superblock=8193", "-o", "blocksize=1024", path)
    assert (found := _identify(path)).backup
    assert found.offset == (1 + 8192) * 1024
    with ext4kit.open(path) as image:
        superblock = image.volume().filesystem().superblock
    assert (superblock.revision, superblock.group_number) == (0, 1)


def test_a_backup_of_another_place_is_not_believed(run: Run, make: Make) -> None:
    """The superblock of an inner image, at the place of a backup, is none."""
    path = make("volume", 64)
    run("mke2fs", "-q", "-t", "ext4", "-b", "1024", path)
    primary = path.read_bytes()[1024:2048]
    empty = make("empty", 64)
    with empty.open("r+b") as file:
        file.seek(8193 * 1024)
        file.write(primary)
    assert _identify(empty).kind == "unknown"


def test_a_damaged_superblock_without_backup_is_still_ext(run: Run, make: Make) -> None:
    path = make("volume", 4)
    run("mke2fs", "-q", "-t", "ext4", "-b", "1024", path)
    with path.open("r+b") as file:
        file.seek(1024 + SUPERBLOCK.offset_of("s_log_block_size"))
        file.write(b"\xff" * 4)
    found = _identify(path)
    assert (found.kind, found.backup) == ("ext4", False)


def test_signatures_cost_no_import_of_the_partition_reader(run: Run, make: Make) -> None:
    path = make("volume", 4)
    run("mke2fs", "-q", "-t", "ext4", path)
    code = (
        "import sys; from ext4kit.evidence import open_evidence as o;"
        " print(o(sys.argv[1]).volumes[0].kind, 'pytsk3' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(path)]
    assert subprocess.check_output(command, text=True).split() == ["ext4", "False"]
