"""The audit finds every changed bit, names its transaction, and leaves undamaged logs alone."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ext4kit.audit import (
    Audit,
    AuditFinding,
    AuditFindings,
    Part,
    Verdict,
    VerdictCounts,
    audit,
    audit_log,
)
from ext4kit.evidence import open_evidence
from ext4kit.problems import Severity
from sample_images.recipes.machine import USUAL_FEATURES
from tests.cases import MISSING, records, unpack
from tests.conftest import Cli
from tests.environment import everything, missing
from tests.journal import kernel_log
from tests.journal.kernel_log import KINDS, Kind, build, kernel_missing, mounted, opened, run
from tests.journal.log_places import LogPlaces, Piece
from tests.journal.log_writer import LOG_START, LogWriter

LONG = everything()
FLIPS = 1000 if LONG else 70  # an image
V2_FLIPS = 400 if LONG else 40

FLIPPED = (
    KINDS[0],
    KINDS[1],
    Kind("fast-commits", "-t ext4 -b 4096 -O fast_commit -J size=8,fast_commit_size=128"),
)
FLIPPED_LONG = (
    Kind("v3-4k-data", "-t ext4 -b 4096 -J size=4", "data=journal"),
    Kind("v3-1k", "-t ext4 -b 1024 -J size=1"),
    Kind("fast-commits-1k", "-t ext4 -b 1024 -O fast_commit -J size=8"),
)
UNDAMAGED = tuple(kind for kind in KINDS if kind not in FLIPPED)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Kind], Path]:
    """The folder with `clean.img` and `dirty.img` of a kind, made once."""
    reason = kernel_missing()
    if reason:
        pytest.skip(reason)
    made: dict[str, Path] = {}

    def give(kind: Kind) -> Path:
        if kind.name not in made:
            made[kind.name] = tmp_path_factory.mktemp(kind.name)
            build(kind, made[kind.name])
        return made[kind.name]

    return give


def wrong(result: Audit) -> list[AuditFinding]:
    """What makes a log unsound: notes left out."""
    return [each for each in result.findings.kept if each.severity is not Severity.NOTE]


def flip(image: Path, byte: int, mask: int) -> None:
    """Turn bits of one byte over."""
    with image.open("r+b", buffering=0) as file:
        before = os.pread(file.fileno(), 1, byte)[0]
        os.pwrite(file.fileno(), bytes([before ^ mask]), byte)


def flipped(image: Path, byte: int, mask: int) -> Audit:
    """The audit with one bit turned over; the image is as before afterwards."""
    flip(image, byte, mask)
    try:
        return audit(opened(image))
    finally:
        flip(image, byte, mask)


def names_it(finding: AuditFinding, piece: Piece, byte: int) -> bool:
    """Whether a finding is about this very change."""
    return finding.transaction == piece.transaction and finding.byte_offset == byte


def assert_every_flip_is_named(image: Path, flips: int) -> None:
    """Turn bits over in all kinds of pieces, as many of each."""
    places = LogPlaces(image)
    by_kind: dict[str, list[Piece]] = {}
    for piece in places.pieces():
        by_kind.setdefault(piece.kind, []).append(piece)
    assert {"superblock", "descriptor", "copy", "commit"} <= by_kind.keys()
    chance = random.Random(image.stat().st_size)
    for turn in range(flips):
        kind = list(by_kind)[turn % len(by_kind)]
        piece = chance.choice(by_kind[kind])
        byte, mask = piece.random_bit(chance)
        found = wrong(flipped(image, byte, mask))
        context = f"{kind}, log block {piece.log_block}, byte {byte}, bit {mask:#x}"
        assert found, context
        assert all(each.transaction == piece.transaction for each in found), context
        assert any(names_it(each, piece, byte) for each in found), context


def image_to_change(images: Callable[[Kind], Path], kind: Kind, tmp_path: Path) -> Path:
    image = tmp_path / "flipped.img"
    shutil.copyfile(images(kind) / "dirty.img", image)
    return image


@pytest.mark.heavy
@pytest.mark.kernel
@pytest.mark.parametrize("kind", FLIPPED, ids=lambda kind: kind.name)
def test_every_changed_bit_is_found_with_its_transaction(
    kind: Kind, images: Callable[[Kind], Path], tmp_path: Path
) -> None:
    assert_every_flip_is_named(image_to_change(images, kind, tmp_path), FLIPS)


@pytest.mark.kernel
@pytest.mark.slow
@pytest.mark.parametrize("kind", FLIPPED_LONG, ids=lambda kind: kind.name)
def test_every_changed_bit_is_found_in_more_layouts(
    kind: Kind, images: Callable[[Kind], Path], tmp_path: Path
) -> None:
    assert_every_flip_is_named(image_to_change(images, kind, tmp_path), FLIPS)


def test_the_walk_of_the_oracle_finds_what_debugfs_lists(
    images: Callable[[Kind], Path],
) -> None:
    image = images(KINDS[0]) / "dirty.img"
    copies = {
        (piece.transaction, piece.log_block)
        for piece in LogPlaces(image).pieces()
        if piece.kind == "copy"
    }
    dump = kernel_log.logdump(image, "-a")
    assert {(sequence, place) for _, sequence, place in dump.copies} <= copies


def v2_image(folder: Path, mkfs: str) -> Path:
    """A log with checksum v2, which debugfs alone still writes."""
    image, content, script = (folder / name for name in ("v2.img", "content", "script"))
    with image.open("wb") as file:
        file.truncate(16 << 20)
    run("mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024", "-J", "size=1", *mkfs.split(), image)
    content.write_bytes(random.Random(2).randbytes(5 << 10))
    lines = ["jo -c -v 2"]
    for first in (7001, 7021, 7041):
        lines += [f"jw -b {first}-{first + 4} {content}", f"jw -r {first + 10}-{first + 12}"]
    script.write_text("\n".join([*lines, "jc", ""]))
    done = subprocess.run(
        ["debugfs", "-w", "-f", str(script), str(image)], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return image


@pytest.mark.parametrize("mkfs", ["-O ^64bit", "-O 64bit"])
def test_every_changed_bit_is_found_with_checksum_v2(mkfs: str, tmp_path: Path) -> None:
    if reason := missing("debugfs", "mke2fs"):
        pytest.skip(reason)
    image = v2_image(tmp_path, mkfs)
    pieces = LogPlaces(image).pieces()
    assert {piece.kind for piece in pieces} >= {"descriptor", "copy", "revoke", "commit"}
    assert not wrong(audit(opened(image)))
    chance = random.Random(mkfs)
    for _ in range(V2_FLIPS // 2):
        piece = chance.choice(pieces)
        byte, mask = piece.random_bit(chance)
        found = wrong(flipped(image, byte, mask))
        context = f"{piece.kind}, log block {piece.log_block}, byte {byte}, bit {mask:#x}"
        assert found, context
        assert all(each.transaction == piece.transaction for each in found), context
        assert any(each.log_block == piece.log_block for each in found), context


# -- undamaged logs ---------------------------------------------------------------------------


def assert_sound(image: Path) -> None:
    fs = opened(image)
    result = audit(fs)
    assert not wrong(result)
    assert result.is_sound
    assert not len(fs.problems)
    assert result.log is not None
    assert len(result.log.transactions)


@pytest.mark.kernel
@pytest.mark.parametrize(
    "kind",
    [*FLIPPED, *UNDAMAGED, *(pytest.param(each, marks=pytest.mark.slow) for each in FLIPPED_LONG)],
    ids=lambda kind: kind.name,
)
def test_nothing_is_found_in_a_log_that_the_kernel_wrote(
    kind: Kind, images: Callable[[Kind], Path]
) -> None:
    for name in ("clean.img", "dirty.img"):
        assert_sound(images(kind) / name)


class Life:
    """One image through mounts, cuts, repairs and changes of its features."""

    def __init__(self, image: Path, mkfs: str, mount: str = "data=ordered") -> None:
        self.image, self.mount, self.turn = image, mount, 0
        with image.open("wb") as file:
            file.truncate(48 << 20)
        run("mke2fs", "-q", "-F", *mkfs.split(), image)

    def churn(self, *, cut: bool = False) -> None:
        """Change much; with `cut`, end without an unmount."""
        cut_to = self.image.with_suffix(".cut")
        with mounted(self.image, self.mount) as place:
            for number in range(10):
                folder = place / f"folder-{self.turn}-{number}"
                folder.mkdir()
                for file in range(12):
                    (folder / f"file-{file}").write_bytes(b"x" * file * 300)
                kernel_log._flush(folder)
                if number > 3:
                    shutil.rmtree(place / f"folder-{self.turn}-{number - 4}")
            kernel_log._flush(place)
            if cut:
                kernel_log._cut(place)
                shutil.copyfile(self.image, cut_to)
        if cut:
            cut_to.replace(self.image)
        self.turn += 1

    def repair(self) -> None:
        """e2fsck, which replays the log and may mend what a cut left."""
        done = subprocess.run(["e2fsck", "-fy", str(self.image)], capture_output=True, check=False)
        assert done.returncode in (0, 1), done.stdout

    def tune(self, *options: str) -> None:
        self.repair()
        run("tune2fs", "-f", *options, self.image)

    def make_anew(self, mkfs: str) -> None:
        """Another file system over the first, whose log is left to lie there."""
        run("mke2fs", "-q", "-F", *mkfs.split(), "-E", "lazy_journal_init=1,nodiscard", self.image)

    def resize(self, *options: str) -> None:
        self.repair()
        run("resize2fs", *options, self.image)


# Without metadata_csum_seed, as tune2fs turns no checksums off with it.
CSUM_1K = f"-t ext4 -b 1024 -O {USUAL_FEATURES} -J size=1"
CSUM_4K = f"-t ext4 -b 4096 -O {USUAL_FEATURES} -J size=4"
NARROW = "-t ext4 -b 4096 -O ^64bit,^metadata_csum -J size=4"


def _crashes(life: Life) -> Iterator[None]:
    for _ in range(3):
        life.churn(cut=True)
        yield
    life.churn()
    yield


def _repairs(life: Life) -> Iterator[None]:
    for cut in (True, False, True, False):
        life.churn(cut=cut)
        yield
        life.repair()
        yield


def _checksums_off_and_on(life: Life) -> Iterator[None]:
    for option in ("^metadata_csum", "metadata_csum"):
        life.churn()
        life.tune("-O", option)
        yield
        life.churn(cut=True)
        yield
        life.churn()
        yield


def _another_uuid(life: Life) -> Iterator[None]:
    life.churn()
    life.tune("-U", "5ca1ab1e-0000-4000-8000-00000000abcd")
    life.churn()
    yield


def _wider(life: Life) -> Iterator[None]:
    life.churn()
    life.resize("-b")
    life.churn()
    yield


def _smaller(life: Life) -> Iterator[None]:
    life.churn()
    life.resize("-M")
    yield


def _over_an_old_log(life: Life) -> Iterator[None]:
    life.churn()
    life.make_anew(CSUM_4K)
    yield
    life.churn(cut=True)
    yield


STORIES = [
    ("crashes", CSUM_1K, "data=journal", _crashes),
    ("repairs", CSUM_1K, "data=ordered", _repairs),
    ("checksums", CSUM_1K, "data=journal", _checksums_off_and_on),
    ("uuid", CSUM_4K, "data=ordered", _another_uuid),
    ("wider", NARROW, "data=ordered", _wider),
    ("smaller", CSUM_4K, "data=ordered", _smaller),
    ("old-log", CSUM_4K, "data=ordered", _over_an_old_log),
]
LONG_STORIES = [
    ("crashes-4k", CSUM_4K, "data=ordered", _crashes),
    ("repairs-4k", CSUM_4K, "data=journal", _repairs),
    ("ext3", "-t ext3 -b 1024 -J size=1", "data=journal", _repairs),
    ("checksums-4k", CSUM_4K, "data=ordered", _checksums_off_and_on),
    ("bigalloc", CSUM_4K + " -O bigalloc -C 16384", "data=ordered", _crashes),
    ("meta-groups", CSUM_4K + " -O meta_bg,^resize_inode", "data=ordered", _crashes),
    ("v1", CSUM_1K + " -O ^metadata_csum", "data=journal,journal_checksum", _crashes),
]


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("name", "mkfs", "mount", "story"),
    [*STORIES, *(pytest.param(*each, marks=pytest.mark.slow) for each in LONG_STORIES)],
    ids=[name for name, *_ in (*STORIES, *LONG_STORIES)],
)
def test_nothing_is_found_over_the_life_of_an_image(
    name: str, mkfs: str, mount: str, story: Callable[[Life], Iterator[None]], tmp_path: Path
) -> None:
    life = Life(tmp_path / f"{name}.img", mkfs, mount)
    for _ in story(life):
        result = audit(opened(life.image))
        assert not wrong(result)
        assert result.log is not None


# -- what single findings say -----------------------------------------------------------------


@pytest.mark.kernel
def test_a_block_that_never_reached_the_disk_is_told_from_a_damaged_one(
    images: Callable[[Kind], Path], tmp_path: Path
) -> None:
    image = image_to_change(images, KINDS[0], tmp_path)
    piece = next(each for each in LogPlaces(image).pieces() if each.kind == "copy")
    (start, length), *_ = piece.spans
    with image.open("r+b") as file:
        file.seek(start)
        file.write(bytes(length))  # as mke2fs left the log
    found = {each.code: each for each in wrong(audit(opened(image)))}
    assert set(found) == {"copy-not-written", "write-cache"}
    assert {each.transaction for each in found.values()} == {piece.transaction}
    assert found["copy-not-written"].log_block == piece.log_block


@pytest.mark.kernel
@pytest.mark.parametrize("kind", ["descriptor", "commit"])
def test_a_block_that_is_wholly_gone_is_missed(
    kind: str, images: Callable[[Kind], Path], tmp_path: Path
) -> None:
    image = image_to_change(images, KINDS[0], tmp_path)
    of_kind = [each for each in LogPlaces(image).pieces() if each.kind == kind]
    piece = of_kind[len(of_kind) // 2]
    with image.open("r+b") as file:
        file.seek(piece.spans[0][0])
        file.write(b"\xa5" * piece.spans[0][1])
    found = wrong(audit(opened(image)))
    assert any(each.log_block == piece.log_block for each in found)
    assert {each.transaction for each in found} == {piece.transaction}


@pytest.mark.kernel
@pytest.mark.parametrize("kind", FLIPPED[:2], ids=lambda kind: kind.name)
def test_larger_damage_is_found_with_its_transaction(
    kind: Kind, images: Callable[[Kind], Path], tmp_path: Path
) -> None:
    image = image_to_change(images, kind, tmp_path)
    pieces = [piece for piece in LogPlaces(image).pieces() if piece.kind != "superblock"]
    chance, tries, changed = random.Random(kind.name), 200 if LONG else 25, 0
    for _ in range(tries):
        piece = chance.choice(pieces)
        start, length = piece.spans[0]
        begin = chance.choice([0, chance.randrange(length)])
        size = min(chance.choice([2, 8, 64, 512, length]), length - begin)
        damage = chance.choice([bytes(size), b"\xff" * size, chance.randbytes(size)])
        with image.open("r+b", buffering=0) as file:
            before = os.pread(file.fileno(), size, start + begin)
            os.pwrite(file.fileno(), damage, start + begin)
            found = wrong(audit(opened(image)))
            os.pwrite(file.fileno(), before, start + begin)
        if damage == before:
            continue
        context = f"{piece}, {size} bytes from byte {begin}"
        assert found, context
        assert {each.transaction for each in found} == {piece.transaction}, context
        changed += 1
    assert changed > tries // 2


def checked(
    writer: LogWriter, sequence: int = 1, start: int = 1
) -> tuple[list[AuditFinding], VerdictCounts]:
    findings, tally = AuditFindings(), VerdictCounts()
    audit_log(writer.log(sequence, start), findings, tally)
    return findings.kept, tally


def test_tags_that_no_file_system_would_write_are_told() -> None:
    writer = LogWriter()
    place = writer.descriptor(1, [(5, b"good"), (LOG_START + 7, b"own"), (1 << 20, b"outside")])
    writer.commit(1)
    found, _ = checked(writer)
    assert {each.code: each.target for each in found} == {
        "tag-own-log": LOG_START + 7,
        "tag-outside": 1 << 20,
    }
    assert {(each.transaction, each.log_block) for each in found} == {(1, place)}


def test_commit_times_that_run_backwards_are_told() -> None:
    writer = LogWriter()
    for sequence, seconds in ((1, 100), (2, 200), (3, 150), (4, 201)):
        writer.descriptor(sequence, [(5, b"copy")])
        writer.commit(sequence, seconds)
    found, _ = checked(writer)
    assert [(each.code, each.transaction) for each in found] == [("commit-time", 3)]


def test_an_unfinished_transaction_is_no_finding() -> None:
    writer = LogWriter()
    writer.transaction(1, (5, b"one"), (6, b"two"))
    place = writer.descriptor(2, [(5, b"three"), (6, b"four")])
    writer.rows[LOG_START + place + 2] = 0  # never written
    found, tally = checked(writer)
    assert not found
    assert tally.of(Part.COPY, Verdict.OK) == 3
    assert tally.of(Part.COPY, Verdict.UNCHECKED) == 1


def test_copies_under_a_newer_lap_are_no_finding() -> None:
    writer = LogWriter(length=16)
    writer.transaction(1, *((block, b"old") for block in range(5, 13)))  # 1 to 10
    writer.transaction(2, *((block, b"mid") for block in range(5, 10)))  # 11 to 15, 1, 2
    writer.transaction(3, (5, b"new"))  # 3 to 5
    found, tally = checked(writer, 3, 3)
    assert not found
    assert tally.of(Part.COPY, Verdict.OK) == 6


# -- e2fsprogs' cases -------------------------------------------------------------------------

CASES = [
    record
    for record in records()
    if record["name"].startswith("j_") and "has_journal" in record["features"]
]
CORRUPT = {  # name -> the transaction that the reference stumbles over
    record["name"]: int(found[1]) if (found := _TRANSACTION.search(record["expected"])) else None
    for _TRANSACTION in [re.compile(r"transaction (\d+) corrupt")]
    for record in CASES
    if "corrupt" in record["name"]
}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cases")
    devices = [record["journal_device"] for record in CASES if record.get("journal_device")]
    unpack(folder, (*(record["image"] for record in CASES), *devices))
    return folder


@pytest.mark.skipif(not CASES, reason=MISSING)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_verdicts_agree_with_the_reference(case: dict[str, Any], cases: Path) -> None:
    fs = opened(cases / case["image"])
    if case.get("journal_device"):
        fs.journal_device = open_evidence(cases / case["journal_device"]).source
    result = audit(fs)
    found = wrong(result)
    if case["name"] not in CORRUPT:
        assert not found
        return
    expected = CORRUPT[case["name"]]
    assert found or fs.problems.errors
    assert expected is None or {each.transaction for each in found} == {expected}


# -- the command ------------------------------------------------------------------------------


@pytest.mark.kernel
def test_the_command_tells_damage_by_its_exit_code(
    images: Callable[[Kind], Path], tmp_path: Path, ext4kit: Cli
) -> None:
    image = image_to_change(images, KINDS[0], tmp_path)
    assert ext4kit("journal", "audit", image).returncode == 0
    commit = [each for each in LogPlaces(image).pieces() if each.kind == "commit"][-1]
    place = commit.spans[0][0] + 56  # in the commit time
    flip(image, place, 0x10)
    done = ext4kit("journal", "audit", "--all", "--json", image)
    assert done.returncode == 1
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    (finding,) = (line for line in lines if line["record"] == "finding")
    assert finding["transaction"] == commit.transaction
    assert finding["byte_offset"] == place
    bad = [line for line in lines if line["record"] == "verdict" and line["verdict"] == "bad"]
    assert [line["log_block"] for line in bad] == [commit.log_block]
    (summary,) = (line for line in lines if line["record"] == "summary")
    assert not summary["sound"]
    text = ext4kit("journal", "audit", image)
    assert text.returncode == 1
    assert f"transaction {commit.transaction}, log block {commit.log_block}" in text.stdout


def test_a_file_system_without_a_journal_is_a_usage_error(tmp_path: Path, ext4kit: Cli) -> None:
    image = tmp_path / "plain.img"
    with image.open("wb") as file:
        file.truncate(8 << 20)
    run("mke2fs", "-q", "-F", "-t", "ext2", image)
    for name in ("audit", "list"):
        done = ext4kit("journal", name, image)
        assert done.returncode == 2
        assert "no journal" in done.stderr
