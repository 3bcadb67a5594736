"""Names of deleted files by kernel: `python -m sample_images.kernels.names FOLDER...`.

Each folder has the images of recipes as one kernel made them, with their truth. What `fls -rdp` of
The Sleuth Kit lists as deleted and what ext4kit gives are held against the truth: pairs of a path
and an inode number.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np

import ext4kit
from ext4kit.history.places import Ground
from ext4kit.recovery import DeletedFiles, find_deleted
from ext4kit.recovery.search_sources import SearchSource
from sample_images.recipes.truth import TRUTH, FileTruth, Truth, load

Pair = tuple[bytes, int]  # path, inode number
_LISTED = re.compile(rb"^(\S+) \* ([1-9]\d*)(?:\(realloc\))?:\t(.*)$", re.MULTILINE)
_ORPHANS = b"$OrphanFiles/"
ALL = "all"
ENTRY_WORDS, ENTRY_HEAD, NAME_LENGTH_AT = 66, 8, 6  # of a directory entry, of 264 bytes at most

PAGE = """# Names of deleted files, by kernel

This page is written by `make names`, from the images that the recipes make on each kernel.

Kernels before 5.13 leave a removed entry, its name and its inode number, in the directory. `fls
-rdp` of The Sleuth Kit lists such entries as they are. A path counts as *right* if it is given with
the inode number of a file that had this path and this number when it was deleted. *Standing* counts
deleted files of which a directory entry, with name and inode number, is still anywhere in the
image; no tool can find more names. The paths that ext4kit gives are counted by the evidence for
them (`path_ground`). *Listed* counts right pairs of fls that ext4kit gives only among the removed
names (`deleted --names`), and *missing* counts those that it gives nowhere.

{sums}

{tables}
"""
HEADINGS = (
    "deleted", "standing", "fls right", "fls wrong", "right", "journal", "proven", "present place",
    "wrong", "wrong present place", "listed", "missing",
)  # fmt: skip


@dataclass(slots=True)
class Names:
    """What came of the names of one image, or of several.

    Attributes:
        deleted: regular files that were deleted.
        standing: of these, those whose name and inode number stand side by side in the image.
        fls_right, fls_wrong: pairs that fls lists.
        grounds: right paths by what they rest on.
        wrong, wrong_places: paths that the file did not have when it went; those by the present
            place of a directory apart.
        listed, missing: right pairs of fls that are removed names alone, or nowhere.
    """

    deleted: int = 0
    standing: int = 0
    fls_right: int = 0
    fls_wrong: int = 0
    grounds: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    wrong_places: int = 0
    listed: int = 0
    missing: int = 0

    def add(self, other: Names) -> None:
        """Count another image in."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    def row(self, title: str) -> str:
        """A row of the table, as `HEADINGS` names its columns."""
        grounds = [self.grounds[str(ground)] for ground in Ground]
        counts = [
            self.deleted,
            self.standing,
            self.fls_right,
            self.fls_wrong,
            sum(grounds),
            *grounds,
        ]
        counts += [self.wrong, self.wrong_places, self.listed, self.missing]
        return f"| {title} | " + " | ".join(f"{count:,}" for count in counts) + " |"


def names_of(image: Path, truth: Truth) -> Names:
    """Hold fls and ext4kit against the truth of an image."""
    deleted = [one for one in truth.files if one.state == "deleted"]
    right = {(_as_listed(one.path), one.inode) for one in deleted}
    listed = _listed_by_fls(image)
    with ext4kit.open(image) as opened:
        fs = opened.volume().filesystem()
        found = find_deleted(fs, sources={SearchSource.JOURNAL, SearchSource.BLOCKS})
        result = _judged(found, deleted)
        given = {(_as_listed(file.path), file.number) for file in found if file.path}
        names = found.removed_names() or ()
        left = {(_as_listed(one.path), one.inode) for one in names if one.path}
    result.standing = _standing(image, deleted)
    result.fls_right, result.fls_wrong = len(listed & right), len(listed - right)
    result.listed = len((listed & right & left) - given)
    result.missing = len((listed & right) - given - left)
    return result


def _judged(found: DeletedFiles, deleted: list[FileTruth]) -> Names:
    """The paths of the files that the truth knows."""
    result = Names(deleted=len(deleted))
    paths = {(one.inode, one.generation): one.path for one in deleted}
    for file in found:
        path = paths.get((file.number or 0, file.generation or 0))
        if path is None or file.path is None or file.superseded or file.kind != "file":
            continue
        if file.path.lstrip(b"/") == path:
            result.grounds[str(file.path_ground)] += 1
        elif file.path_ground is Ground.PRESENT_PLACE:
            result.wrong_places += 1
        else:
            result.wrong += 1
    return result


def _standing(image: Path, deleted: list[FileTruth]) -> int:
    """Of how many files an entry is anywhere in the image, in use or not: number, length, name."""
    names: dict[int, set[bytes]] = {}
    for one in deleted:
        names.setdefault(one.inode, set()).add(one.path.rsplit(b"/", 1)[-1])
    words = np.memmap(image, "<u4", mode="r")
    found: set[tuple[int, bytes]] = set()
    for at in (4 * np.flatnonzero(np.isin(words, list(names)))).tolist():
        entry = words[at // 4 :][:ENTRY_WORDS].tobytes()
        name = entry[ENTRY_HEAD:][: entry[NAME_LENGTH_AT]] if len(entry) > ENTRY_HEAD else b""
        number = int.from_bytes(entry[:4], "little")
        if name in names[number]:
            found.add((number, name))
    return len(found)


def _listed_by_fls(image: Path) -> set[Pair]:
    """What fls lists as deleted and not as a directory."""
    done = subprocess.run(["fls", "-rdp", image], capture_output=True, check=False)
    return {
        (path, int(number))
        for kind, number, path in _LISTED.findall(done.stdout)
        if b"d" not in kind and not path.startswith(_ORPHANS)
    }


def _as_listed(path: bytes) -> bytes:
    """A path as fls shows it: without the leading slash, control characters as `^`."""
    return bytes(byte if byte >= 32 and byte != 127 else ord("^") for byte in path.lstrip(b"/"))


def table(folder: Path) -> Iterator[str]:
    """The lines of the table of one folder, the sum at its end."""
    total = Names()
    yield from _headings("recipe")
    for path in sorted(folder.glob(f"*{TRUTH}")):
        truth = load(path)
        one = names_of(path.with_name(f"{truth.recipe}.img"), truth)
        total.add(one)
        yield one.row(truth.recipe)
    yield total.row(ALL)


def _headings(first: str) -> tuple[str, str]:
    """The first two lines of a table."""
    return "| " + " | ".join((first, *HEADINGS)) + " |", "|---" * (len(HEADINGS) + 1) + "|"


def main() -> int:
    """Print a table a folder, or write them as a page."""
    parser = argparse.ArgumentParser(prog="python -m sample_images.kernels.names")
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--page", type=Path, help="write the tables here, as Markdown")
    options = parser.parse_args()
    if shutil.which("fls") is None:
        parser.exit(3, "error: no fls here: apt-get install sleuthkit\n")
    parts, sums = [], []
    for folder in options.folders:
        lines = list(table(folder))
        sums.append(lines[-1].replace(ALL, folder.name))
        parts.append(f"## Kernel {folder.name}\n\n" + "\n".join(lines))
        print("\n".join(lines), flush=True)
    if options.page:
        head = "\n".join([*_headings("kernel"), *sums])
        options.page.write_text(PAGE.format(sums=head, tables="\n\n".join(parts)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
