"""Inodes told apart at once, in pieces of any size and ahead of where they are looked at."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ext4kit
from ext4kit.filesystem.prefetch import AHEAD, AT_ONCE, BackgroundCall, prefetch_map
from ext4kit.verify import Findings, directories, inodes, verify
from ext4kit.verify.context import VerifyContext
from ext4kit.verify.findings import KEPT_EACH
from ext4kit.verify.plain import InodeBatch, read_batch
from tests.environment import needs
from tests.filesystem.matrix import run
from tests.verify.places import debugfs
from tests.verify.test_flipped_bits import flip

FILES, EXTRA_END = 120, 160  # files; bytes of an inode in front of its attributes
FLIPS = 60
needs_tools = needs("debugfs", "e2fsck", "mke2fs")


def test_pieces_come_in_order_and_few_at_once() -> None:
    running, most, taken = 0, 0, []
    lock = threading.Lock()

    def make(number: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.001 * (number % 3))
        with lock:
            running -= 1
        return number * number

    def numbers() -> Iterator[int]:
        for number in range(40):
            taken.append(number)
            yield number

    for place, made in enumerate(prefetch_map(make, numbers())):
        assert made == place * place
        assert len(taken) <= place + 1 + AHEAD
    assert len(taken) == 40
    assert 1 <= most <= AT_ONCE


def test_an_error_is_raised_where_its_piece_is_wanted() -> None:
    pieces = prefetch_map(lambda number: 60 // number, (3, 2, 0, 1))
    assert [next(pieces), next(pieces)] == [20, 30]
    with pytest.raises(ZeroDivisionError):
        next(pieces)
    with pytest.raises(ZeroDivisionError):
        BackgroundCall(lambda number: 1 // number, 0).wait()


def test_findings_of_two_collectors_are_bounded_and_counts_true() -> None:
    own, other = Findings(), Findings()
    for findings, number in ((own, KEPT_EACH - 2), (other, KEPT_EACH + 5)):
        for inode in range(number):
            findings.add("link-count", "inode", inode=inode)
    other.add("inode-size", "inode", inode=1)
    own.take(other)
    assert own.counts == {"link-count": 2 * KEPT_EACH + 3, "inode-size": 1}
    assert [finding.inode for finding in own.kept[KEPT_EACH - 2 :]] == [0, 1, 1]


def make(image: Path, options: str) -> Path:
    """A small file system of 1 KiB blocks with files of many lengths."""
    source = image.with_suffix(".content")
    (source / "folder").mkdir(parents=True)
    for number in range(FILES):
        path = source / "folder" / f"{number:03}" if number % 2 else source / f"{number:03}"
        path.write_bytes(random.Random(number).randbytes(number * 97))
    with image.open("wb") as file:
        file.truncate(4 << 20)
    run(f"mke2fs -q -F -t ext4 -b 1024 -I 256 -N 256 -d {source} {options}", image)
    return image


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With checksums; 64-bit block numbers; a log."""
    return make(tmp_path_factory.mktemp("pieces") / "image", "-O metadata_csum,64bit")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nothing but its fields tells what is wrong with an inode."""
    folder = tmp_path_factory.mktemp("bare")
    return make(folder / "image", "-O ^metadata_csum,^has_journal,^orphan_file")


def piece_of(image: Path, numbers: range) -> InodeBatch:
    with ext4kit.open(image) as opened:
        return read_batch(VerifyContext(opened.volume().filesystem()), np.array(numbers))


def number_of(image: Path, path: str) -> int:
    found = re.search(r"Inode: (\d+)", debugfs(image, f"stat {path}"))
    assert found
    return int(found[1])


@needs_tools
def test_plain_files_are_those_with_one_extent_and_it_is_told_as_debugfs_tells_it(
    image: Path,
) -> None:
    numbers = range(1, 257)
    piece = piece_of(image, numbers)
    told = debugfs(image, *(f"blocks <{number}>" for number in numbers)).split("debugfs: ")[1:]
    blocks = [[int(word) for word in part.split("\n", 1)[1].split()] for part in told[:256]]
    claims = piece.claims
    extents = zip(claims.owner.tolist(), claims.start.tolist(), claims.length.tolist(), strict=True)
    for number, start, length in extents:
        assert blocks[number - 1] == list(range(start, start + length)), number
    assert len(piece.claims) > FILES // 2
    used = debugfs(image, *(f"testi <{number}>" for number in numbers))
    living = {int(each) for each in re.findall(r"Inode (\d+) is marked in use", used)}
    assert {number for number in piece.facts.number.tolist() if number > 10} == {
        number for number in living if number > 10
    }
    assert not len(piece.lost)
    assert not len(piece.unsealed)


@pytest.mark.heavy
@needs_tools
def test_a_bit_of_a_plain_file_is_wrong_where_e2fsck_says_so(bare: Path) -> None:
    number = number_of(bare, "/folder/041")
    told = re.search(r"block (\d+), offset 0x([0-9a-f]+)", debugfs(bare, f"imap <{number}>"))
    assert told
    at = int(told[1]) * 1024 + int(told[2], 16)
    plain = piece_of(bare, range(number, number + 1))
    assert len(plain.facts) == 1
    assert not len(np.flatnonzero(plain.is_special))
    chance, verdicts = random.Random("plain"), []
    for bit in sorted(chance.sample(range(EXTRA_END * 8), FLIPS)):
        flip(bare, at * 8 + bit)
        clean = is_clean_to_e2fsck(bare)
        with ext4kit.open(bare) as opened:
            assert verify(opened.volume().filesystem()).is_clean is clean, bit
        flip(bare, at * 8 + bit)
        verdicts.append(clean)
    assert 10 < sum(verdicts) < FLIPS - 10


def is_clean_to_e2fsck(image: Path) -> bool:
    """Whether `e2fsck -fn` finds nothing."""
    return (
        subprocess.run(["e2fsck", "-fn", image], capture_output=True, check=False).returncode == 0
    )


@needs_tools
def test_the_same_is_found_in_pieces_of_any_size(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    shutil.copyfile(image, copy)
    paths = ["/002", "/040", "/folder/001", "/folder/119", "/118"]
    debugfs(copy, *(f"set_inode_field {path} links_count 7" for path in paths), write=True)
    edited = sorted(number_of(copy, path) for path in paths)
    monkeypatch.setattr(inodes, "BYTES_AT_ONCE", 7 * 256)
    monkeypatch.setattr(inodes, "BYTES_TOGETHER", 5 * 256)
    monkeypatch.setattr(directories, "BLOCKS_AT_ONCE", 2)
    with ext4kit.open(image) as opened:
        assert not verify(opened.volume().filesystem()).findings.counts
    with ext4kit.open(copy) as opened:
        findings = verify(opened.volume().filesystem()).findings
    assert findings.counts == {"link-count": len(paths)}
    assert sorted(finding.inode or 0 for finding in findings.kept) == edited


@needs_tools
@pytest.mark.parametrize("names", [1, 20, directories.NAMES_AT_ONCE])
def test_a_name_that_is_twice_in_a_directory_is_found_in_pieces_of_any_size(
    names: int, bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    shutil.copyfile(bare, copy)
    pairs = [f"{folder}/same name {letter}" for folder in ("", "/folder") for letter in "AB"]
    links = [f'link /002 "{path}"' for path in (*pairs, "/last/same name A")]
    debugfs(copy, "mkdir /last", *links, "sif /002 links_count 6", write=True)
    copy.write_bytes(copy.read_bytes().replace(b"same name B", b"same name A"))
    monkeypatch.setattr(directories, "BLOCKS_AT_ONCE", 1)
    monkeypatch.setattr(directories, "NAMES_AT_ONCE", names)
    with ext4kit.open(copy) as opened:
        findings = verify(opened.volume().filesystem()).findings
    assert findings.counts == {"entry-duplicate": 2}
