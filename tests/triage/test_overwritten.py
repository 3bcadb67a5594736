"""Files that were overwritten before their deletion are signs, and what looks like them is none."""

from __future__ import annotations

import gzip
import os
import random
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import ext4kit
from ext4kit.recovery.search_sources import JOURNAL_ONLY
from ext4kit.triage import TriageOptions, triage
from sample_images.recipes import machine
from tests.report.scenes import acting, fresh
from tests.report.test_suspicions import found

CODE = "overwritten-deleted"
TEXT = b"".join(b"line %d of the plan\n" % number for number in range(2000))
SECRET = b"/home/anna/secret"
NOISE = random.Random(3).randbytes(len(TEXT))


def signs(tmp_path: Path, script: str, options: str = "noatime,commit=600") -> set[bytes | None]:
    """The signs after a script, which has a file `secret` and `sync`, in the home of a user."""
    image = fresh(tmp_path / "image")
    with machine.mounted(image, options) as root:
        home = root / "home/anna"
        home.mkdir(parents=True)
        (home / "draft").write_bytes(TEXT)
        (home / "secret").write_bytes(TEXT)
        machine.sync(root)
        (home / "draft").unlink()
        machine.sync(root)
        time.sleep(0.05)  # the clock of inodes moves on in ticks; two writes in one look like one
        shell = "set -eu\nsync() { command sync -f .; sleep 0.05; }\nsize=$(stat -c %s secret)\n"
        subprocess.run(["sh", "-c", shell + script], cwd=home, check=True, capture_output=True)
    return signs_in(image)


def signs_in(image: Path) -> set[bytes | None]:
    with ext4kit.open(image) as opened:
        extent = TriageOptions(sources=JOURNAL_ONLY, verify=False, names=False)
        return found(triage(opened.volume().filesystem(), extent)).get(CODE, set())


OVERWRITTEN = {
    "dd of random bytes": "dd if=/dev/urandom of=secret bs=$size count=1 conv=notrunc,fsync",
    "dd of zeros": "dd if=/dev/zero of=secret bs=$size count=1 conv=notrunc; sync",
    "one byte": "head -c $size /dev/zero | tr '\\000' 'U' | dd of=secret conv=notrunc; sync",
    "whole blocks": "dd if=/dev/urandom of=secret bs=4096 count=1 conv=notrunc,fsync\n"
    "dd if=/dev/urandom of=secret bs=$size count=1 conv=notrunc,fsync",
    "cat of random bytes": "head -c $size /dev/urandom > secret; sync",
    "cat of more zeros": "head -c $((size * 2)) /dev/zero > secret; sync",
}


@pytest.mark.kernel
@pytest.mark.parametrize("how", OVERWRITTEN)
def test_an_overwritten_file_is_a_sign(needs_kernel: None, tmp_path: Path, how: str) -> None:
    assert signs(tmp_path, OVERWRITTEN[how] + "\nrm secret") == {SECRET}


HARMLESS = {
    "random bytes written once": "head -c 300000 /dev/urandom > blob; sync; rm blob",
    "a download of encrypted data": "for part in 1 2 3 4; do\n"
    "head -c 200000 /dev/urandom >> blob; sync; done; rm blob",
    "a download into reserved blocks": "fallocate -l 1048576 blob; sync; for part in 0 1 2 3; do\n"
    "dd if=/dev/urandom of=blob bs=262144 count=1 seek=$part conv=notrunc; sync; done; rm blob",
    "zeros written once": "dd if=/dev/zero of=blob bs=65536 count=8; sync; rm blob",
    "a part that was overwritten": "dd if=/dev/urandom of=secret bs=4096 count=2 conv=notrunc\n"
    "sync; rm secret",
    "an edited text": "tr a-z A-Z < secret > upper; sync\n"
    "dd if=upper of=secret conv=notrunc; sync; rm secret",
    "overwritten in memory alone": "dd if=/dev/urandom of=secret bs=$size count=1 conv=notrunc\n"
    "rm secret",
    "a packed file written again": "gzip -k -n secret; sync; cp secret.gz copy\n"
    "dd if=copy of=secret.gz conv=notrunc; sync; rm secret.gz",
    "overwritten and kept": "dd if=/dev/urandom of=secret bs=$size count=1 conv=notrunc,fsync",
}


@pytest.mark.kernel
@pytest.mark.parametrize("what", HARMLESS)
def test_a_harmless_deletion_is_none(needs_kernel: None, tmp_path: Path, what: str) -> None:
    assert signs(tmp_path, HARMLESS[what]) == set()


@pytest.mark.kernel
def test_zeros_after_a_trim_are_none(needs_kernel: None, tmp_path: Path) -> None:
    """A TRIM clears freed blocks; what was written before is then unknown."""
    script = "tr a-z A-Z < secret | dd of=secret conv=notrunc; sync; rm secret; sync; fstrim ../.."
    assert signs(tmp_path, script) == set()


def act(image: Path, work: Callable[[Path], None]) -> None:
    with acting(image) as root:
        work(root)


@pytest.mark.kernel
def test_a_database_is_none(needs_kernel: None, tmp_path: Path) -> None:
    def work(root: Path) -> None:
        path = root / "letters.db"
        for round_ in range(4):
            with sqlite3.connect(path) as database:
                database.execute("create table if not exists letters (text blob)")
                database.execute("pragma secure_delete = on")
                database.execute("delete from letters")
                rows = [(os.urandom(400),) for _ in range(200)]
                database.executemany("insert into letters values (?)", rows)
            database.close()
            machine.sync(root)
            assert round_ or path.stat().st_size > 80_000
        path.unlink()

    image = fresh(tmp_path / "image")
    act(image, work)
    assert signs_in(image) == set()


@pytest.mark.kernel
def test_a_packed_file_that_replaces_a_packed_one_is_none(
    needs_kernel: None, tmp_path: Path
) -> None:
    def work(root: Path) -> None:
        for level in (9, 1):
            (root / "backup.gz").write_bytes(gzip.compress(TEXT + NOISE, level, mtime=0))
            machine.sync(root)
        (root / "backup.gz").unlink()

    image = fresh(tmp_path / "image")
    act(image, work)
    assert signs_in(image) == set()
