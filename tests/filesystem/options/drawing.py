"""The option sets: what mke2fs is asked for, how it is mounted, how it is changed afterwards."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.environment import makes_revision_0

# mke2fs does not know the others, or they are not those of a file system (journal_dev).
FEATURES = (
    "has_journal", "ext_attr", "resize_inode", "dir_index", "filetype", "extent", "64bit",
    "flex_bg", "meta_bg", "sparse_super", "sparse_super2", "large_file", "huge_file",
    "uninit_bg", "dir_nlink", "extra_isize", "metadata_csum", "metadata_csum_seed", "quota",
    "project", "orphan_file", "inline_data", "ea_inode", "large_dir", "casefold", "encrypt",
    "verity", "mmp", "bigalloc", "fast_commit", "stable_inodes",
)  # fmt: skip
WITHOUT = {"meta_bg": "resize_inode", "sparse_super2": "resize_inode"}
NEEDS = {
    "metadata_csum_seed": "metadata_csum", "orphan_file": "has_journal", "bigalloc": "extent",
    "64bit": "extent", "project": "quota", "fast_commit": "has_journal",
}  # fmt: skip
OFTEN = ("bigalloc", "meta_bg", "quota", "orphan_file", "inline_data", "sparse_super2")
LARGEST_MOUNTED = 4096  # bytes of a block: a page
CHANGES = (
    "grow online", "grow offline", "shrink", "shrink most", "64bit", "not 64bit", "metadata_csum",
    "not metadata_csum", "uninit_bg", "extents", "inode size", "uuid", "no journal", "journal",
    "quota", "no quota", "project", "orphan_file", "no orphan_file", "no resize_inode", "reindexed",
    "no flex_bg", "hash", "ea_inode", "sparse_super", "raid", "inline_data", "read-only",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OptionSet:
    """One file system to make.

    Attributes:
        seed: all else, and the filling, follow from it.
        options: of mke2fs, without the block size.
        block_size: bytes; blocks: of the file system when it is made.
        room: blocks of the image.
        bad_blocks: block numbers for `mke2fs -l`.
        mount_options: for where there is a journal, as mount takes them.
        changes: names out of `CHANGES`, in the order in which they are made.
    """

    seed: int
    options: tuple[str, ...]
    block_size: int
    blocks: int
    room: int
    bad_blocks: tuple[int, ...]
    mount_options: str
    changes: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command of mke2fs in one line, without the image."""
        return " ".join(("mke2fs", *self.options, "-b", str(self.block_size)))


def draw(seed: int) -> OptionSet:
    """The option set of a seed."""
    chance = random.Random(seed)
    block_size = chance.choice((1024,) * 4 + (2048,) * 2 + (4096,) * 4 + (8192, 16384, 65536))
    blocks = chance.randrange(2100, 9000 if block_size <= LARGEST_MOUNTED else 3000)
    if chance.random() < 0.1:
        blocks = chance.randrange(100, 2100)
    kind = chance.choice(("ext2", "ext3", "ext4", "ext4", "ext4"))
    asked = _features(chance, kind)
    options = ["-t", kind, *_feature_words(asked)]
    options += _geometry(chance, kind, asked, block_size, blocks)
    options += _extended(chance, asked, block_size, blocks)
    options += _journal(chance, asked, block_size, blocks)
    options += _rarely(chance, asked)
    bad = tuple(sorted(chance.sample(range(blocks // 2, blocks), 5)))
    return OptionSet(
        seed=seed,
        options=tuple(options),
        block_size=block_size,
        blocks=blocks,
        room=blocks * chance.choice((1, 1, 2, 3)) + chance.randrange(8),
        bad_blocks=bad if chance.random() < 0.03 else (),
        mount_options=_mount_options(chance),
        changes=tuple(chance.sample(CHANGES, chance.choice((0, 0, 0, 1, 1, 2)))),
    )


def _features(chance: random.Random, kind: str) -> dict[str, bool]:
    """Features that are asked for (True) or refused (False); the others are left to mke2fs."""
    share = chance.choice((0.05, 0.15, 0.3))
    wanted = {"mmp": share / 5, "casefold": share / 2} | dict.fromkeys(OFTEN, max(share, 0.2))
    asked = {
        name: chance.random() < 0.5
        for name in FEATURES
        if chance.random() < wanted.get(name, share)
    }
    if asked.get("bigalloc") and chance.random() < 0.4:  # what they change lies together
        asked["meta_bg"] = True
    if chance.random() < 0.9:  # the rest is refused by mke2fs, or made in another way
        _bring_in_order(asked, kind)
    return asked


def _bring_in_order(asked: dict[str, bool], kind: str) -> None:
    """Add what features need and drop what they exclude."""
    for name, other in NEEDS.items():
        if asked.get(name) and (kind != "ext4" or other in asked):
            asked[other] = True
    if kind == "ext4" and asked.get("extent") is False:
        asked["64bit"] = asked["bigalloc"] = False
    for name, other in WITHOUT.items():
        if asked.get(name):
            asked[other] = False
    if asked.get("sparse_super") is False:
        asked["resize_inode"] = False
    if asked.get("metadata_csum"):
        asked["uninit_bg"] = False


def _feature_words(asked: dict[str, bool]) -> list[str]:
    words = [name if wanted else f"^{name}" for name, wanted in asked.items()]
    return ["-O", ",".join(words)] if words else []


def _geometry(
    chance: random.Random, kind: str, asked: dict[str, bool], block_size: int, blocks: int
) -> list[str]:
    words = []
    large = any(asked.get(name) for name in ("project", "inline_data"))
    inode_size = chance.choice((0, 256 if large else 128, 256, 256, 512, 1024, 2048))
    if inode_size and inode_size <= block_size:
        words += ["-I", str(inode_size)]
    if chance.random() < 0.5:
        words += ["-N", str(chance.randrange(60, 2000))]
    if asked.get("bigalloc") and chance.random() < 0.9:
        words += ["-C", str(block_size * 2 ** chance.randrange(1, 7))]
    if chance.random() < 0.5:  # with bigalloc these are clusters
        most = min(blocks, 8 * block_size, 65528)
        words += ["-g", str(8 * chance.randrange(32, max(most // 8, 33) + 1))]
    if asked.get("flex_bg", kind == "ext4") and chance.random() < 0.5:
        words += ["-G", str(2 ** chance.randrange(7))]
    return words


def _extended(
    chance: random.Random, asked: dict[str, bool], block_size: int, blocks: int
) -> list[str]:
    drawn = {
        "packed_meta_blocks": (0.15, "1"),
        "num_backup_sb": (0.6 if asked.get("sparse_super2") else 0.02, str(chance.randrange(3))),
        "lazy_itable_init": (0.3, str(chance.randrange(2))),
        "lazy_journal_init": (1.0 if block_size > LARGEST_MOUNTED else 0.5, "1"),
        "desc_size": (0.15 if asked.get("64bit") else 0.0, "128"),
        "stride": (0.1, str(chance.randrange(1, 64))),
        "stripe_width": (0.1, str(chance.randrange(1, 256))),
        "resize": (
            0.1 if asked.get("resize_inode", True) else 0.0,
            str(blocks * chance.choice((2, 10, 1000))),
        ),
        "root_owner": (0.1, f"{chance.randrange(1 << 32)}:{chance.randrange(1 << 32)}"),
        "quotatype": (
            0.7 if asked.get("quota") else 0.0,
            chance.choice(("usrquota", "grpquota", "usrquota:grpquota", "usrquota:prjquota")),
        ),
        "orphan_file_size": (
            0.6 if asked.get("orphan_file") else 0.0,
            str(block_size * chance.choice((1, 2, 32, 100, 600))),
        ),
        "encoding_flags": (0.3 if asked.get("casefold") else 0.0, "strict"),
        "mmp_update_interval": (0.5 if asked.get("mmp") else 0.0, "3"),
        "assume_storage_prezeroed": (0.2, "1"),
    }
    words = [f"{name}={value}" for name, (share, value) in drawn.items() if chance.random() < share]
    if chance.random() < 0.05:
        words.append("test_fs")
    return ["-E", ",".join([*words, "nodiscard"])]


def _journal(
    chance: random.Random, asked: dict[str, bool], block_size: int, blocks: int
) -> list[str]:
    if chance.random() > 0.3 or blocks < 2048:
        return []
    least = max(1024 * block_size >> 20, 1)
    words = [f"size={least * chance.choice((1, 1, 2))}"]
    if chance.random() < 0.5:
        words.append(f"location={chance.randrange(blocks) * block_size >> 10}k")
    if asked.get("fast_commit") and chance.random() < 0.5:
        words.append(f"fast_commit_size={chance.choice((256, 512))}")
    return ["-J", ",".join(words)]


def _rarely(chance: random.Random, asked: dict[str, bool]) -> list[str]:
    words = []
    if chance.random() < 0.03 and makes_revision_0():
        words += ["-r", "0"]
    if chance.random() < 0.2 and asked.get("metadata_csum") is False:
        words += ["-o", chance.choice(("freebsd", "lites"))]
    if chance.random() < 0.2:
        words += ["-m", str(chance.randrange(0, 30))]
    if chance.random() < 0.2:
        words += ["-L", "label", "-M", "/mounted/last"]
    return words


def _mount_options(chance: random.Random) -> str:
    words = ["noatime"]
    words += chance.choice(([], [], ["data=journal"], ["data=writeback"]))
    words += chance.choice(([], [], ["nodelalloc"], ["dioread_lock"], ["journal_async_commit"]))
    return ",".join(words)
