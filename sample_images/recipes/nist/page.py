"""The page of the documentation with the results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from sample_images.recipes.nist.case import KINDS
from sample_images.recipes.nist.cases import CASES
from sample_images.recipes.nist.verdict import GRADES, Verdict

Verdicts: TypeAlias = dict[tuple[str, str], Verdict]  # by the name of the case and ext2, 3 or 4

PAGE = """# The cases of NIST

This page is written by `make nist`.

NIST tests the recovery of deleted files with [17 cases][cftt] (CFTT, DFR-01 to DFR-17). Its images
were made by older kernels. Here the cases are made again by kernel {kernel} on ext2, ext3 and ext4,
some of them in several forms, and every file is judged.

[cftt]: https://cfreds-archive.nist.gov/dfr-test-images.html

In 01 to 03, 05, 07 and 08 (not in 01-trash) the disk is full and single blocks are freed, which
leaves the allocator no choice. The fragments are therefore where the case requires them, and the
kernel's map of each file (FIEMAP) must confirm this. Files are written in one mount and deleted in
a second one; files that overwrite them are written in a third mount. Every 512 bytes of a file hold
the number of the file and their position in it, so bytes of another file are recognised.

Each cell has the number of objects recovered exactly, then the number of deleted objects of which
all bytes are left, and then, if not all of the remaining bytes were recovered, the share that was.
*Exactly* means with the full path, the type, and the same bytes and size, link target or device
numbers. The number in brackets counts files recovered with the same bytes but without the path.

{table}

On ext3 and ext4 {exact:,} of {possible:,} objects were recovered exactly, {attributes:,} of them
with their times (access, modification, creation), mode and owners. {intact:,} are graded intact;
{wrong} of these have wrong bytes or a wrong path. {sure} files graded intact or consistent hold
bytes of a foreign block (CR-04). On all three file systems, {listed:,} of {live:,} live objects are
listed with the right path, type, inode, size, times, mode and owners.

{missing:,} objects were not recovered exactly, {others:,} of them outside 13-forgotten. In
13-forgotten the transactions with the inodes are no longer in the journal, and the content of the
files is carved. If only the freed inode is left, its times are those of the deletion, and the
kernel has cleared the upper 16 bits of its owner and group.

ext2 has no journal. When a file is deleted, the kernel clears the size and the map in its inode and
the name in its directory, and no copy of them remains. The content remains: it is carved, without a
path, and ends where zeros follow it. A fragmented file is recovered as several carved files. If
texts follow each other without zeros between them (05-braid, 05-nest, 13), nothing shows where one
text ends, and two texts become one file. In case 16 old copies of directory entries remain, and
carved files are matched with them by order.

## By file system

* **possible**: deleted objects of which all bytes are left; **exact**: objects recovered exactly,
  as defined above; **attributes**: objects recovered exactly and with the right times, mode and
  owners.
* **contents**: files whose bytes are in the output, with or without their path.
* **no record**: deleted objects of which the output has no record.
* **carved**: files graded carved; the number in brackets counts those marked as fragments.
* **left**: the share of the bytes of all deleted files still in their unallocated blocks that was
  recovered at their position in the file, or in a carved file with bytes of this file.
* **CR-04**: recovered files with bytes that come from outside the deleted files (from a live file
  or from metadata) and that neither `lost` nor `problems` declares. NIST requires that there are
  none.
* **mixed**: the same, but with bytes of another deleted file. The number in brackets counts files
  with bytes of either kind that `problems` declares.
* **listed**: live objects that are listed correctly / all live objects.

{details}
"""
MAIN = ("case", "what happens", "deleted", *KINDS)
DETAIL = (
    *("case", "deleted", "possible", "exact", "attributes", "contents", *GRADES, "no record"),
    *("carved", "left", "CR-04", "mixed", "listed"),
)


def page(verdicts: Verdicts, kernel: str) -> str:
    """What was measured, as Markdown."""
    logged = [verdict for (_, kind), verdict in verdicts.items() if kind != "ext2"]
    rows = [
        (name, case.about, verdicts[name, "ext4"].deleted,
         *(_cell(verdicts[name, kind]) for kind in KINDS))
        for name, case in CASES.items()
    ]  # fmt: skip
    return PAGE.format(
        kernel=kernel,
        table=_table(MAIN, rows),
        exact=sum(one.exact for one in logged),
        possible=sum(one.possible for one in logged),
        missing=sum(one.possible - one.exact for one in logged),
        others=sum(
            one.possible - one.exact
            for (name, kind), one in verdicts.items()
            if kind != "ext2" and name != "13-forgotten"
        ),
        attributes=sum(one.attributes for one in logged),
        intact=sum(one.grades["intact"] for one in logged),
        sure=sum(one.foreign_in_whole for one in verdicts.values()),
        wrong=sum(len(one.wrong) for one in verdicts.values()),
        listed=sum(one.listed for one in verdicts.values()),
        live=sum(one.live for one in verdicts.values()),
        details="\n\n".join(f"### {kind}\n\n{_details(verdicts, kind)}" for kind in KINDS),
    )


def _cell(verdict: Verdict) -> str:
    nameless = f" ({verdict.nameless})" if verdict.nameless else ""
    share = "" if verdict.back == verdict.parts else f", {_share(verdict)}"
    return f"{verdict.exact}{nameless} / {verdict.possible}{share}"


def _details(verdicts: Verdicts, kind: str) -> str:
    return _table(DETAIL, [_detail(name, verdicts[name, kind]) for name in CASES])


def _detail(name: str, one: Verdict) -> tuple[object, ...]:
    fragments = f" ({one.fragments})" if one.fragments else ""
    declared = f" ({one.declared.total()})" if one.declared else ""
    return (
        *(name, one.deleted, one.possible, one.exact, one.attributes, one.contents),
        *(one.grades[grade] for grade in GRADES), one.grades[""],
        f"{one.carved}{fragments}", _share(one),
        one.outside.total(), f"{one.mixed.total()}{declared}", f"{one.listed} / {one.live}",
    )  # fmt: skip


def _share(verdict: Verdict) -> str:
    return f"{100 * verdict.back // verdict.parts}%" if verdict.parts else "-"


def _table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
