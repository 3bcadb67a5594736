"""Random histories: `python -m sample_images.recipes.random_history`.

Each layout is mounted by the kernel, things happen to its files at random, the power goes or
stays. What ext4kit then says of the image is held against the book: no file that it calls
intact may hold bytes that this life never held, no path may be one that it never had.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import struct
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from sample_images.kernels import truth
from sample_images.recipes import machine, syscalls
from sample_images.recipes.history_acts import Acts
from sample_images.recipes.history_book import Book
from sample_images.recipes.history_judge import Content, Verdict, judge
from sample_images.recipes.history_layouts import LAYOUTS, Layout
from sample_images.recipes.syscalls import Cut

JOURNAL_HEAD = 1024  # bytes of the journal's superblock, and places in it
SEQUENCE_AT, INCOMPAT_AT, CHECKSUM_AT = 24, 40, 252
CHECKSUMS = 0x18  # the features csum_v2 and csum_v3
ENDINGS = ("unmounted", "copied", "cut", "cut after a commit")
AFTERWARDS = ("", "", "e2fsck", "replayed")
CALM = 0.4  # of the histories: every mount ends with an unmount
CALM_AT_LAST = 0.8  # of their last mounts are quiet ones
QUIET, QUIET_AT_LAST = 0.2, 0.6  # of the mounts after the first: files go, none is written
BREAK_EVERY = 130  # operations between two mounts, on average
UNTIL_MOUNTED = (1, 200_000)  # seconds between two mounts, in a kernel that owns its clock

PAGE = """# How often a grade is right

Written by `{command}`.

Random histories ran on {images} images of all layouts, on kernel {kernel}: files were created,
written, truncated, renamed and deleted within seconds, also with direct I/O and through mappings.
Each mount ended with an unmount, a copy of the mounted device or a power cut, and some were
followed by e2fsck or a replay. The recovered content of each deleted file is compared with its last
content.

{table}

Of {intact} files graded intact, {wrong} have bytes that differ from the last content of the file.
Of the files that were recovered exactly and are not empty, {kept} are graded intact or consistent.
Wrong paths, which the file never had: {wrong_paths} of {paths}. *Older* is an earlier content of
the same file. *Empty* is no bytes or only zeros. *Mixed* has some bytes that never belonged to the
file. *Foreign* has no bytes that belonged to the file. If a record is marked as an earlier version,
it is compared with every version of the file.

Such histories are harder than real disks: most files are deleted within a second of their last
change, and the next files take their blocks.

| layout | deleted files | intact | of these wrong | consistent | of these exact |
|---|---|---|---|---|---|
{layouts}
"""


@dataclass(frozen=True, slots=True)
class History:
    """One history that was told.

    Attributes:
        image: what is left of it.
        breaks: how its mounts ended, the last one last.
    """

    layout: Layout
    seed: int
    image: Path
    book: Book
    breaks: tuple[str, ...]


class _Teller:
    """Tells one history on one image."""

    def __init__(self, layout: Layout, seed: int, image: Path) -> None:
        self.layout = layout
        self.image = image
        self.chance = random.Random(f"{layout.name} {seed}")
        self.root = machine.mount_point()
        self.acts = Acts(self.root, layout, self.chance)
        self.breaks: list[str] = []
        self.calm = self.chance.random() < CALM

    def tell(self, operations: int) -> None:
        """All of it: mounts with operations between them, and how each of them ends."""
        machine.make_file_system(self.image, self.layout.size, self.layout.options)
        try:
            while operations > 0:
                some = min(operations, self.chance.randint(BREAK_EVERY // 3, BREAK_EVERY * 5 // 3))
                operations -= some
                self._mount_once(some, last=operations == 0)
                self._between(last=operations == 0)
        finally:
            self.root.rmdir()

    def _mount_once(self, operations: int, last: bool) -> None:
        ending = "unmounted" if self.calm else self.chance.choices(ENDINGS, (6, 2, 2, 1))[0]
        with machine.loop_device(self.image) as device:
            self._mount(device)
            try:
                if self.breaks:
                    self.acts.look_again()
                share = CALM_AT_LAST if self.calm and last else QUIET_AT_LAST if last else QUIET
                quiet = bool(self.breaks) and self.chance.random() < share
                if self.calm and not self.breaks:
                    self.acts.create_many()
                if quiet:
                    operations = max(operations // 4, len(self.acts.book.of_kind("file")))
                for _ in range(operations):
                    (self.acts.act_quietly if quiet else self.acts.act)()
                self._end(ending)
            finally:
                self.acts.let_all_go()
                machine.unmount(self.root)
        if ending == "copied":
            self._copy.replace(self.image)
        self.breaks.append(ending)

    def _mount(self, device: Path) -> None:
        """Mount; where the kernel does not take its own fast commits back, after a check."""
        options = self.layout.mount_options or "rw"
        try:
            machine.mount(device, self.root, options)
        except machine.MachineError:
            if not self.layout.name.startswith("fast_commit"):
                raise
            machine.check(device)
            self.breaks.append("e2fsck")
            machine.mount(device, self.root, options)

    @property
    def _copy(self) -> Path:
        return self.image.with_suffix(".copy")

    def _end(self, ending: str) -> None:
        if ending == "copied":
            machine.copy_sparse(self.image, self._copy)
        elif ending != "unmounted":
            how = Cut.LOG_FLUSHED if ending == "cut after a commit" else Cut.AT_ONCE
            syscalls.shut_down(self.root, how)

    def _between(self, last: bool) -> None:
        """What happens to an image that is not mounted; a broken ext2 is always checked."""
        after = "" if self.calm else self.chance.choice(AFTERWARDS)
        unsound = self.layout.name == "ext2" and self.breaks[-1] != "unmounted"
        if after == "e2fsck" or unsound:
            machine.check(self.image)
            self.breaks.append("e2fsck")
        elif after == "replayed" and last:
            self._replay()
        if not last and self.layout.new_log and self.chance.random() < 0.25:
            self.chance.choice((self._make_new_log, self._count_anew))()
        if machine.owns_clock():
            machine.move_clock(self.chance.uniform(*UNTIL_MOUNTED))

    def _replay(self) -> None:
        """A mount without any act; e2fsck where the kernel refuses its own fast commits."""
        try:
            with machine.mounted(self.image, "rw"):
                self.breaks.append("replayed")
        except machine.MachineError:
            machine.check(self.image)
            self.breaks.append("e2fsck")

    def _make_new_log(self) -> None:
        """The log of an old file system is taken away and made anew: it counts from one."""
        machine.check(self.image)
        machine.copy_sparse(self.image, self._copy)
        machine.run("debugfs", "-w", "-R", "set_super_value mkfs_time 20200101000000", self.image)
        machine.run("tune2fs", "-O", "^has_journal", self.image)
        try:
            machine.run("tune2fs", "-J", "size=4", self.image)
            self.breaks.append("new log")
        except machine.MachineError:  # the disk is full
            self._copy.replace(self.image)
        self._copy.unlink(missing_ok=True)

    def _count_anew(self) -> None:
        """The log starts to count from another number, as e2fsck makes one that it resets."""
        machine.check(self.image)
        block = int(machine.run("debugfs", "-R", "bmap <8> 0", self.image))
        with self.image.open("r+b") as image:
            image.seek(block * self.layout.block_size)
            head = bytearray(image.read(JOURNAL_HEAD))
            struct.pack_into(">I", head, SEQUENCE_AT, self.chance.randrange(1000, 1 << 31))
            if struct.unpack_from(">I", head, INCOMPAT_AT)[0] & CHECKSUMS:
                struct.pack_into(">I", head, CHECKSUM_AT, 0)
                struct.pack_into(">I", head, CHECKSUM_AT, ~crc32c(bytes(head)) & 0xFFFFFFFF)
            image.seek(block * self.layout.block_size)
            image.write(head)
        self.breaks.append("counted anew")


def tell(layout: Layout, seed: int, operations: int, folder: Path) -> History:
    """Tell one history; its image stays in `folder`."""
    image = folder / f"{layout.name}-{seed}.img"
    teller = _Teller(layout, seed, image)
    teller.tell(operations)
    return History(layout, seed, image, teller.acts.book, tuple(teller.breaks))


def told_and_judged(
    layout: Layout, seed: int, operations: int, folder: Path
) -> tuple[History, Verdict]:
    """A history and what is to be said of what ext4kit makes of it."""
    history = tell(layout, seed, operations, folder)
    return history, judge(history.image, history.book)


def main() -> int:
    """Tell and judge histories of every layout; 1 when there is something wrong.

    An image that e2fsck 1.47 cannot mend, as it ruins some with fast commits, is left out.
    """
    options = _parser().parse_args()
    if reason := machine.missing_for_kernel():
        print(f"error: random histories: {reason}", file=sys.stderr)
        return 3
    options.keep.mkdir(parents=True, exist_ok=True)
    verdicts = {name: Verdict() for name in options.layouts or LAYOUTS}
    seeds = range(options.seed, options.seed + options.histories)
    tasks = [(LAYOUTS[name], seed, options) for seed in seeds for name in verdicts]
    with ExitStack() as stack:
        told: Iterator[Verdict] = map(_one, tasks)
        if options.jobs > 1:
            told = stack.enter_context(multiprocessing.Pool(options.jobs)).imap(_one, tasks)
        for (layout, _, _), verdict in zip(tasks, told, strict=True):
            verdicts[layout.name].add(verdict)
    total = Verdict()
    for verdict in verdicts.values():
        total.add(verdict)
    print(f"{total.images} images: {total.line()}")
    print(total.table())
    print(total.sources.table())
    if options.page:
        made = page(verdicts, options.histories, options.operations, options.seed)
        options.page.write_text(made + truth.section_of(options.page))
    if options.counts:
        truth.save(options.counts, total.images, options.operations, options.seed, total)
    return int(total.is_bad)


def page(verdicts: dict[str, Verdict], histories: int, operations: int, seed: int) -> str:
    """What was measured, as a page of the documentation."""
    total = Verdict()
    for verdict in verdicts.values():
        total.add(verdict)
    command = f"make truth HISTORIES={histories} OPERATIONS={operations} SEED={seed}"
    exact = (Content.EXACT, Content.NOTHING)
    rows = [f"| {name} | {one.files:,} | {one.intact:,} | {one.wrong} |"
            f" {sum(one.contents['consistent', content] for content in Content):,} |"
            f" {sum(one.contents['consistent', content] for content in exact):,} |"
            for name, one in verdicts.items()]  # fmt: skip
    return PAGE.format(
        command=command, images=f"{total.images:,}",
        kernel=os.uname().release.split("-")[0],
        table=total.table(), kept=f"{total.kept:.0%}", intact=f"{total.intact:,}",
        wrong=total.wrong, paths=f"{total.paths:,}",
        wrong_paths=total.wrong_paths + total.wrong_places,
        layouts="\n".join(rows),
    )  # fmt: skip


def _one(task: tuple[Layout, int, argparse.Namespace]) -> Verdict:
    layout, seed, options = task
    with tempfile.TemporaryDirectory(dir=options.keep, prefix=".history-") as scratch:
        try:
            history, verdict = told_and_judged(layout, seed, options.operations, Path(scratch))
        except machine.MachineError as error:
            print(f"{layout.name} seed {seed} is left out: {error}", flush=True)
            return Verdict()
        title = f"{layout.name} seed {seed} ({', '.join(history.breaks)})"
        if verdict.is_bad or options.verbose:
            print(f"{title}: {verdict.line()}", flush=True)
        for finding in verdict.findings:
            print(f"  {finding}", flush=True)
        if verdict.is_bad:
            history.image.replace(options.keep / history.image.name)
            history.book.save(options.keep / f"{history.image.stem}.json")
    return verdict


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="random_history", description=__doc__)
    parser.add_argument("layouts", nargs="*", choices=[[], *LAYOUTS], metavar="LAYOUT")
    parser.add_argument("--histories", type=int, default=1, help="of each layout")
    parser.add_argument("--operations", type=int, default=400, help="in each history")
    parser.add_argument("--seed", type=int, default=1, help="of the first history")
    parser.add_argument("--jobs", type=int, default=1, help="told at once")
    parser.add_argument("--page", type=Path, help="write what was measured here, as Markdown")
    parser.add_argument("--counts", type=Path, help="write what was counted here, as JSON")
    parser.add_argument("--verbose", action="store_true", help="a line on each image")
    parser.add_argument(
        "--keep", type=Path, default=Path("build/histories"), help="where images with a wrong stay"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
