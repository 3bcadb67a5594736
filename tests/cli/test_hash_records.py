"""`hash --verify`, `hash --expect` and `--verify-evidence` against what the acquisition recorded.

Oracle: coreutils.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.evidence import acquisition_logs as logs
from tests.evidence.test_hashing import told_by_tools

WRONG = told_by_tools(b"another disk")


@pytest.fixture
def disk(copy: Path) -> Path:
    """An image in a folder of its own."""
    (copy.parent / "case").mkdir()
    return copy.rename(copy.parent / "case/disk.dd")


@pytest.fixture
def sums(image: Path) -> logs.Sums:
    return told_by_tools(image.read_bytes())


def of_image(run: Run, code: int, *arguments: str | Path) -> dict[str, Any]:
    """The record of the image's hashes."""
    done = run("hash", *arguments, "--image-only", "--json")
    assert done.returncode == code, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    (found,) = [each for each in records if each["record"] == "hash"]
    return dict(found)


@pytest.mark.parametrize("algorithm", ["md5", "sha1", "sha256"])
def test_an_expected_hash_is_told_by_its_length_in_either_case(
    run: Run, disk: Path, sums: logs.Sums, algorithm: str
) -> None:
    for digits in (sums[algorithm], sums[algorithm].upper()):
        (told,) = of_image(run, 0, disk, "--expect", digits)["recorded"]
        assert told == {
            "algorithm": algorithm, "value": sums[algorithm], "source": "--expect",
            "label": told["label"], "compared": "content", "file": None,
            "computed": sums[algorithm], "matches": True,
        }  # fmt: skip
    done = run("hash", disk, "--expect", WRONG[algorithm], "--expect", sums["md5"])
    assert done.returncode == 1
    for text in (done.stdout, done.stderr):
        line = f"{WRONG[algorithm]} DIFFERS from the content of the image"
        assert line.encode() in text
    assert f"{sums['md5']} matches the content of the image".encode() in done.stdout
    assert f"which has {sums[algorithm]}".encode() in done.stderr


@pytest.mark.parametrize("digits", ["", "00", "g" * 32, "0" * 33, "0" * 128])
def test_what_is_no_hash_is_refused_before_anything_is_read(
    run: Run, disk: Path, digits: str
) -> None:
    done = run("hash", disk, "--expect", digits)
    assert done.returncode == 2
    assert b"32, 40 or 64 hexadecimal digits" in done.stderr
    assert done.stdout == b""


def test_a_log_beside_a_raw_image_is_enough_for_verify(
    run: Run, disk: Path, sums: logs.Sums
) -> None:
    disk.with_name("disk.dd.txt").write_bytes(logs.ftk_imager(sums))
    done = run("hash", disk, "--verify", "--image-only")
    assert done.returncode == 0, done.stderr
    line = f"disk.dd.txt: MD5 checksum {sums['md5']} matches the content of the image"
    assert line.encode() in done.stdout
    record = of_image(run, 0, disk, "--verify")
    assert record["matches"] is True
    assert {each["source"] for each in record["recorded"]} == {"disk.dd.txt"}
    with disk.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"!")
    done = run("hash", disk, "--verify", "--image-only")
    assert done.returncode == 1
    assert b"disk.dd.txt: MD5 checksum" in done.stderr
    assert b"matches" not in done.stdout
    assert of_image(run, 1, disk, "--verify")["matches"] is False


def test_without_verify_files_beside_the_image_are_not_read(run: Run, disk: Path) -> None:
    disk.with_name("disk.txt").write_bytes(logs.ftk_imager(WRONG))
    record = of_image(run, 0, disk)
    assert (record["recorded"], record["matches"]) == ([], None)


def test_when_nothing_is_found_it_is_said_what_was_looked_for(run: Run, disk: Path) -> None:
    disk.with_name("disk.log").write_text("a note\n")
    done = run("hash", disk, "--verify", "--image-only")
    assert done.returncode == 1
    said = done.stderr.decode()
    assert "nothing to verify" in said
    suffixes = ("md5", "sha1", "sha256", "txt", "info", "log", "hash")
    for name in (f"{stem}.{suffix}" for stem in ("disk", "disk.dd") for suffix in suffixes):
        assert name in said
    assert "no hash of this image is in disk.log" in said
    assert "--expect" in said
    assert said.count("\n") == 2


def test_an_expected_hash_is_something_to_verify(run: Run, disk: Path, sums: logs.Sums) -> None:
    assert of_image(run, 0, disk, "--verify", "--expect", sums["sha1"])["matches"] is True


def test_sums_of_some_pieces_do_not_verify_a_split_image(run: Run, disk: Path) -> None:
    content = disk.read_bytes()
    middle = len(content) // 2
    for number, data in ((1, content[:middle]), (2, content[middle:])):
        disk.with_name(f"disk.00{number}").write_bytes(data)
    disk.unlink()
    first, sums_file = disk.with_name("disk.001"), disk.with_name("disk.sha256")
    for names, code in ((["disk.001"], 1), (["disk.001", "disk.002"], 0)):
        made = subprocess.run(
            ["sha256sum", *names], cwd=disk.parent, capture_output=True, check=True
        )
        sums_file.write_bytes(made.stdout)
        done = run("hash", first, "--verify", "--image-only")
        assert done.returncode == code
        assert (b"disk.002: is not verified" in done.stderr) == bool(code)
        assert b"matches the file disk.001" in done.stdout
    first.with_name("disk.001.txt").write_bytes(logs.ftk_imager(told_by_tools(content)))
    sums_file.write_bytes(made.stdout.splitlines()[0])
    assert run("hash", first, "--verify", "--image-only").returncode == 0


def test_a_hash_of_the_container_itself_is_told_from_one_of_its_content(
    run: Run, disk: Path, sums: logs.Sums
) -> None:
    if shutil.which("ewfacquire") is None:
        pytest.skip("needs ewfacquire")
    image = disk.with_name("case.E01")
    tool = ("ewfacquire", "-u", "-q", "-d", "sha1", "-t")
    subprocess.run([*tool, image.with_suffix(""), disk], check=True, capture_output=True)
    own = told_by_tools(image.read_bytes())
    record = of_image(run, 0, image, "--expect", own["sha256"], "--expect", sums["sha256"])
    told = [(each["compared"], each["file"]) for each in record["recorded"]]
    assert told == [("file", str(image)), ("content", None)]
    image.with_name("case.md5").write_text(f"{sums['md5']}  case.E01\n")
    done = run("hash", image, "--verify", "--image-only")
    assert done.returncode == 1
    assert f"{sums['md5']} DIFFERS from the file case.E01, which has {own['md5']}" in (
        done.stderr.decode()
    )


def test_a_hostile_log_cannot_control_the_terminal(run: Run, disk: Path, sums: logs.Sums) -> None:
    lines = "".join(f"MD5 hash : {number:032x}\n" for number in range(20_000))
    disk.with_name("disk.txt").write_text(f"\x1b[31m\n{lines}MD5 hash\x1b : {sums['md5']}\n")
    done = run("hash", disk, "--verify", "--image-only")
    assert done.returncode == 1
    assert b"\x1b" not in done.stdout + done.stderr
    assert len(done.stdout.splitlines()) < 100
    assert len(done.stderr.splitlines()) < 20
    assert b"20,000 recorded hashes in all, 20,000 differ" in done.stdout


def test_the_report_says_which_recorded_hashes_match(run: Run, disk: Path, sums: logs.Sums) -> None:
    disk.with_name("disk.info").write_bytes(logs.guymager(sums, WRONG["md5"]))
    page = disk.parent / "page.html"
    quick = ("report", disk, "--quick", "--verify-evidence")
    terminal, written, told = run(*quick), run(*quick, "--html", page), run(*quick, "--json")
    assert {each.returncode for each in (terminal, written, told)} == {1}
    wanted = (
        f"disk.info: MD5 hash {sums['md5']} matches the content of the image",
        f"disk.info: SHA256 hash {sums['sha256']} matches the content of the image",
        f"disk.info: MD5 hash verified source {WRONG['md5']} DIFFERS from the content of the image",
    )
    flat = "".join(terminal.stdout.decode().split())
    for line in wanted:
        assert line in page.read_text()
        assert line.replace(" ", "") in flat
    assert wanted[2] in terminal.stderr.decode()
    records = [json.loads(line) for line in told.stdout.splitlines()]
    (check,) = [each for each in records if each["record"] == "evidence check"]
    assert [(each["label"], each["matches"]) for each in check["recorded"]] == [
        ("MD5 hash", True), ("MD5 hash verified source", False), ("SHA256 hash", True)
    ]  # fmt: skip
    assert check["as_stored"] is None


def test_a_report_without_a_recorded_hash_says_so(run: Run, disk: Path) -> None:
    done = run("report", disk, "--quick", "--verify-evidence")
    assert done.returncode == 0
    said = " ".join(done.stdout.decode().split())
    assert "neither the image nor a file beside it has hashes to compare with" in said


def test_the_case_record_has_the_recorded_hashes_of_a_split_image(
    run: Run, disk: Path, sums: logs.Sums
) -> None:
    content = disk.read_bytes()
    disk.with_name("disk.001").write_bytes(content[: 8 << 20])
    disk.with_name("disk.002").write_bytes(content[8 << 20 :])
    disk.unlink()
    disk.with_name("disk.001.txt").write_bytes(logs.ftk_imager(sums))
    out = disk.parent / "out"
    done = run("extract", disk.with_name("disk.001"), "/sub", "-o", out, "--verify-evidence")
    assert done.returncode == 0, done.stderr
    assert f"SHA1 checksum {sums['sha1']} matches the content" in done.stdout.decode()
    check = json.loads((out / "case.json").read_text())["evidence_check"]
    assert [each["matches"] for each in check["recorded"]] == [True, True]
    assert check["disk"]["md5"] == hashlib.md5(content).hexdigest()
    assert check["as_stored"] is None
