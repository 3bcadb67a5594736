"""Cases 04, 06 and 09 to 17: names, many files, directories, activity, special files, listings."""

from __future__ import annotations

import os
import random
import socket
import stat
from pathlib import Path

from sample_images.recipes.contents import WORDS
from sample_images.recipes.nist.case import Case
from sample_images.recipes.nist.placing import Site

NAMES = (
    "письмо.txt", "счёт за март.txt", "γράμμα.txt", "信件.txt", "会议记录.txt", "手紙.txt",
    "편지.txt", "จดหมาย.txt", "رسالة.txt", "מכתב.txt", "पत्र.txt", "բնակարան.txt",
    "œuvre à lire.txt",
    "e\u0301te\u0301.txt", "😀🗝.txt",
)  # fmt: skip
OTHER_BYTES = (
    b"latin-1 \xe9t\xe9.txt",
    b"shift-jis \x8e\xe8\x8e\x86.txt",
    b"koi8 \xd0\xc9\xd3.txt",
)
LARGE = 20_000_000
MANY, AGAIN = 1000, 150
LISTED, UNLISTED = 2000, 200
DEPTH = 60
ACTS, MOUNTS = 250, 4


def names(site: Site) -> None:
    """Files with names in many scripts and encodings, in a directory with such a name."""
    paths = [os.fsencode(f"документы/{name}") for name in NAMES]
    paths += [b"documents/" + name for name in OTHER_BYTES]
    for at, path in enumerate(paths):
        site.write(path, 5_000 + 1_700 * at)
    site.write("документы/остаётся.txt", 6_000)
    site.remount()
    site.remove(paths)


def large(site: Site) -> None:
    """One large file among small ones that stay."""
    for at in range(5):
        site.write(f"data/small-{at}", 20_000)
    path = site.write("data/large", LARGE)
    site.remount()
    site.remove([path])


def _thousand(site: Site) -> list[bytes]:
    chance = random.Random("a thousand files")
    paths = [
        site.write(f"many/{at // 100}/{at:04d}-{chance.choice(WORDS)}", chance.randint(1, 24_000))
        for at in range(MANY)
    ]
    for at in range(50):
        site.write(f"kept/{at:02d}", 10_000)
    site.remount()
    site.remove(paths)
    return paths


def many(site: Site) -> None:
    """A thousand files; nothing is written afterwards."""
    _thousand(site)


def many_reused(site: Site) -> None:
    """A thousand files; in a later mount new ones reuse inodes and blocks of some."""
    _thousand(site)
    site.remount()
    chance = random.Random("and others")
    for at in range(AGAIN):
        site.write(f"many/{at % 10}/new-{at:04d}", chance.randint(1, 60_000))


def directory(site: Site) -> None:
    """One directory with the files in it."""
    for at in range(8):
        site.write(f"home/letters/{at}-{WORDS[at]}", 4_000 + 5_000 * at)
    site.write("home/stays", 3_000)
    site.remount()
    site.remove_tree("home/letters")


def directories(site: Site) -> None:
    """Directories in directories, with files on each level."""
    for top in range(3):
        for middle in range(3):
            for bottom in range(3):
                folder = f"tree/{WORDS[top]}/{WORDS[3 + middle]}/{WORDS[6 + bottom]}"
                site.write(f"{folder}/deep-{top}{middle}{bottom}", 9_000 + 700 * bottom)
            site.write(f"tree/{WORDS[top]}/{WORDS[3 + middle]}/middle", 14_500)
    site.stage.mkdir("tree/empty/emptier")
    site.write("stays/here", 12_000)
    site.remount()
    site.remove_tree("tree")


def activity(site: Site) -> None:
    """Files are made, made longer, renamed, saved over and deleted at random, in four mounts."""
    chance = random.Random("random activity")
    there: list[bytes] = []
    for mount in range(MOUNTS):
        if mount:
            site.remount()
        for at in range(ACTS):
            _act(site, chance, there, f"{mount}-{at:03d}")
    site.remount()
    site.remove(there.pop(chance.randrange(len(there))) for _ in range(len(there) // 2))


def _act(site: Site, chance: random.Random, there: list[bytes], name: str) -> None:
    act = chance.choices(("write", "append", "rename", "save over", "remove"), (6, 2, 2, 1, 4))[0]
    if act == "write" or not there:
        folder = "/".join(chance.choices(WORDS[:4], k=chance.randint(1, 2)))
        there.append(site.write(f"work/{folder}/{name}", chance.randint(1, 40_000)))
        return
    path = there.pop(chance.randrange(len(there)))
    if act == "append":
        site.append(path, chance.randint(1, 9_000))
    elif act == "rename":
        new = os.path.dirname(path) + f"/renamed-{name}".encode()  # noqa: PTH120 -- bytes
        site.stage.rename(path, new)
        path = new
    elif act == "save over":
        site.save_over(path, chance.randint(1, 40_000), path + f".{name}".encode())
    else:
        site.remove([path])
        return
    there.append(path)


def _one_of_each(site: Site, top: str) -> list[str]:
    """One object of each type below a directory; their paths."""
    site.write(f"{top}/file", 21_000)
    site.write(f"{top}/empty file", 0)
    site.write(f"{top}/with two names", 9_000)
    root = site.stage.path(top)
    (root / "second name").hardlink_to(root / "with two names")
    (root / "directory").mkdir()
    (root / "short link").symlink_to("file")
    (root / "long link").symlink_to("/".join(["directory"] * 20))
    for name, kind, device in (
        ("fifo", stat.S_IFIFO, 0),
        ("char device", stat.S_IFCHR, os.makedev(5, 1)),
        ("block device", stat.S_IFBLK, os.makedev(259, 70_000)),
    ):
        os.mknod(root / name, kind | 0o640, device)
    _make_socket(root / "socket")
    site.write(f"{top}/with attributes", 7_000)
    os.setxattr(root / "with attributes", "user.note", b"kept with it")
    return [f"{top}/{path.name}" for path in sorted(root.iterdir())]


def _make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        handle = os.open(path.parent, os.O_RDONLY)  # the whole path may be too long for one
        try:
            made.bind(f"/proc/self/fd/{handle}/{path.name}")
        finally:
            os.close(handle)


def special(site: Site) -> None:
    """One object of each type is deleted."""
    paths = _one_of_each(site, "objects")
    site.write("kept", 8_000)
    site.remount()
    site.remove(paths)


def listing(site: Site) -> None:
    """One object of each type stays, and one is deleted."""
    _one_of_each(site, "stay")
    paths = _one_of_each(site, "go")
    site.remount()
    site.remove(paths)


def long_listing(site: Site) -> None:
    """Many files in one directory, of which a tenth is deleted."""
    paths = [site.write(f"wide/{at:04d} of a wide directory", at % 97) for at in range(LISTED)]
    site.remount()
    site.remove(paths[:: LISTED // UNLISTED])


def deep(site: Site) -> None:
    """Directories of sixty levels, with a file on each that stays and one that is deleted."""
    folder, doomed = "deep", []
    for level in range(DEPTH):
        folder += f"/level {level:02d}"
        site.write(f"{folder}/stays", 5_000)
        doomed.append(site.write(f"{folder}/goes", 6_000))
    site.remount()
    site.remove(doomed)


CASES = (
    Case("04", "files with names in many scripts and encodings", names),
    Case("06", "one large file, 20 MB", large, size=48),
    Case("09", "1,000 files", many, size=48),
    Case("10", "1,000 files, some overwritten by 150 later ones", many_reused, size=48),
    Case("11", "a directory with its files", directory),
    Case("12", "directories in directories with their files", directories),
    Case("13", "random activity in five mounts", activity, size=96, journal=40, slow=True),
    Case(
        "13-forgotten",
        "the same; the journal has the last transactions only",
        activity,
        size=48,
        slow=True,
    ),
    Case("14", "one object of each type: files, links, devices, a pipe, a socket", special),
    Case("15", "listing: one object of each type stays, one is deleted", listing),
    Case("16", "listing: 2,000 files in a directory, 200 of them deleted", long_listing, size=48),
    Case("17", "listing: sixty directories deep, a file of each deleted", deep),
)
