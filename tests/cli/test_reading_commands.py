"""`volumes`, `ls`, `stat`, `cat`, `extract` say what is on the image, exactly."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ext4kit.report.safe import printable
from tests.cli.conftest import EVIL, Run

EVIL_SHOWN = r"evil\x1b[31m\u202egpj\xff\\n"


def records(output: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def live_paths(tree: Path) -> set[bytes]:
    """Paths of everything in the source tree, below `/`."""
    found = set()
    for folder, folders, files in os.walk(os.fsencode(tree)):
        found |= {os.path.join(folder, name) for name in folders + files}  # noqa: PTH118
    return {path.removeprefix(os.fsencode(tree)) for path in found}


def path_of(record: dict[str, Any]) -> bytes:
    if "path_bytes" in record:
        return base64.b64decode(record["path_bytes"])
    path: str = record["path"]
    return path.encode()


def test_volumes_names_the_file_system(run: Run, image: Path) -> None:
    (record,) = records(run("volumes", image, "--json").stdout)
    assert (record["kind"], record["label"], record["offset"]) == ("ext4", "case", 0)
    assert record["size"] == image.stat().st_size


def test_volumes_reads_an_image_without_any_ext(run: Run, tmp_path: Path) -> None:
    swap = tmp_path / "swap.img"
    swap.write_bytes(bytes(1 << 20))
    subprocess.run(["mkswap", "-q", str(swap)], check=True, capture_output=True)
    done = run("volumes", swap)
    assert done.returncode == 0
    assert b"swap" in done.stdout


def test_recursive_listing_holds_every_path(run: Run, image: Path, tree: Path) -> None:
    found = {path_of(record) for record in records(run("ls", image, "-r", "--json").stdout)}
    assert found == live_paths(tree) | {b"/lost+found"}


def test_a_tree_of_odd_names_is_listed_line_by_line(run: Run, tmp_path: Path) -> None:
    plain, odd = (
        [b"a", b"b.txt"],
        [b"new\nline", b"back\\slash", "\u00e9t\u00e9".encode(), b"\xff\x1b"],
    )
    root = tmp_path / "tree"
    for number, folder in enumerate([b"plain", *odd, b"plain/below", b"plain/" + odd[0]]):
        path = os.fsencode(root) + b"/" + folder
        os.makedirs(path)  # noqa: PTH103
        for name in plain + odd[number % 2 :: 2] * (number > 0):
            Path(os.fsdecode(path + b"/" + name)).touch()
    image = tmp_path / "odd.img"
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-d", str(root), str(image), "8M"]
    subprocess.run(command, check=True, capture_output=True)
    expected = {printable(path) for path in live_paths(root)} | {"/lost+found"}
    lines = run("ls", image, "-r").stdout.decode().splitlines()
    assert sorted(lines) == sorted(expected)
    numbered = run("ls", image, "-ri").stdout.decode().splitlines()
    assert [line.split(" ", 1)[-1].lstrip() for line in map(str.lstrip, numbered)] == lines
    for place, line in enumerate(lines):  # a folder's own content follows it
        inside = [each.startswith(line + "/") for each in lines]
        assert inside[place + 1 : place + 1 + sum(inside)] == [True] * sum(inside)


def test_names_cannot_steer_the_terminal(run: Run, image: Path) -> None:
    done = run("ls", image)
    assert EVIL_SHOWN in done.stdout.decode().splitlines()
    assert b"[bold]" in done.stdout.splitlines()
    for options in ((), ("-l",), ("-i",), ("-r",), ("-rl",), ("--json",)):
        output = run("ls", image, *options).stdout.decode()
        assert output.isprintable() or set(output) - {"\n"} <= set(
            filter(str.isprintable, output)
        ), options


def test_long_listing_says_what_the_system_says(run: Run, image: Path, tree: Path) -> None:
    lines = run("ls", image, "-l", "/sub").stdout.decode().splitlines()
    data = (tree / "sub/data").stat()
    fields = next(line for line in lines if line.endswith(" data")).split()
    mode, links, uid, gid, size = fields[:5]
    expected = (data.st_nlink, data.st_uid, data.st_gid, data.st_size)
    assert mode == stat.filemode(data.st_mode)
    assert tuple(map(int, (links, uid, gid, size))) == expected


def test_long_listing_shows_link_targets(run: Run, image: Path) -> None:
    lines = run("ls", image, "-l").stdout.decode().splitlines()
    assert any(line.endswith("link -> sub/data") for line in lines)
    assert any(line.endswith("long -> " + "x" * 200) for line in lines)


def test_a_name_that_was_escaped_can_be_asked_for_by_number(run: Run, image: Path) -> None:
    entries = records(run("ls", image, "--json").stdout)
    (number,) = (each["inode"] for each in entries if path_of(each) == b"/" + EVIL)
    assert run("cat", image, f"<{number}>").stdout == b"evil\n"
    assert run("cat", image, b"/" + EVIL).stdout == b"evil\n"


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["sub/data", "sub/deep/text", "sparse", "[bold]"])
def test_cat_gives_the_bytes_to_a_pipe_a_file_and_an_appended_file(
    run: Run, image: Path, tree: Path, tmp_path: Path, name: str
) -> None:
    expected = (tree / name).read_bytes()
    assert run("cat", image, f"/{name}").stdout == expected
    for mode, before in (("wb", b""), ("ab", b"before")):
        out = tmp_path / mode
        out.write_bytes(before)
        with out.open(mode) as stream:
            done = run("cat", image, name, stdout=stream)
        assert done.returncode == 0
        assert out.read_bytes() == before + expected


def test_cat_keeps_holes_in_a_file(run: Run, image: Path, tmp_path: Path) -> None:
    out = tmp_path / "sparse"
    with out.open("wb") as stream:
        run("cat", image, "/sparse", stdout=stream)
    assert out.stat().st_size == 5_000_000
    assert out.stat().st_blocks * 512 < 1_000_000


def test_cat_of_two_targets_joins_them(run: Run, image: Path, tree: Path) -> None:
    expected = (tree / "sparse").read_bytes() + b"deep\n"
    assert run("cat", image, "/sparse", "/sub/deep/text").stdout == expected


def test_cat_tells_what_is_lost_and_writes_zeros(run: Run, copy: Path, tree: Path) -> None:
    inode = records(run("stat", copy, "/sub/data", "--json").stdout)[0]
    last = inode["map"][-1]["block"] + inode["map"][-1]["blocks"] - 1
    whole = (tree / "sub/data").read_bytes()
    os.truncate(copy, last * 1024)
    done = run("cat", copy, "/sub/data")
    assert done.returncode == 1
    kept = (len(whole) - 1) // 1024 * 1024
    assert done.stdout == whole[:kept] + bytes(len(whole) - kept)
    assert f"bytes {kept:,} to {len(whole) - 1:,} unreadable".encode() in done.stderr


def test_stat_agrees_with_debugfs(run: Run, image: Path) -> None:
    inode = records(run("stat", image, "/sub/data", "--json").stdout)[0]
    command = ["debugfs", "-R", "stat /sub/data", str(image)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"Inode: {inode['inode']} " in said
    assert f"Size: {inode['size']}\n" in said
    assert f"Blockcount: {inode['blocks']}\n" in said
    assert f"Generation: {inode['generation']} " in said
    assert f"Inode checksum: 0x{inode['checksum']:08x}" in said
    (run_,) = inode["map"]
    assert f"(0-{run_['blocks'] - 1}):{run_['block']}-" in said
    assert inode["checksum_ok"] is True


def test_stat_shows_attributes_and_access_lists(run: Run, copy: Path, tmp_path: Path) -> None:
    value = tmp_path / "value"
    value.write_bytes(b"plain \x1b value")
    command = ["debugfs", "-w", "-R", f"ea_set -f {value} /sub/data user.note", str(copy)]
    subprocess.run(command, check=True, capture_output=True)
    text = run("stat", copy, "/sub/data").stdout.decode()
    assert r"user.note = plain \x1b value" in text
    record = records(run("stat", copy, "/sub/data", "--json").stdout)[0]
    assert base64.b64decode(record["xattrs"][0]["value_base64"]) == b"plain \x1b value"


def test_extract_copies_a_tree_and_records_everything(
    run: Run, image: Path, tree: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert run("extract", image, "/", "-o", out).returncode == 0
    manifest = records((out / "manifest.jsonl").read_bytes())
    assert {path_of(each) for each in manifest} == live_paths(tree) | {b"/lost+found", b"/"}
    for record in manifest:
        if record["type"] != "file":
            is_folder = record["type"] == "directory"
            assert (record["output"] is not None) == is_folder
            continue
        source = Path(os.fsdecode(os.fsencode(tree) + path_of(record)))
        copied = (out / record["output"]).read_bytes()
        assert copied == source.read_bytes()
        assert record["sha256"] == hashlib.sha256(copied).hexdigest()
    written = {each["output"] for each in manifest if each["type"] == "file"}
    there = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert there == written | {"manifest.jsonl", "case.json"}
    folders = {path.relative_to(tree) for path in tree.rglob("*") if path.is_dir()}
    made = {path.relative_to(out / "files") for path in (out / "files").rglob("*") if path.is_dir()}
    assert made == folders | {Path("lost+found")}


def test_extract_by_number(run: Run, image: Path, tmp_path: Path) -> None:
    record = records(run("stat", image, "/sub/deep/text", "--json").stdout)[0]
    out = tmp_path / "out"
    assert run("extract", image, f"<{record['inode']}>", "-o", out).returncode == 0
    assert (out / f"unnamed/inode-{record['inode']}").read_bytes() == b"deep\n"


def test_offset_reads_a_file_system_without_a_partition_table(
    run: Run, image: Path, tmp_path: Path
) -> None:
    disk = tmp_path / "disk.img"
    disk.write_bytes(random.Random("noise").randbytes(7777) + image.read_bytes())
    done = run("cat", disk, "--offset", "7777", "/sub/deep/text")
    assert (done.returncode, done.stdout) == (0, b"deep\n")
