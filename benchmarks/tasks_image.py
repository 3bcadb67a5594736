"""A disk of 10 GiB with 400,000 files and two volumes, a day old, for everyday tasks.

`python -m benchmarks.tasks_image DISK`, in a kernel that owns its clock: a day and two hours ago
the tree and the files of a user were made; during the last hour some were deleted and changed.
"""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

from benchmarks.growth_image import create
from sample_images.recipes.contents import noise
from sample_images.recipes.documents import document
from sample_images.recipes.machine import mounted, move_clock, owns_clock, run, sync

FILES = 400_000
MEBIBYTE = 1 << 20
BOOT = (1 * MEBIBYTE, 256 * MEBIBYTE)  # first byte and length
DATA = (257 * MEBIBYTE, 10240 * MEBIBYTE)
DISK = DATA[0] + DATA[1] + MEBIBYTE
HOUR = 3600
PICTURES = 40
PIXELS = 300  # of a picture's side


def build(disk: Path) -> None:
    """Make the disk in a new sparse file.

    Raises:
        MachineError: a tool failed.
    """
    assert owns_clock(), "the kernel's clock has to be its own"
    move_clock(-26 * HOUR)
    with disk.open("xb") as made:
        made.truncate(DISK)
    sectors = "".join(
        f"start={at // 512},size={size // 512},type=83\n" for at, size in (BOOT, DATA)
    )
    run("sfdisk", "--quiet", disk, stdin=f"label: dos\n{sectors}".encode())
    for (at, size), label in ((BOOT, "boot"), (DATA, "data")):
        options = ("-t", "ext4", "-b", "4096", "-L", label, "-E", f"offset={at},nodiscard")
        run("mke2fs", "-q", "-F", *options, disk, str(size // 4096))
    with mounted(disk, "rw", *BOOT) as root:
        (root / "vmlinuz").write_bytes(noise("vmlinuz", 8 * MEBIBYTE))
        (root / "old.conf").write_text("quiet\n")
    with mounted(disk, "rw", *DATA) as root:
        create(root, FILES)
        _make_home(root / "home/me")
        sync(root)
        move_clock(25 * HOUR)
        for number in range(0, PICTURES, 2):
            (root / f"home/me/pictures/{number:02}.png").unlink()
        (root / "home/me/thesis.odt").unlink()
        (root / "home/me/project/main.c").write_bytes(document("new.c", 9000))
        (root / "home/me/project/notes.txt").unlink()
        sync(root)
        move_clock(HOUR / 2)
    with mounted(disk, "rw", *BOOT) as root:
        (root / "old.conf").unlink()


def _make_home(home: Path) -> None:
    for folder in ("pictures", "project/doc"):
        (home / folder).mkdir(parents=True)
    for number in range(PICTURES):
        (home / f"pictures/{number:02}.png").write_bytes(_picture(number))
    (home / "thesis.odt").write_bytes(noise("thesis", 614_000))
    for name, size in (("main.c", 8000), ("notes.txt", 3000), ("doc/plan.txt", 12_000)):
        (home / "project" / name).write_bytes(document(name, size))


def _picture(number: int) -> bytes:
    """A PNG of grey noise, no two alike."""
    rows = noise(f"picture {number}", PIXELS * PIXELS)
    lines = b"".join(b"\0" + rows[at : at + PIXELS] for at in range(0, len(rows), PIXELS))
    head = struct.pack(">IIBBBBB", PIXELS, PIXELS, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


if __name__ == "__main__":
    build(Path(sys.argv[1]))
