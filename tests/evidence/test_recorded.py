"""Hashes that acquisition programs leave in files beside an image.

Oracles: coreutils for hashes; coreutils, ewfacquire and ewfverify for the forms of their own files.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ext4kit.evidence import open_evidence
from ext4kit.evidence.hashing import hash_evidence
from ext4kit.evidence.recorded import (
    Comparison,
    compare,
    expected_hash,
    find_recorded,
    hashes_in,
    unproved_files,
)
from tests.evidence import acquisition_logs as logs
from tests.evidence.test_hashing import told_by_tools

CONTENT = random.Random(17).randbytes(3 << 20)
OTHER = told_by_tools(b"another disk")


@pytest.fixture(scope="module")
def sums() -> logs.Sums:
    """Of the image."""
    return told_by_tools(CONTENT)


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A raw image in a folder of its own."""
    path = tmp_path / "case/disk.dd"
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    return path


def said(*command: str | Path) -> str:
    """What a program prints."""
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def compared(image: Path) -> list[Comparison]:
    """What `find_recorded` and `compare` say of an image."""
    with open_evidence(image) as evidence:
        whole, _ = hash_evidence(evidence, volumes=False)
        return list(compare(evidence, find_recorded(evidence).hashes, whole, {}))


def facts(image: Path) -> list[tuple[str, str, str | None, bool]]:
    """(source, algorithm, file that was compared, whether it matches) of each recorded hash."""
    return [
        (
            each.recorded.source,
            each.recorded.algorithm,
            None if each.file is None else each.file.name,
            each.matches,
        )
        for each in compared(image)
    ]


@pytest.mark.parametrize(
    ("name", "text", "algorithms"),
    [
        ("disk.dd.txt", logs.ftk_imager, ("md5", "sha1")),
        ("disk.txt", logs.ftk_imager, ("md5", "sha1")),
        ("disk.info", logs.guymager, ("md5", "sha256")),
        ("disk.dd.log", logs.dc3dd, ("md5", "sha256")),
        ("disk.hash", logs.dcfldd, ("md5", "sha256")),
    ],
)
def test_the_log_of_each_program_is_compared_with_the_content(
    disk: Path,
    sums: logs.Sums,
    name: str,
    text: Callable[[logs.Sums], bytes],
    algorithms: tuple[str, ...],
) -> None:
    disk.with_name(name).write_bytes(text(sums))
    assert facts(disk) == [(name, each, None, True) for each in algorithms]
    disk.with_name(name).write_bytes(text(OTHER))
    assert {each.matches for each in compared(disk)} == {False}


def test_a_hash_is_called_as_its_log_calls_it(sums: logs.Sums) -> None:
    files = [Path("disk.dd")]
    for text, label in (
        (logs.ftk_imager(sums), "MD5 checksum"),
        (logs.guymager(sums), "MD5 hash"),
        (logs.dc3dd(sums), "input results (md5)"),
        (logs.dcfldd(sums), "Total (md5)"),
        (f"{sums['md5']}  disk.dd".encode(), "MD5"),
    ):
        assert hashes_in(text.decode(), "log", files)[0].label == label


def test_every_label_of_guymager_counts_and_is_told(disk: Path, sums: logs.Sums) -> None:
    """A source that gave other bytes when it was read again is not hidden by the first reading."""
    disk.with_name("disk.info").write_bytes(logs.guymager(sums, OTHER["md5"]))
    told = {each.recorded.label: each.matches for each in compared(disk)}
    assert told == {"MD5 hash": True, "MD5 hash verified source": False, "SHA256 hash": True}


def test_the_files_that_guymager_lists_are_compared_with_the_files(
    disk: Path, sums: logs.Sums
) -> None:
    files = f"{sums['md5']}  disk.dd\n{OTHER['md5']}  disk.E02"
    disk.with_name("disk.info").write_bytes(logs.guymager(sums, files=files))
    assert ("disk.info", "md5", "disk.dd", True) in facts(disk)
    assert all(each.matches for each in compared(disk))


@pytest.mark.parametrize("options", [(), ("--tag",), ("--binary",)])
def test_sums_of_coreutils_count_for_the_file_that_they_name(
    disk: Path, options: tuple[str, ...]
) -> None:
    disk.with_name("other.dd").write_bytes(b"other")
    for program in ("md5sum", "sha1sum", "sha256sum"):
        done = subprocess.run(
            [program, *options, "other.dd", disk], cwd=disk.parent, capture_output=True, check=True
        )
        disk.with_name(f"disk.dd.{program.removesuffix('sum')}").write_bytes(done.stdout)
    assert facts(disk) == [
        (f"disk.dd.{each}", each, "disk.dd", True) for each in ("md5", "sha1", "sha256")
    ]


def test_a_name_that_coreutils_escapes_is_told_from_a_windows_path(tmp_path: Path) -> None:
    odd, plain = tmp_path / "a\\b.dd", tmp_path / "b.dd"
    odd.write_bytes(CONTENT)
    plain.write_bytes(CONTENT[::-1])
    for options in ((), ("--tag",)):
        done = subprocess.run(
            ["md5sum", *options, odd.name], cwd=tmp_path, capture_output=True, check=True
        )
        assert done.stdout.startswith(b"\\")
        for image in (odd, plain):
            image.with_name(f"{image.name}.md5").write_bytes(done.stdout)
        assert facts(odd) == [("a\\b.dd.md5", "md5", "a\\b.dd", True)]
        assert facts(plain) == []
    digits = told_by_tools(plain.read_bytes())["md5"]
    plain.with_name("b.dd.md5").write_text(f"{digits} *C:\\case\\b.dd\n")
    assert facts(plain) == [("b.dd.md5", "md5", "b.dd", True)]


def test_a_sum_without_a_name_is_of_the_disk(disk: Path, sums: logs.Sums) -> None:
    for text in (sums["md5"], f"{sums['md5'].upper()}\r\n", f"{sums['md5']}  -\n"):
        disk.with_name("disk.md5").write_text(text)
        assert facts(disk) == [("disk.md5", "md5", None, True)]


def test_windows_text_is_read(disk: Path, sums: logs.Sums) -> None:
    """UTF-16, as PowerShell's redirection writes it, and UTF-8 with a mark."""
    for encoding in ("utf-16", "utf-8-sig"):
        disk.with_name("disk.md5").write_bytes(f"{sums['md5']}  disk.dd\r\n".encode(encoding))
        assert facts(disk) == [("disk.md5", "md5", "disk.dd", True)]


@pytest.mark.parametrize(
    "text",
    [
        "{md5}  other.dd",
        "MD5 (other.dd) = {md5}",
        "SHA1 (disk.dd) = {md5}",  # the digits of another algorithm
        "MD5 hash : {md5}0",
        "MD5 hash : {md5}g",
        "MD5 hash : {short}",
        "Drive Serial Number: {md5}",
        "Total (sha256): {md5}",
        "0 - 1048576: {md5}",
        "   {md5} (md5)",  # of no result of dc3dd
        "input results for device `/dev/sdb':\n   {md5}, sectors 0 - 2047",
        "output results for file `other.dd':\n   [ok] {md5} (md5)",
        "the hash {md5}  disk.dd",
    ],
)
def test_what_is_no_recorded_hash_of_the_image_does_not_count(
    disk: Path, sums: logs.Sums, text: str
) -> None:
    filled = text.format(md5=sums["md5"], short=sums["md5"][:-1])
    for name in ("disk.md5", "disk.txt", "disk.log"):
        disk.with_name(name).write_text(f"something else\n{filled}\n")
    assert facts(disk) == []


def test_of_a_log_with_several_runs_of_dc3dd_the_last_one_that_wrote_the_image_counts(
    disk: Path, sums: logs.Sums
) -> None:
    log = disk.with_name("disk.log")
    earlier, later = logs.dc3dd(OTHER), logs.dc3dd(OTHER, "next.dd")
    log.write_bytes(earlier + logs.dc3dd(sums) + later)
    assert facts(disk) == [("disk.log", "md5", None, True), ("disk.log", "sha256", None, True)]
    log.write_bytes(logs.dc3dd(sums, "its-former-name.dd"))
    assert facts(disk) == [("disk.log", "md5", None, True), ("disk.log", "sha256", None, True)]
    log.write_bytes(logs.dc3dd(sums, "one.dd") + later)  # which of them is not known
    assert facts(disk) == []


def test_an_output_of_dc3dd_that_differs_from_its_input_is_no_match(
    disk: Path, sums: logs.Sums
) -> None:
    text = logs.dc3dd(OTHER).replace(b"[ok]", b"[!!]").split(b"output results")
    written = b"output results".join((text[0], logs.dc3dd(sums).split(b"output results")[1]))
    disk.with_name("disk.log").write_bytes(written)
    told = {(each.recorded.label, each.matches) for each in compared(disk)}
    assert ("input results (md5)", False) in told
    assert ("output results (md5)", True) in told


def test_the_log_of_a_split_image_is_of_its_content_and_sums_of_its_files(
    tmp_path: Path, sums: logs.Sums
) -> None:
    parts = [tmp_path / f"disk.00{number}" for number in (1, 2, 3)]
    for number, part in enumerate(parts):
        part.write_bytes(CONTENT[number << 20 : number + 1 << 20])
    for name in ("disk.001.txt", "disk.txt"):
        log = tmp_path / name
        log.write_bytes(logs.ftk_imager(sums))
        assert facts(parts[0]) == [(name, "md5", None, True), (name, "sha1", None, True)]
        log.unlink()
    (tmp_path / "disk.log").write_bytes(logs.dc3dd(sums, "disk.001"))
    assert {each.matches for each in compared(parts[0])} == {True}
    (tmp_path / "disk.log").unlink()
    done = subprocess.run(
        ["md5sum", "disk.001", "disk.002"], cwd=tmp_path, capture_output=True, check=True
    )
    (tmp_path / "disk.md5").write_bytes(done.stdout)
    assert facts(parts[0]) == [
        ("disk.md5", "md5", "disk.001", True), ("disk.md5", "md5", "disk.002", True)
    ]  # fmt: skip
    with open_evidence(parts[0]) as evidence:
        assert unproved_files(evidence, compared(parts[0])) == [parts[2]]
    alone = subprocess.run(["md5sum"], input=CONTENT[: 1 << 20], capture_output=True, check=True)
    (tmp_path / "disk.md5").write_bytes(alone.stdout.split()[0])
    assert facts(parts[0]) == [("disk.md5", "md5", "disk.001", True)]


def test_a_log_of_an_e01_is_of_the_acquired_media_and_a_sum_of_its_file(
    disk: Path, sums: logs.Sums
) -> None:
    if shutil.which("ewfacquire") is None:
        pytest.skip("needs ewfacquire")
    image, log = disk.with_name("case.E01"), disk.with_name("case.log")
    said("ewfacquire", "-u", "-q", "-d", "sha1", "-d", "sha256", "-l", log, "-t",
         image.with_suffix(""), disk)  # fmt: skip
    said("ewfverify", "-q", "-d", "sha1", "-l", image.with_name("case.E01.log"), image)
    assert log.read_text().count("calculated over data") >= 2
    image.with_name("case.E01.md5").write_text(said("md5sum", "--tag", image))
    image.with_name("case.E01.sha256").write_text(said("sha256sum", image).split()[0])
    found = facts(image)
    assert ("case.log", "md5", None, True) in found
    assert ("case.E01.log", "md5", None, True) in found
    assert ("case.E01.md5", "md5", "case.E01", True) in found
    assert ("case.E01.sha256", "sha256", "case.E01", True) in found
    assert all(matches for *_, matches in found)
    image.with_name("case.E01.md5").write_text(f"MD5 (case.E01) = {sums['md5']}\n")
    assert ("case.E01.md5", "md5", "case.E01", False) in facts(image)


def test_files_beside_the_image_are_read_in_part_and_only_if_they_are_files(
    disk: Path, sums: logs.Sums, tmp_path: Path
) -> None:
    log = disk.with_name("disk.dd.log")
    log.write_bytes(logs.dcfldd(sums) + b"\n" * (2 << 20) + logs.dcfldd(OTHER))
    os.mkfifo(disk.with_name("disk.log"))
    disk.with_name("disk.hash").mkdir()
    (tmp_path / "outside").write_text(f"MD5 hash : {OTHER['md5']}\n")
    disk.with_name("disk.info").symlink_to(tmp_path / "outside")
    with open_evidence(disk) as evidence:
        found = find_recorded(evidence)
        told = {problem.where: problem.what for problem in evidence.problems}
    assert [each.value for each in found.hashes] == [sums["md5"], sums["sha256"]]
    assert found.there == ("disk.dd.log",)
    assert "only its first 1,048,576 bytes" in told["disk.dd.log"]
    for name in ("disk.log", "disk.hash", "disk.info"):
        assert told[name] == "is not a regular file of this folder and is not read"


def test_a_line_that_the_limit_cuts_does_not_count(disk: Path, sums: logs.Sums) -> None:
    """`disk.dd2` must not become `disk.dd` where the reading stops."""
    line = f"{OTHER['md5']}  disk.dd"
    padding = "x" * ((1 << 20) - len(line) - 1) + "\n"
    disk.with_name("disk.md5").write_text(f"{padding}{line}2\n")
    assert facts(disk) == []


def test_any_bytes_are_read_without_a_failure() -> None:
    chance = random.Random(23)
    words = [b"MD5 hash : ", b"input results for x `", b"':\n", b" (md5)\n", b"\\", b"\0", b"\xff",
             b"0123456789abcdef" * 2, b"SHA1 (", b") = ", b"  disk.dd", b"\n", b"Total (md5): ",
             b"dc3dd 7 started at "]  # fmt: skip
    for _ in range(2000):
        data = b"".join(chance.choices(words, k=chance.randrange(12)))
        for each in hashes_in(data.decode("utf-8", "surrogateescape"), "x", [Path("disk.dd")]):
            assert {"md5": 32, "sha1": 40, "sha256": 64}[each.algorithm] == len(each.value)


@pytest.mark.parametrize("text", ["", "0", "x" * 32, "0" * 31, "0" * 128, "0" * 32 + "  -", " "])
def test_what_is_no_hash_cannot_be_expected(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        expected_hash(text)
