"""Bad input ends in one line and the right exit code; never in a traceback."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from ext4kit.cli import main
from sample_images.recipes.score import OWN, read_records
from tests.cli.conftest import ROOT, Run
from tests.environment import is_root, missing
from tests.partition_tables import write_table

COMMANDS = ("volumes", "info", "ls", "stat", "cat", "extract", "deleted", "recover")
READING = ("info", "ls", "deleted")


def check(done: subprocess.CompletedProcess[bytes], code: int, *words: str) -> None:
    """The exit code, and words on stderr's single message."""
    said = done.stderr.decode()
    assert done.returncode == code, said
    assert "Traceback" not in said
    for word in words:
        assert word in said


@pytest.mark.parametrize("command", READING)
def test_a_missing_file(run: Run, tmp_path: Path, command: str) -> None:
    check(run(command, tmp_path / "none.img"), 3, "none.img", "No such file")


@pytest.mark.parametrize("command", READING)
def test_a_directory_and_an_empty_file(run: Run, tmp_path: Path, command: str) -> None:
    check(run(command, tmp_path), 3, "is a directory")
    (tmp_path / "empty").touch()
    check(run(command, tmp_path / "empty"), 3, "is empty")


def test_another_file_system_is_named(run: Run, tmp_path: Path) -> None:
    if reason := missing("mkfs.xfs"):
        pytest.skip(reason)
    xfs = tmp_path / "x.img"
    subprocess.run(["truncate", "-s", "320M", str(xfs)], check=True)
    subprocess.run(["mkfs.xfs", "-q", str(xfs)], check=True, capture_output=True)
    check(run("info", xfs), 3, "xfs")
    check(run("ls", xfs, "--volume", "1"), 3, "xfs")
    assert run("volumes", xfs).returncode == 0


def test_noise_is_no_file_system(run: Run, tmp_path: Path) -> None:
    noise = tmp_path / "noise"
    noise.write_bytes(random.Random("noise").randbytes(1 << 16))
    check(run("ls", noise), 3, "not ext2, ext3 or ext4")


def test_an_image_cut_within_the_inode_table_gives_what_is_left(run: Run, copy: Path) -> None:
    os.truncate(copy, 200 * 1024)
    done = run("info", copy)
    check(done, 1, "ends early")
    assert b"Filesystem volume name:   case" in done.stdout
    for command in ("ls", "deleted"):
        check(run(command, copy), 1, "ends early")


def test_partitions_cut_by_and_past_the_end(run: Run, image: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk.img"
    data, sectors = image.read_bytes(), image.stat().st_size // 512
    disk.write_bytes(bytes(1 << 20) + data + data)
    os.truncate(disk, 256 << 20)
    starts = (2048, 2048 + sectors, 400_000)
    rows = [f"start={start}, size={sectors}, type=83" for start in starts]
    write_table(disk, "\n".join(["label: dos", *rows]) + "\n")
    os.truncate(disk, (1 << 20) + len(data) + (12 << 20))
    done = run("volumes", disk)
    check(done, 1, "volume 2", "volume 3", "the image ends")
    assert done.stdout.count(b"ext4") == 2
    listed = run("ls", disk, "--volume", "1", "/sub/deep")
    assert listed.stdout == b"text\n"
    check(run("ls", disk, "--volume", "2"), 1, "ends early")
    check(run("ls", disk, "--volume", "3"), 3)


def test_several_file_systems_are_listed(run: Run, image: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk.img"
    data, sectors = image.read_bytes(), image.stat().st_size // 512
    disk.write_bytes(bytes(1 << 20) + data + data)
    rows = [f"start={2048 + place * sectors}, size={sectors}, type=83" for place in (0, 1)]
    write_table(disk, "\n".join(["label: dos", *rows]) + "\n")
    done = run("ls", disk)
    check(done, 2, "--volume", "ext4", str(1 << 20))
    assert run("ls", disk, "--volume", "2", "/sub/deep").stdout == b"text\n"


def test_wrong_requests(run: Run, image: Path) -> None:
    check(run("ls", image, "--volume", "9"), 2, "no volume 9")
    check(run("ls", image, "/none"), 2, "/none")
    check(run("stat", image, "<999999999>"), 2, "999999999")
    check(run("cat", image, "/sub"), 2, "directory")
    check(run("ls", image, "--superblock", "77"), 2, "77")
    check(run("ls", image, "--offset", str(1 << 40)), 2, "--offset")
    check(run("ls", image, "--bogus"), 2, "--bogus")
    check(run("bogus", image), 2, "bogus")
    check(run("ls"), 2, "IMAGE")


@pytest.mark.skipif(not is_root(), reason="needs root to become someone else")
@pytest.mark.parametrize(
    ("kind", "group", "hint"),
    [
        ("file", 0, "use sudo, or ask its owner for the right to read it"),
        ("file", 6, "use sudo, or be in the group disk"),
        ("device", 6, "use sudo, or be in the group disk (`sudo adduser $USER disk`)"),
        ("folder", 0, "use sudo"),
    ],
)
def test_without_the_right_to_read_the_remedy_is_told(
    tmp_path: Path, kind: str, group: int, hint: str
) -> None:
    """6 is Debian's group disk; one line, and exit code 3."""
    place = evidence = tmp_path / "evidence"
    if kind == "device":
        try:
            os.mknod(evidence, 0o660 | stat.S_IFBLK, os.makedev(7, 250))
        except OSError:
            pytest.skip("device nodes cannot be made here")
    elif kind == "folder":
        place.mkdir()
        evidence = place / "disk.img"
        evidence.write_bytes(b"x")
    else:
        evidence.write_bytes(b"x")
    os.chown(place, 0, group)
    place.chmod(0o640 if group else 0o600)
    for each in (tmp_path, *tmp_path.parents):
        if each.stat().st_uid == 0 and each.stat().st_mode & 0o077 == 0:
            each.chmod(0o711)
    code = (
        "import grp, os, sys; import ext4kit.cli.info, ext4kit.cli.ls, ext4kit.cli.main as m\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        f"path = {str(evidence)!r}\n"
        "codes = [m.run([command, path]) for command in ('info', 'ls')]\n"
        "sys.exit(codes[0] if codes[0] == codes[1] else 99)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    check(done, 3, "cannot be opened: Permission denied", hint)
    assert done.stderr.count(b"\n") == 2


@pytest.mark.parametrize("command", [("extract", "/"), ("recover",)])
def test_an_output_folder_that_cannot_be_used(
    run: Run, copy: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    name, *targets = command
    full = tmp_path / "full"
    full.mkdir()
    (full / "there").touch()
    check(run(name, copy, *targets, "-o", full), 2, "not empty")
    check(run(name, copy, *targets, "-o", copy), 2, "folder")
    check(run(name, copy, *targets, "-o", copy / "below"), 2, "is not a folder")
    assert list(full.iterdir()) == [full / "there"]


@pytest.mark.kernel
def test_an_output_folder_on_the_mounted_evidence(run: Run, copy: Path, tmp_path: Path) -> None:
    mount = tmp_path / "mount"
    mount.mkdir()
    subprocess.run(["mount", "-o", "loop", str(copy), str(mount)], check=True)
    try:
        for name, *targets in (("extract", "/"), ("recover",)):
            done = run(name, copy, *targets, "-o", mount / "out")
            check(done, 2, "on the evidence itself")
        assert not (mount / "out").exists()
    finally:
        subprocess.run(["umount", str(mount)], check=True)


@pytest.mark.kernel
@pytest.mark.parametrize("work", ["extract", "recover"])
def test_a_full_disk_leaves_a_valid_manifest(
    run: Run, image: Path, deleted: Path, tmp_path: Path, work: str
) -> None:
    with small_disk(tmp_path) as small:
        what = ["extract", image, "/"] if work == "extract" else ["recover", deleted]
        done = run(*what, "-o", small / "out")
        check(done, 1, "No space left")
        _ends_unfinished(small / "out")


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk that is soon full."""
    small = folder / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(small)], check=True)
    try:
        yield small
    finally:
        subprocess.run(["umount", str(small)], check=True)


def _ends_unfinished(out: Path) -> None:
    """An unfinished file says so in the last record; all others are whole and have their record."""
    records = _records(out / "manifest.jsonl")
    codes = [{reason["code"] for reason in one.get("reasons", [])} for one in records]
    unfinished = [at for at, one in enumerate(codes) if "write-interrupted" in one]
    # none: the manifest itself met the full disk; folders, which come last, follow the file
    assert unfinished == list(range(len(records) - len(unfinished), len(records)))
    files = [at for at in unfinished if records[at]["type"] == "file"]
    assert files == unfinished[:1]
    assert len(list(out.rglob("*.incomplete"))) == len(files)
    _whole_files_are_told(out, records)


def _records(manifest: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in manifest.read_bytes().splitlines()]


def _whole_files_are_told(out: Path, records: list[dict[str, Any]]) -> None:
    """Every file that does not say it is unfinished has its record, hash and all."""
    told = {record["output"]: record["sha256"] for record in records if record["output"]}
    for path in out.rglob("*"):
        kept = path.name in OWN or path.suffix == ".incomplete"
        if path.is_file() and not kept:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            assert told[path.relative_to(out).as_posix()] == digest


def test_a_full_standard_output(run: Run, image: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        for arguments in (("info", image), ("ls", image, "-r"), ("cat", image, "/sub/data")):
            done = run(*arguments, stdout=full)
            check(done, 1, "No space left")


def test_a_closed_pipe_ends_quietly(image: Path) -> None:
    command = [sys.executable, "-m", "ext4kit", "cat", str(image), "/sub/data"]
    done = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.stdout
    assert done.stderr
    done.stdout.close()
    assert done.stderr.read() == b""
    assert done.wait() == -signal.SIGPIPE
    done.stderr.close()


@pytest.mark.heavy
@pytest.mark.parametrize("work", ["extract", "recover"])
def test_an_interrupt_leaves_a_valid_manifest(
    image: Path, deleted: Path, tmp_path: Path, work: str
) -> None:
    out = tmp_path / "out"
    what = ["extract", str(image), "/"] if work == "extract" else ["recover", str(deleted)]
    code = (
        "import signal, sys, time\nfrom ext4kit.cli import main\n"
        "from ext4kit.output import rooted as output\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # test runners ignore it
        "original = output.write_all\n"
        "def slow(*each):\n    time.sleep(0.2)\n    original(*each)\n"
        "output.write_all = slow\n"
        f"sys.exit(main.run({[*what, '-o', str(out)]!r}))\n"
    )
    done = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.PIPE)
    manifest = out / "manifest.jsonl"
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not (manifest.exists() and manifest.stat().st_size):
        time.sleep(0.02)
    time.sleep(0.1)
    done.send_signal(signal.SIGINT)
    _, said = done.communicate(timeout=30)
    assert done.returncode == 130, said
    assert said.startswith(b"ext4kit: interrupted") and said.count(b"\n") == 1
    assert (b" files written to " in said and b" --resume`" in said) == (work == "recover")
    records = _records(manifest)
    assert any("interrupted" in str(record["problems"]) for record in records)
    _whole_files_are_told(out, records)
    case = json.loads((out / "case.json").read_text())
    assert case["state"] == "incomplete"
    assert "Interrupt" in case["reason"]
    digest = hashlib.sha256(manifest.read_bytes()).hexdigest()
    assert [(each["path"], each["sha256"]) for each in case["outputs"]] == [(manifest.name, digest)]


def test_problems_are_in_the_json_too(run: Run, copy: Path) -> None:
    os.truncate(copy, 200 * 1024)
    done = run("info", copy, "--json")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    problems = [record for record in records if record["record"] == "problem"]
    assert any("ends early" in problem["what"] for problem in problems)
    assert done.stderr.decode().splitlines()[-1].startswith(f"ext4kit: {len(problems)} error")


def test_quiet_hides_warnings_and_keeps_errors(run: Run, copy: Path) -> None:
    with copy.open("r+b") as stream:
        stream.seek(1024)
        stream.write(bytes(1024))
    loud, quiet = run("ls", copy), run("ls", copy, "--quiet")
    assert loud.returncode == quiet.returncode == 0
    assert b"backup" in loud.stderr
    assert quiet.stderr == b""
    assert quiet.stdout == loud.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(run: Run, command: str) -> None:
    for option in ("-h", "--help"):
        done = run(command, option)
        assert done.returncode == 0
        assert f"  ext4kit {command} disk.img".encode() in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("lss", "IMAGE"), "no command 'lss'; did you mean `ext4kit ls`? (see `ext4kit --help`)"),
        (("IMAGE",), "is a file, not a command; try `ext4kit report "),
        (("journal", "lst", "IMAGE"), "did you mean `ext4kit journal list`?"),
        (("ls",), "Missing argument 'IMAGE' (see `ext4kit ls --help`)"),
        (("deleted", "IMAGE", "--size", "big"), "'big' is not a range such as 10k..5M"),
    ],
)
def test_a_wrong_call_is_one_line_that_says_what_to_do(
    run: Run, image: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = run(*(str(image) if word == "IMAGE" else word for word in arguments))
    check(done, 2, words)
    assert done.stderr.startswith(b"ext4kit: ")
    assert done.stderr.count(b"\n") == 1


def test_a_freed_inode_is_said_to_be_free(run: Run, deleted: Path, tmp_path: Path) -> None:
    """Its bytes are not those of an empty file."""
    number = json.loads(run("deleted", deleted, "*.txt", "--json").stdout.splitlines()[0])["inode"]
    done = run("cat", deleted, f"<{number}>")
    command = f"`ext4kit recover {deleted} --inode {number} -o OUT`"
    check(done, 1, f"inode {number}: the inode is free: {command} recovers")
    assert not done.stdout
    check(run("extract", deleted, f"<{number}>", "-o", tmp_path / "out"), 1, "The inode is free")
    (record,) = read_records(tmp_path / "out")
    assert (record["output"], record["reasons"][0]["code"]) == (None, "inode-free")
    assert run("cat", deleted, "<8>", "--quiet").returncode == 0  # the journal's inode


def test_sizes_for_people(run: Run, image: Path) -> None:
    line = run("ls", image, "-lh", "/sub/data").stdout.decode()
    assert line.split()[4:6] == ["750.0", "KiB"]
    assert run("ls", image, "-l", "/sub/data").stdout.decode().split()[4] == "768000"


def test_an_internal_error_says_what_to_send_and_nothing_of_the_evidence(
    image: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("/home/victim/secret")

    monkeypatch.setattr("ext4kit.filesystem.FileSystem.from_source", fail)
    assert main.run(["info", str(image)]) == 70
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("ext4kit: internal error: ValueError: /home/victim/secret (EXT4KIT_DEB")
    assert "secret" not in second
    assert str(image) not in second
    assert re.search(r"ValueError at .*cli/session.py:\d+ > .*opening.py:\d+; ext4kit \d", second)
    for name in ("click", "numpy", "construct"):
        assert f"; {name} {metadata.version(name)}" in second
