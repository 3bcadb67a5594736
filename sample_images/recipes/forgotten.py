"""Recipes for what the log has forgotten: it went round many times, or there never was one.

In each the files are old when they go: made, unmounted, mounted again, and the log then filled
with other things several times over. What is left are the freed blocks themselves.
"""

from __future__ import annotations

import os
import random
import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path

from sample_images.recipes.contents import WORDS, noise
from sample_images.recipes.documents import (
    DATABASES,
    SUFFIXES,
    document,
    real_files,
    usual_size,
)
from sample_images.recipes.logwalk import copies_in_log
from sample_images.recipes.ondisk import Disk
from sample_images.recipes.packages import listed_tree, unlisted_tree
from sample_images.recipes.recipe import MIB, Recipe, make_ballast, shuffled, wrap_log
from sample_images.recipes.stage import Stage
from sample_images.recipes.syscalls import Fallocate, fallocate

KIB = 1 << 10
BALLAST = 1600  # in a hundred inode-table blocks: a round fills a tenth of a log of 4 MiB
PER_BLOCK = 16  # inodes
ROUNDS = 50
PUNCH = Fallocate.PUNCH_HOLE | Fallocate.KEEP_SIZE
LOG = ("-J", "size=4")

Make = Callable[[Stage, str, int], list[bytes]]


# -- what is made -----------------------------------------------------------------------------


def documents(stage: Stage, top: str, number: int, most: int = 200 * KIB) -> list[bytes]:
    """Texts in nested folders, in several goes as people make them."""
    chance = random.Random(f"documents {top} {number}")
    paths: list[bytes] = []
    for at in range(number):
        folder = "/".join(chance.choices(WORDS[:7], k=chance.randint(1, 3)))
        path = f"{top}/{folder}/{chance.choice(WORDS)}-{at:05d}{chance.choice(SUFFIXES)}"
        stage.write(path, document(path, usual_size(chance, most)))
        paths.append(path.encode())
        if chance.random() < 0.02:
            stage.sync()
    return paths


def indirect_sizes(stage: Stage, top: str, number: int) -> list[bytes]:
    """Documents, and files on both sides of each border of a map by indirect blocks."""
    paths = documents(stage, top, number)
    block = os.statvfs(stage.root).f_bsize
    direct, single = 12 * block, (12 + block // 4) * block
    sizes = [direct - 1, direct, direct + 1, 2 * direct, 5 * direct, single - 1]
    sizes += [single + 1, single + 3 * block + 7, 2 * single]
    if block == KIB and not stage.small:
        sizes.append((12 + 256 + 256 * 256 + 300) * block + 5)
    for at, size in enumerate(sizes):
        path = f"{top}/borders/{at:02d}.bin"
        stage.write(path, noise(path, size - 1) + b".")
        paths.append(path.encode())
    return paths


def fragmented(stage: Stage, top: str, number: int) -> list[bytes]:
    """Files of more extents than an inode holds: with holes, or in splintered free space."""
    chance = random.Random(f"fragmented {top}")
    paths = [f"{top}/{chance.choice(WORDS)}-{at:03d}.img".encode() for at in range(number)]
    choices = (5, 7, 20, 90) if stage.small else (5, 7, 20, 340, 700)
    lengths = {path: chance.choice(choices) for path in paths}
    if not stage.small:
        lengths[paths[0]] = 1500  # more leaves than an inode has room for
    sieves, dense = paths[::2], paths[1::2]
    for path in sieves:
        _write_pieces(stage, path, lengths[path], 2)
    stage.sync()
    _splinter(stage, sum(lengths[path] for path in dense) + 8)
    for path in dense:
        _write_pieces(stage, path, lengths[path], 1)
    return paths


def _write_pieces(stage: Stage, path: bytes, number: int, step: int) -> None:
    """A file of so many blocks, at each `step`-th place of the file."""
    stage.write(path, b"")
    pieces = ((at, _piece(path, at, at == number - 1)) for at in range(number))
    stage.add(path, ((at * step * 4096, piece) for at, piece in pieces))


def _splinter(stage: Stage, blocks: int) -> None:
    """Give all free space to a file that was never written, but for `blocks` single blocks."""
    Path(f"/sys/fs/ext4/{stage.device.name}/reserved_clusters").write_text("0")
    filler = stage.path("ballast/filler")
    with filler.open("xb") as stream:
        keep = 64 + blocks // 100  # for the leaves of all files
        fallocate(stream.fileno(), 0, 0, _free(stage) - keep * 4096)
        for at in range(4096, (2 * blocks + 1) * 4096, 8192):
            fallocate(stream.fileno(), PUNCH, at, 4096)
    stage.sync()


def _piece(path: bytes, at: int, last: bool) -> bytes:
    """A block of a file, or the odd number of bytes that it ends with."""
    seed = f"{path!r} piece {at}"
    size = random.Random(seed).randint(1, 4095) if last else 4096
    piece = document(seed + ".txt", size)[:size] if at % 3 else noise(seed, size)
    return piece[:-1] + b"." if last else piece


def small_many(stage: Stage, top: str, number: int) -> list[bytes]:
    """Very many small files, a few dozen a folder."""
    source = document("many.log", 2 * MIB)
    paths: list[bytes] = []
    for at in range(number):
        start = at * 2_654_435_761 % (len(source) - 9000)
        path = f"{top}/{at // 4000:03d}/{at // 50 % 80:02d}/message-{at:06d}.eml"
        folder = stage.path(path).parent
        if at % 50 == 0:
            folder.mkdir(parents=True, exist_ok=True)
        size = 1 + start % 8000
        stage.path(path).write_bytes(b"From %d\n%s\n" % (at, source[start : start + size]))
        paths.append(path.encode())
    return paths


def of_the_machine(stage: Stage, top: str, number: int) -> list[bytes]:
    """Programs, libraries, icons, archives, databases, scripts and documents that are here."""
    most = 128 * KIB if stage.small else 4 * MIB
    paths: list[bytes] = []
    for path, source in real_files(number * (100 - DATABASES) // 100, most):
        stage.write(b"%s/%s" % (top.encode(), path), source.read_bytes())
        paths.append(b"%s/%s" % (top.encode(), path))
    for at in range(number * DATABASES // 100):
        name = f"{top}/home/anna/.config/app-{at}/store.sqlite"
        stage.write(name, _database(at))
        paths.append(name.encode())
    return paths


def _database(seed: int) -> bytes:
    """An SQLite database of some hundred rows, pages of it empty at its end."""
    chance = random.Random(f"database {seed}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "made")
        base = sqlite3.connect(path)
        base.execute("create table visits (id integer primary key, url text, note blob)")
        base.execute("create index by_url on visits (url)")
        for _ in range(chance.randint(20, 900)):
            url = f"https://{chance.choice(WORDS)}.example/{chance.getrandbits(40):x}"
            row = (url, bytes(chance.randint(0, 300)))
            base.execute("insert into visits (url, note) values (?, ?)", row)
        base.commit()
        base.close()
        return path.read_bytes()


# -- how it goes ------------------------------------------------------------------------------


def _prepare(stage: Stage) -> list[bytes]:
    """What the log is to be filled with, in inode-table blocks that no other file is in."""
    return make_ballast(stage, BALLAST) if stage.has_log else []


def _forget(stage: Stage, ballast: list[bytes]) -> None:
    """A remount, and so much else that the log goes round several times."""
    stage.remount()
    if ballast:
        wrap_log(stage, ballast[::PER_BLOCK], ROUNDS)


def _some(paths: list[bytes], seed: str, share: float) -> list[bytes]:
    return shuffled(paths, seed)[: int(len(paths) * share)]


def old_files(make: Make, full: int, small: int) -> Callable[[Stage], None]:
    """Files made long before; most of them are removed, some between them stay."""

    def act(stage: Stage) -> None:
        ballast = _prepare(stage)
        paths = make(stage, "home", stage.count(full, small))
        _forget(stage, ballast)
        stage.remove(_some(paths, "old", 0.8))

    return act


def old_trees(make: Make, full: int, small: int) -> Callable[[Stage], None]:
    """Two trees made long before, one removed whole, its folders too."""

    def act(stage: Stage) -> None:
        ballast = _prepare(stage)
        make(stage, "home/anna/stays", stage.count(full, small) // 4)
        make(stage, "home/anna/project", stage.count(full, small))
        _forget(stage, ballast)
        stage.remove_tree("home/anna/project")

    return act


def many(stage: Stage) -> None:
    """60,000 of 400,000 files: single ones, runs of twenty, and whole folders of fifty."""
    ballast = _prepare(stage)
    paths = small_many(stage, "spool", stage.count(400_000, 4000))
    _forget(stage, ballast)
    stage.remove([path for at, path in enumerate(paths) if goes(at)])


def goes(at: int) -> bool:
    """15 in 100: of ten folders of fifty files one goes, one loses 20 in a row, others one each."""
    folder, place = divmod(at, 50)
    match folder % 10:
        case 3:
            return True
        case 6:
            return place < 17
        case _:
            return place == 29


def busy(stage: Stage) -> None:
    """On a full disk files go, and new ones take about half of the space that they had."""
    ballast = _prepare(stage)
    doomed = documents(stage, "old", stage.count(900, 240))
    stage.sync()
    _fill(stage, "ballast/fill", _free(stage) - _size(stage) // 32)
    _forget(stage, ballast)
    before = _free(stage)
    stage.remove(doomed)
    stage.sync()
    freed = _free(stage) - before
    at = 0
    while _free(stage) > before + freed // 2:
        documents(stage, f"new-{at:02d}", 10)
        stage.sync()
        at += 1
    _forget(stage, ballast)


def _free(stage: Stage) -> int:
    """Free bytes that a file could have."""
    found = os.statvfs(stage.root)
    return found.f_bfree * found.f_bsize


def _size(stage: Stage) -> int:
    found = os.statvfs(stage.root)
    return found.f_blocks * found.f_bsize


def _fill(stage: Stage, name: str, size: int) -> None:
    """One file that takes so many bytes."""
    piece = noise(name, MIB)
    stage.write(name, b"")
    stage.add(name, ((at, piece[: size - at]) for at in range(0, size, MIB)))


def partly(stage: Stage) -> None:
    """Half of the files were made before the log went round, half after; all go."""
    ballast = _prepare(stage)
    early = documents(stage, "early", stage.count(200, 60))
    _forget(stage, ballast)
    late = documents(stage, "late", stage.count(200, 60))
    stage.remount()
    stage.remove(shuffled(early + late, "partly"))


def edge(stage: Stage) -> None:
    """The log's head stands in the transaction that made the files: no descriptor, but copies."""
    ballast = _prepare(stage)
    stage.sync()
    paths: list[bytes] = []
    chance = random.Random("edge")
    for at in range(360):
        path = f"edge/{at // 6:02d}/{chance.choice(WORDS)}-{at:03d}{chance.choice(SUFFIXES)}"
        stage.write(path, document(path, usual_size(chance, 60 * KIB)))
        paths.append(path.encode())
    stage.remount()
    names = [path.rsplit(b"/", 1)[-1] for path in paths]
    while not _only_undescribed(stage, names):
        wrap_log(stage, ballast[: 8 * PER_BLOCK : PER_BLOCK], 1)
    stage.remove([path for at, path in enumerate(paths) if at // 6 % 4 == 1])


def _only_undescribed(stage: Stage, names: list[bytes]) -> bool:
    """Whether the log has names, and none of them in a block that a descriptor still names."""
    with Disk(stage.device) as disk:
        copies = copies_in_log(disk)
    described = b"".join(chain.from_iterable(copies.described.values()))
    return not any(name in described for name in names)


def _recipe(
    name: str, about: str, act: Callable[[Stage], None], options: Iterable[str], size: int,
    small_size: int, mount_options: str = "", slow: bool = False,
) -> Recipe:  # fmt: skip
    return Recipe(
        f"forgotten_{name}", about, act, tuple(options), size * MIB, small_size=small_size * MIB,
        mount_options=mount_options, slow=slow, forgotten=True,
    )  # fmt: skip


EXT4 = ("-t", "ext4", *LOG)
PLAIN = (*EXT4, "-O", "^metadata_csum")
EXT3 = ("-t", "ext3", *LOG)
EXT2 = ("-t", "ext2", "-b", "1024")
AS_EXT3 = "nodelalloc"  # what the kernel does for `mount -t ext3` and `-t ext2`
DOCUMENTS = old_files(documents, 300, 80)
INDIRECT = old_files(indirect_sizes, 200, 100)
LEAVES = old_files(fragmented, 40, 12)
TREE = old_trees(documents, 400, 100)

RECIPES = (
    _recipe("documents", "old texts, logs and settings", DOCUMENTS, EXT4, 128, 24),
    _recipe("no_journal", "the same without a journal", DOCUMENTS,
            ("-t", "ext4", "-O", "^has_journal"), 128, 24),
    _recipe("ext3", "indirect blocks, the log went round", INDIRECT, EXT3, 256, 48, AS_EXT3),
    _recipe("ext2", "indirect blocks of 1 KiB, no journal", INDIRECT, EXT2, 256, 24, AS_EXT3),
    _recipe("many", "60,000 of 400,000 removed in one go", many,
            (*EXT4, "-i", "4096"), 3072, 48, slow=True),
    _recipe("leaves", "files with extent leaves", LEAVES, EXT4, 256, 32),
    _recipe("leaves_plain", "files with extent leaves, no checksums", LEAVES, PLAIN, 256, 32),
    _recipe("tree", "a tree removed whole", TREE, EXT4, 128, 24),
    _recipe("tree_plain", "a tree removed whole, no checksums", TREE, PLAIN, 128, 24),
    _recipe("packages", "a tree of packages removed whole, lists of its files live", listed_tree,
            EXT4, 256, 48),
    _recipe("unlisted", "the same tree of packages without lists", unlisted_tree, EXT4, 256, 48),
    _recipe("busy", "half of the freed space reused", busy, EXT4, 64, 24),
    _recipe("real", "a mix of files of this machine", old_files(of_the_machine, 312, 60),
            EXT4, 384, 32),
    _recipe("edge", "the log has the copies, and the descriptor no more", edge, EXT4, 64, 32),
    _recipe("part", "the log still covers half of the files", partly, EXT4, 128, 32),
)  # fmt: skip
