"""As of a transaction the recorded tree is shown, or it is said what the log cannot tell.

The oracle is a session that records what the kernel shows after each commit. A wrong entry is
the one thing that must not be; the unknown ones are counted.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import shutil
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import ext4kit
from ext4kit.as_of import AsOfRange, as_of_range
from ext4kit.errors import AccessError, RequestError
from ext4kit.filesystem import FileSystem
from ext4kit.journal import Log
from ext4kit.parsers.inode import Inode
from ext4kit.recovery import Grade, vouch_by_recovery
from sample_images.recipes import machine
from sample_images.recipes.ondisk import Disk
from sample_images.recipes.score import read_records
from tests.conftest import Cli
from tests.schemas.outputs import complaint
from tests.session import JOURNAL_INODE, MIB, Node, Session, Setup, Tree, record

pytestmark = pytest.mark.kernel

SMALL_LOG = ("-t", "ext4", "-b", "1024", "-J", "size=1")
SHORT = (
    Setup("short-wrap", SMALL_LOG, operations=170, crowd=40, largest=8000),
    Setup("short-journaled", SMALL_LOG, "data=journal", operations=60, largest=3000),
    Setup("short-crash", ("-t", "ext4", "-J", "size=4"), operations=60, commit="fsync", crash=True),
    Setup("short-remounts", ("-t", "ext4", "-O", "inline_data", "-J", "size=4"), operations=60,
          remount=20, cut=True, commit="fsync"),
)  # fmt: skip
FULL = (
    Setup("default"),
    Setup("1k", ("-t", "ext4", "-b", "1024", "-J", "size=8")),
    Setup("journaled", ("-t", "ext4", "-J", "size=16"), "data=journal"),
    Setup("journaled-wrap", ("-t", "ext4", "-J", "size=4"), "data=journal"),
    Setup("journaled-crash", ("-t", "ext4", "-b", "1024", "-J", "size=2"), "data=journal",
          commit="fsync", crash=True),
    Setup("writeback", ("-t", "ext4", "-J", "size=4"), "data=writeback,nodelalloc"),
    Setup("inline", ("-t", "ext4", "-O", "inline_data", "-J", "size=8")),
    Setup("inline-1k", ("-t", "ext4", "-O", "inline_data", "-b", "1024", "-I", "512",
                        "-J", "size=1")),
    Setup("ext3", ("-t", "ext3", "-J", "size=8")),
    Setup("ext3-128", ("-t", "ext3", "-I", "128", "-b", "1024", "-J", "size=4")),
    Setup("no-checksums", ("-t", "ext4", "-O", "^metadata_csum", "-b", "1024", "-J", "size=1")),
    Setup("bigalloc", ("-t", "ext4", "-O", "bigalloc", "-C", "16384", "-J", "size=4")),
    Setup("values-in-inodes", ("-t", "ext4", "-O", "ea_inode,orphan_file", "-J", "size=4")),
    Setup("htree", crowd=600),
    Setup("small-log", ("-t", "ext4", "-J", "size=4"), operations=500),
    Setup("smallest-log", SMALL_LOG, operations=500),
    Setup("crash", commit="fsync", crash=True),
    Setup("crash-wrap", SMALL_LOG, operations=500, commit="fsync", crash=True),
    Setup("remounts", remount=40),
    Setup("remounts-large-log", ("-t", "ext4", "-J", "size=32"), size=128 * MIB, remount=40),
    Setup("recoveries", remount=40, cut=True, commit="fsync"),
)  # fmt: skip


@dataclass(slots=True)
class Verdict:
    """What comes of comparing one tree or many with the recorded ones."""

    points: int = 0
    entries: int = 0
    unknown: int = 0
    vouched: int = 0
    doubtful: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.points} points, {self.entries} entries: {len(self.wrong)} wrong, "
            f"{self.unknown} unknown; contents: {self.vouched} vouched for, {self.doubtful} not"
        )

    def add(self, fs: FileSystem, recorded: Tree) -> None:
        """Compare what a file system shows with what the kernel showed."""
        self.points += 1
        self.entries += len(recorded)
        shown = _shown(fs)
        if shown[b"/"][1] is None:
            self.unknown += len(recorded)
            return
        for path, (number, inode) in shown.items():
            if path not in recorded or recorded[path].inode != number:
                self.wrong.append(f"{fs.as_of}: {path!r} was not there")
            elif inode is None:
                self.unknown += 1
            else:
                self._add_inode(fs, path, inode, recorded[path])
        for path in sorted(recorded.keys() - shown.keys()):
            self._add_missing(fs, path, shown)

    def _add_missing(self, fs: FileSystem, path: bytes, shown: Shown) -> None:
        """A missing path is unknown where its directory is told not to be all there."""
        parent = path.rpartition(b"/")[0] or b"/"
        told = {problem.where for problem in fs.problems}
        if parent in shown and path != b"/":
            number = shown[parent][0]
            if not told & {f"inode {number}", f"directory inode {number}"}:
                self.wrong.append(f"{fs.as_of}: {path!r} is missing, and nothing is said")
        self.unknown += 1

    def _add_inode(self, fs: FileSystem, path: bytes, inode: Inode, node: Node) -> None:
        shown = (inode.mode, inode.uid, inode.gid, inode.size, inode.links_count,
                 inode.atime, inode.mtime, inode.ctime)  # fmt: skip
        is_same = shown == (node.mode, node.uid, node.gid, node.size, node.links, node.atime,
                            node.mtime, node.ctime)  # fmt: skip
        if not is_same:
            self.wrong.append(f"{fs.as_of}: {path!r} {shown}")
        before = fs.problems.total
        if tuple(sorted(fs.xattrs(inode).items())) != node.xattrs:
            if fs.problems.total == before:
                self.wrong.append(f"{fs.as_of}: {path!r} has other attributes")
            self.unknown += 1
        if inode.kind == "symlink":
            self._add_target(fs, path, inode, node)
        elif inode.kind == "file":
            self._add_content(fs, path, inode, node)

    def _add_target(self, fs: FileSystem, path: bytes, inode: Inode, node: Node) -> None:
        try:
            if fs.link_target(inode) != node.target:
                self.wrong.append(f"{fs.as_of}: {path!r} leads elsewhere")
        except AccessError:
            self.unknown += 1

    def _add_content(self, fs: FileSystem, path: bytes, inode: Inode, node: Node) -> None:
        graded = fs.graded_content(inode)
        assert graded is not None
        if fs.content_uncertainty(inode):
            self.doubtful += 1
        else:
            self.vouched += 1
        if not graded.grade.is_whole:
            return
        if hashlib.sha256(fs.content(inode).read(0, inode.size)).hexdigest() != node.digest:
            self.wrong.append(f"{fs.as_of}: {path!r} has other content")


Shown = dict[bytes, tuple[int, Inode | None]]  # path -> inode number, inode when known


def _shown(fs: FileSystem) -> Shown:
    """All that a file system shows."""
    root = np.array([2])
    if not fs.inodes_known(root)[0]:
        return {b"/": (2, None)}
    tree = fs.tree()
    numbers = np.append(root, tree.inode)
    table, known = fs.inode_table(numbers), fs.inodes_known(numbers).tolist()
    rows = zip([b"/", *tree.paths], numbers.tolist(), known, strict=True)
    return {
        path: (number, table.one(row) if known else None)
        for row, (path, number, known) in enumerate(rows)
    }


def reach(image: Path) -> AsOfRange:
    with ext4kit.open(image) as opened:
        log = Log.open(opened.volume().filesystem())
        assert log is not None
        return as_of_range(log)


def judge(session: Session, count: int) -> Verdict:
    """Compare so many points that the log can tell; the others have to be refused."""
    verdict, states = Verdict(), session.states()
    can = set(reach(session.image).orders.tolist())
    chosen = random.Random(session.setup.seed).sample(sorted(can & states.keys()), count)
    with ext4kit.open(session.image) as image:
        for transaction in sorted(chosen):
            fs = image.volume().filesystem(as_of=transaction)
            vouch_by_recovery(fs)
            verdict.add(fs, states[transaction].tree)
        for transaction in states.keys() - can:
            with pytest.raises(RequestError, match="the journal records"):
                image.volume().filesystem(as_of=transaction)
    return verdict


Recorded = Callable[[Setup], Session]


@pytest.fixture(scope="module")
def recorded(needs_kernel: None, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Give the session of a setup, recorded once."""
    folder = tmp_path_factory.mktemp("sessions")
    made: dict[str, Session] = {}

    def give(setup: Setup) -> Session:
        if setup.name not in made:
            made[setup.name] = record(setup, folder)
        return made[setup.name]

    return give


@pytest.mark.heavy
@pytest.mark.parametrize("setup", SHORT, ids=lambda setup: setup.name)
def test_a_short_session_is_shown_as_it_was(recorded: Recorded, setup: Setup) -> None:
    verdict = judge(recorded(setup), 12)
    print(f"\n{setup.name}: {verdict}")
    assert verdict.wrong == []
    assert verdict.unknown < verdict.entries / 3
    assert verdict.vouched > 0


@pytest.mark.slow
@pytest.mark.parametrize("setup", FULL, ids=lambda setup: setup.name)
def test_a_long_session_is_shown_as_it_was(tmp_path: Path, setup: Setup) -> None:
    verdict = judge(record(setup, tmp_path), 30)
    print(f"\n{setup.name}: {verdict}")
    assert verdict.wrong == []
    assert verdict.unknown < verdict.entries / 3
    assert verdict.vouched > 0


def test_the_newest_transaction_is_the_present(recorded: Recorded) -> None:
    for setup in SHORT:
        session, verdict = recorded(setup), Verdict()
        with ext4kit.open(session.image) as image:
            last = session.steps[-1]
            verdict.add(image.volume().filesystem(as_of=last.transaction), last.tree)
        assert (verdict.wrong, verdict.unknown) == ([], 0), setup.name
        is_present = last.transaction == session.newest
        may_be_doubtful = setup.remount or setup.crash or not is_present
        assert verdict.doubtful == 0 or may_be_doubtful, setup.name


def test_a_log_that_never_came_round_tells_everything(recorded: Recorded) -> None:
    session = recorded(SHORT[2])
    can = reach(session.image).orders.tolist()
    assert {step.transaction for step in session.steps} <= set(can)


def _copy_in_log(image: Path, transaction: int) -> int:
    """Byte of the first copy of a transaction in the log, found by a walk of the test's own."""
    with Disk(image) as disk:
        size = disk.block_size
        runs = sorted(disk.map(disk.slot(JOURNAL_INODE)).extents)
        blocks = [start + step for _, start, count, _ in runs for step in range(count)]
        for place, block in enumerate(blocks[1:], 1):
            head = struct.unpack_from(">3I", disk.read(block))
            if head == (0xC03B3998, 1, transaction):
                return int(blocks[place + 1] * size)
    raise AssertionError(f"transaction {transaction} is not in the log")


def test_nothing_before_a_damaged_transaction_is_told(recorded: Recorded, tmp_path: Path) -> None:
    session, image = recorded(SHORT[0]), tmp_path / "damaged.img"
    shutil.copyfile(session.image, image)
    orders = reach(image).orders.tolist()
    hurt = orders[len(orders) // 2]
    place = _copy_in_log(image, hurt)
    with image.open("r+b") as file:
        file.seek(place + 50)
        byte = file.read(1)[0]
        file.seek(place + 50)
        file.write(bytes([byte ^ 0xFF]))
    assert reach(image).orders.tolist() == orders[len(orders) // 2 + 1 :]
    verdict, states = Verdict(), session.states()
    with ext4kit.open(image) as opened:
        for transaction in [order for order in orders if order > hurt and order in states][::9]:
            fs = opened.volume().filesystem(as_of=transaction)
            verdict.add(fs, states[transaction].tree)
    assert verdict.points > 2
    assert verdict.wrong == []


def test_a_check_of_the_file_system_afterwards_is_told(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What e2fsck changes is not in the log."""
    session, image = recorded(SHORT[1]), tmp_path / "checked.img"
    shutil.copyfile(session.image, image)
    last = session.steps[-1]
    monkeypatch.setenv("E2FSCK_TIME", str(last.operation.ended // 10**9 + 60))
    machine.run("e2fsck", "-fp", image)
    verdict = Verdict()
    with ext4kit.open(image) as opened:
        fs = opened.volume().filesystem(as_of=last.transaction)
        verdict.add(fs, last.tree)
        assert any("checked later" in problem.what for problem in fs.problems)
    assert verdict.wrong == []


def test_blocks_of_directories_given_to_files_are_not_read_as_directories(
    recorded: Recorded, tmp_path: Path, needs_kernel: None
) -> None:
    """Directories of before the log came round are removed, and files fill the whole disk."""
    image = tmp_path / "reused.img"
    machine.make_file_system(image, 8 * MIB, SMALL_LOG)
    with machine.loop_device(image) as device:
        root = tmp_path / "root"
        root.mkdir()
        machine.mount(device, root, "noatime,commit=600")
        try:
            folders = [root / f"folder-{number}" for number in range(30)]
            for number, folder in enumerate(folders):
                folder.mkdir()
                if number % 2:
                    (folder / "within").write_bytes(b"x" * 2000)
            machine.sync(root)
            _come_round(root)
            before = {name.name: sorted(each.name for each in name.iterdir()) for name in folders}
            shutil.copyfile(image, tmp_path / "before.img")
            for folder in folders:
                shutil.rmtree(folder)
            machine.sync(root)
            _fill(root)
        finally:
            machine.unmount(root)
    then = int(reach(tmp_path / "before.img").orders[-1])
    with ext4kit.open(image) as opened:
        fs = opened.volume().filesystem(as_of=then)
        names = {entry.name.decode(): entry.inode for entry in fs.entries(2)}
        assert before.keys() <= names.keys()
        refused = 0
        for name, entries in before.items():
            errors = fs.problems.errors
            try:
                found = [entry.name.decode() for entry in fs.entries(names[name])]
            except AccessError:
                refused += 1
                continue
            told = fs.problems.errors > errors
            refused += told
            assert told or sorted(set(found) - {".", ".."}) == entries
        assert refused > len(before) // 2  # the disk was full: most of their blocks were taken


def _come_round(root: Path) -> None:
    """Transactions enough to overwrite the log; the folders are not touched."""
    for number in range(400):
        path = root / f"churn-{number}"
        path.touch()
        machine.sync(root)
        path.unlink()


def _fill(root: Path) -> None:
    with (root / "fill").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\x02\x00\x00\x00" * 4096)
        except OSError:
            pass
    machine.sync(root)


# ------------------------------------------------------------------------------ commands


def _point(session: Session) -> tuple[int, Tree]:
    """A transaction in the middle of what the log tells, and its tree."""
    states = session.states()
    can = [order for order in reach(session.image).orders.tolist() if order in states]
    chosen = can[len(can) * 3 // 4]
    return chosen, states[chosen].tree


def test_ls_shows_the_tree_of_the_time(recorded: Recorded, ext4kit: Cli) -> None:
    session = recorded(SHORT[2])
    transaction, tree = _point(session)
    done = ext4kit("ls", session.image, "-r", "--json", "--as-of", str(transaction))
    records = [json.loads(line) for line in done.stdout.splitlines()]
    shown = {each["path"].encode(): each for each in records if each["record"] == "entry"}
    assert shown.keys() == tree.keys() - {b"/"}
    for path, each in shown.items():
        node = tree[path]
        assert (each["inode"], each["mode"], each["size"]) == (node.inode, node.mode, node.size)
        assert (each["mtime"], each["uid"]) == (node.mtime, node.uid)
    assert done.returncode == 0


def test_what_is_unknown_is_marked_and_makes_exit_1(recorded: Recorded, ext4kit: Cli) -> None:
    """Soon after the first transaction that is whole, inodes have later copies only."""
    session = recorded(SHORT[0])
    transaction, path, number = _unknown_entry(session)
    options = ("--as-of", str(transaction))
    done = ext4kit("ls", session.image, "/", "-rl", *options)
    assert done.returncode == 1
    assert f"inode {number}: its table block is not known as of transaction" in done.stderr
    marked = [line.split()[-1] for line in done.stdout.splitlines() if line.startswith("?" * 10)]
    assert path.decode() in marked
    told = ext4kit("ls", session.image, "/", "-r", "--json", *options)
    records = [json.loads(line) for line in told.stdout.splitlines()]
    (each,) = [each for each in records if each.get("path") == path.decode()]
    assert each["inode"] == number
    assert each["mode"] is each["size"] is each["mtime"] is None
    assert "not known" in each["unknown"]
    for target in (path.decode(), f"<{number}>"):
        stat = ext4kit("stat", session.image, target, "--json", *options)
        assert stat.returncode == 1
        assert "not known" in json.loads(stat.stdout.splitlines()[0])["unknown"]


def test_records_of_what_is_unknown_are_as_their_schemas_say(
    recorded: Recorded, tmp_path: Path, ext4kit: Cli
) -> None:
    session = recorded(SHORT[0])
    transaction, _, number = _unknown_entry(session)
    options = ("--json", "--as-of", str(transaction))
    lines = ext4kit("ls", session.image, "-r", *options).stdout.splitlines()
    lines += ext4kit("stat", session.image, f"<{number}>", *options).stdout.splitlines()
    records = [json.loads(line) for line in lines]
    assert {each["record"] for each in records if "unknown" in each} == {"entry", "inode"}
    assert [text for each in records if (text := complaint(each["record"], each))] == []
    ext4kit("extract", session.image, "/", "-o", tmp_path / "out", *options)
    extracted = list(read_records(tmp_path / "out"))
    assert number in {each["inode"] for each in extracted if "size" not in each}
    assert [text for each in extracted if (text := complaint("manifest", each))] == []


def _unknown_entry(session: Session) -> tuple[int, bytes, int]:
    """(transaction, path, inode number) of an entry whose inode cannot be told."""
    with ext4kit.open(session.image) as image:
        for transaction in reach(session.image).orders.tolist():
            shown = _shown(image.volume().filesystem(as_of=transaction))
            for path, (number, inode) in shown.items():
                if inode is None and path != b"/":
                    return transaction, path, number
    raise AssertionError("everything is known")


def test_cat_gives_what_was_there_or_says_that_it_is_not_certain(
    recorded: Recorded, ext4kit: Cli, tmp_path: Path
) -> None:
    session = recorded(SHORT[2])
    transaction, tree = _point(session)
    options = ("--as-of", str(transaction))
    out = tmp_path / "out"
    done = ext4kit("extract", session.image, "/", "-o", out, *options)
    records = list(read_records(out))
    files = {each["path"].encode(): each for each in records if each["type"] == "file"}
    sure = [path for path, each in files.items() if Grade(each["grade"]).is_whole]
    doubtful = [path for path, each in files.items() if each["grade"] == Grade.PARTIAL]
    assert files.keys() == {path for path, node in tree.items() if node.mode >> 12 == 8}
    assert sure
    assert doubtful
    assert all(files[path]["sha256"] == tree[path].digest for path in sure)
    assert all(files[path]["problems"] for path in doubtful)
    assert done.returncode == 1
    assert ext4kit("cat", session.image, sure[0].decode(), *options).returncode == 0
    unsure = ext4kit("cat", session.image, doubtful[0].decode(), *options)
    assert unsure.returncode == 1
    assert files[doubtful[0]]["problems"][0] in unsure.stderr


def test_a_transaction_out_of_reach_is_refused_with_the_range(
    recorded: Recorded, ext4kit: Cli
) -> None:
    session = recorded(SHORT[0])
    orders = reach(session.image).orders
    for transaction in (1, int(orders[0]) - 1, int(orders[-1]) + 1, 1 << 40):
        done = ext4kit("ls", session.image, "--as-of", str(transaction))
        assert done.returncode == 2
        assert f"{orders[0]} to {orders[-1]}" in done.stderr
    done = ext4kit("ls", session.image, "--as-of", str(orders[-1]), "--no-replay")
    assert done.returncode == 2


def test_a_file_system_without_a_journal_has_no_past(tmp_path: Path, ext4kit: Cli) -> None:
    image = tmp_path / "none.img"
    machine.make_file_system(image, 8 * MIB, ("-t", "ext2"))
    done = ext4kit("ls", image, "--as-of", "3")
    assert done.returncode == 2
    assert "journal" in done.stderr


def test_stat_shows_the_inode_of_the_time(recorded: Recorded, ext4kit: Cli) -> None:
    session = recorded(SHORT[2])
    transaction, tree = _point(session)
    path = next(path for path, node in tree.items() if node.xattrs)
    done = ext4kit("stat", session.image, path.decode(), "--json", "--as-of", str(transaction))
    each = json.loads(done.stdout.splitlines()[0])
    values = {one["name"].encode(): base64.b64decode(one["value_base64"]) for one in each["xattrs"]}
    assert values == dict(tree[path].xattrs)
    assert (each["ctime"], each["links_count"]) == (tree[path].ctime, tree[path].links)


def test_a_write_that_a_fast_commit_tells_of_makes_the_content_uncertain(
    needs_kernel: None, tmp_path: Path
) -> None:
    """It goes into the blocks that the file had, and no later transaction has the inode."""
    image, root = tmp_path / "image", tmp_path / "root"
    machine.make_file_system(image, 32 * MIB, ("-t", "ext4", "-O", "fast_commit", "-J", "size=4"))
    root.mkdir()
    with machine.loop_device(image) as device:
        machine.mount(device, root, "noatime,commit=600")
        try:
            (root / "file").write_bytes(b"A" * 8192)
            machine.sync(root)
            (root / "other").touch()
            machine.sync(root)
            time.sleep(0.05)  # several ticks of the clock
            with (root / "file").open("r+b", buffering=0) as file:
                file.write(b"B" * 8192)
                os.fsync(file.fileno())
            machine.copy_sparse(image, tmp_path / "copy")
        finally:
            machine.unmount(root)
    newest = int(reach(tmp_path / "copy").orders[-1])
    with ext4kit.open(tmp_path / "copy") as opened:
        fs = opened.volume().filesystem(as_of=newest)
        inode = fs.inode(fs.lookup(b"/file"))
        is_before = fs.content(inode).read(0, inode.size) == b"A" * 8192
        assert fs.content_uncertainty(inode) is not None or is_before
