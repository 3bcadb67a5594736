"""The same disk in every container gives the same bytes and the same answers.

The containers are made by ewfacquire and qemu-img; the raw image is the oracle.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from ext4kit.evidence import open_evidence
from ext4kit.evidence.source import Source
from sample_images.recipes import machine
from tests.evidence.containers.conftest import Tool
from tests.evidence.containers.differencing import make_differencing
from tests.partition_tables import write_table

Check = Callable[..., None]
Make = Callable[[Tool, Path, Path], Path]

MIB = 1 << 20
STEP = 40_961


def _ewf(*options: str) -> Make:
    def make(tool: Tool, sample: Path, folder: Path) -> Path:
        tool("ewfacquire", "-u", "-q", "-C", "17", "-E", "3", "-e", "somebody", "-D", "a disk",
             "-d", "sha1", "-t", folder / "disk", *options, sample)  # fmt: skip
        return next(each for each in sorted(folder.iterdir()) if each.stem == "disk")

    return make


def _qemu(name: str, *options: str) -> Make:
    def make(tool: Tool, sample: Path, folder: Path) -> Path:
        tool("qemu-img", "convert", "-f", "raw", *options, sample, folder / name)
        return folder / name

    return make


def _overlay(base: str, base_format: str, *options: str) -> Make:
    """An image that differs from a base that lies beside it: 1 MiB was written over."""

    def make(tool: Tool, sample: Path, folder: Path) -> Path:
        if base_format == "raw":
            shutil.copy(sample, folder / base)
        else:
            tool("qemu-img", "convert", "-c", "-O", base_format, sample, folder / base)
        with (folder / base).open("r+b") as file:
            content = sample.read_bytes()[:MIB]
            if base_format == "raw":
                file.write(bytes(MIB))
        (folder / "first").write_bytes(content)
        top = folder / "top.img"
        tool("qemu-img", "create", "-q", "-b", base, "-F", base_format, *options, top)
        tool("qemu-io", "-c", f"write -q -s {folder / 'first'} 0 {MIB}", top)
        return top

    return make


def _differencing(tool: Tool, sample: Path, folder: Path) -> Path:
    """A VHD that holds the first MiB of the disk alone, over one of the rest."""
    below = bytes(MIB) + sample.read_bytes()[MIB:]
    (folder / "first").write_bytes(below)
    for name, content in (("base.vhd", folder / "first"), ("top.vhd", sample)):
        tool("qemu-img", "convert", "-f", "raw", "-O", "vpc", "-o", "force_size=on", content,
             folder / name)  # fmt: skip
    make_differencing(folder / "top.vhd", folder / "base.vhd", sample.read_bytes(), below)
    return folder / "top.vhd"


def _packed(pack: Callable[[bytes], bytes]) -> Make:
    def make(_tool: Tool, sample: Path, folder: Path) -> Path:
        path = folder / "disk.packed"
        path.write_bytes(pack(sample.read_bytes()))
        return path

    return make


VMDK = ("-O", "vmdk", "-o")
CONTAINERS: dict[str, Make] = {
    "ewf none, split": _ewf("-c", "none", "-S", str(5 * MIB)),
    "ewf fast": _ewf("-c", "fast", "-f", "encase5"),
    "ewf best": _ewf("-c", "best"),
    "ewf smart": _ewf("-c", "fast", "-f", "smart"),
    "qcow2": _qemu("disk", "-O", "qcow2"),
    "qcow2 compressed": _qemu("disk", "-c", "-O", "qcow2"),
    "qcow2 zstd": _qemu("disk", "-c", "-O", "qcow2", "-o", "compression_type=zstd"),
    "qcow2 version 2, small clusters": _qemu(
        "disk", "-c", "-O", "qcow2", "-o", "compat=0.10,cluster_size=4096"
    ),
    "qcow2 over raw": _overlay("base.img", "raw", "-f", "qcow2"),
    "qcow2 over qcow2": _overlay("base.qcow2", "qcow2", "-f", "qcow2"),
    "qcow2 subclusters": _overlay("base.img", "raw", "-f", "qcow2", "-o", "extended_l2=on"),
    "vmdk sparse": _qemu("disk", *VMDK, "subformat=monolithicSparse"),
    "vmdk stream-optimised": _qemu("disk", *VMDK, "subformat=streamOptimized"),
    "vmdk split": _qemu("disk.vmdk", *VMDK, "subformat=twoGbMaxExtentSparse"),
    "vmdk flat": _qemu("disk.vmdk", *VMDK, "subformat=monolithicFlat"),
    "vhd dynamic": _qemu("disk", "-O", "vpc", "-o", "force_size=on"),
    "vhd differencing": _differencing,
    "vhd fixed": _qemu("disk", "-O", "vpc", "-o", "force_size=on,subformat=fixed"),
    "vhdx": _qemu("disk", "-O", "vhdx"),
    "gzip": _packed(partial(gzip.compress, compresslevel=1)),
    "xz": _packed(partial(lzma.compress, preset=0)),
    "bzip2": _packed(bz2.compress),
}
ASKED = ("ewf none, split", "ewf fast", "ewf best", "qcow2 compressed", "qcow2 over raw",
         "vmdk sparse", "vmdk split", "vmdk stream-optimised", "vhd dynamic", "vhdx")  # fmt: skip


def digest(source: Source, step: int) -> str:
    """SHA-256 of a source read in steps that fit nothing."""
    found = hashlib.sha256()
    for at in range(0, source.size, step):
        found.update(source.read(at, min(step, source.size - at)))
    return found.hexdigest()


@pytest.mark.heavy
@pytest.mark.parametrize("name", CONTAINERS)
def test_the_bytes_are_those_of_the_raw_image(
    name: str, tool: Tool, sample: Path, tmp_path: Path
) -> None:
    image = CONTAINERS[name](tool, sample, tmp_path)
    content = sample.read_bytes()
    wanted = hashlib.sha256(content).hexdigest()
    with open_evidence(image) as evidence:
        assert evidence.source.size == sample.stat().st_size
        assert digest(evidence.source, 3 * MIB + 777) == wanted
        for at in range(0, evidence.source.size - STEP, 7 * STEP):
            assert evidence.source.read(at, 4_097) == content[at : at + 4_097]
        assert [volume.kind for volume in evidence.volumes] == ["ext4"]
        assert not evidence.problems.errors
        parts = {each for each in tmp_path.iterdir() if each.name != "first"}
        assert set(evidence.files) == parts


@pytest.mark.heavy
@pytest.mark.parametrize("name", ASKED)
def test_the_commands_give_the_answers_of_the_raw_image(
    name: str, tool: Tool, sample: Path, tmp_path: Path, same_answers: Check
) -> None:
    same_answers(CONTAINERS[name](tool, sample, tmp_path))


TABLES = {
    "gpt": "label: gpt\nstart=2048,size=100\nstart=4096",
    "mbr, logical": "label: dos\nstart=2048,size=100\nstart=2200,type=5\nstart=4096",
}


@pytest.mark.heavy
@pytest.mark.parametrize("table", TABLES)
def test_behind_a_partition_table_the_answers_are_the_same(
    table: str, sample: Path, tmp_path: Path, same_answers: Check
) -> None:
    disk = tmp_path / "disk.img"
    with disk.open("xb") as file:
        file.truncate(sample.stat().st_size + 3 * MIB)
    write_table(disk, TABLES[table])
    with disk.open("r+b") as file:
        file.seek(2 * MIB)
        file.write(sample.read_bytes())
    same_answers(disk)


def test_a_split_image_gives_the_answers_of_the_whole_one(
    sample: Path, tmp_path: Path, same_answers: Check
) -> None:
    machine.run("split", "-b", "7777777", "-d", "-a", "3", sample, tmp_path / "disk.")
    same_answers(tmp_path / "disk.000")


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["ewf none, split", "qcow2 over raw", "vmdk split", "vhd dynamic"])
def test_all_of_it_is_opened_read_only(name: str, tool: Tool, sample: Path, tmp_path: Path) -> None:
    image = CONTAINERS[name](tool, sample, tmp_path)
    start = "import sys; from ext4kit.cli.main import run; sys.exit(run(sys.argv[1:]))"
    calls = tmp_path / "calls"
    tool("strace", "-f", "-qq", "-e", "trace=openat,open,creat,truncate", "-o", calls,
         sys.executable, "-c", start, "ls", image)  # fmt: skip
    opened = [line for line in calls.read_text().splitlines() if str(tmp_path) in line]
    named = {each.name for each in tmp_path.iterdir()} - {"first", "calls"}
    assert all(any(f"/{each}" in line for line in opened) for each in named)
    assert not [line for line in opened if re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC)|creat", line)]


def test_a_raw_image_loads_no_reader_of_containers(sample: Path) -> None:
    names = ("pyewf", "pyvmdk", "pyvhdi", "cryptography", "zstandard")
    code = (
        "import sys; from ext4kit.cli.main import run\n"
        f"assert run(['info', {str(sample)!r}]) == 0\n"
        f"sys.exit(','.join(name for name in {names!r} if name in sys.modules) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_ewfacquire_was_told_and_counted_is_kept(
    tool: Tool, sample: Path, tmp_path: Path
) -> None:
    image = CONTAINERS["ewf best"](tool, sample, tmp_path)
    content = sample.read_bytes()
    with open_evidence(image) as evidence:
        assert evidence.format == "ewf"
        assert evidence.facts["case number"] == "17"
        assert evidence.facts["evidence number"] == "3"
        assert evidence.facts["examiner"] == "somebody"
        said = tool("env", "TZ=UTC", "ewfinfo", image)
        (day,) = re.findall(r"Acquisition date:\s+(.*)\n", said)
        acquired = datetime.strptime(day, "%a %b %d %H:%M:%S %Y")
        assert evidence.facts["acquired"] == f"{acquired:%Y-%m-%d %H:%M:%S}Z"
        (version,) = re.findall(r"Software version used:\s+(.*)\n", said)
        (system,) = re.findall(r"Operating system used:\s+(.*)\n", said)
        assert evidence.facts["acquisition software version"] == version
        assert evidence.facts["acquisition operating system"] == system
        assert evidence.hashes == {
            "md5": hashlib.md5(content).hexdigest(),
            "sha1": hashlib.sha1(content).hexdigest(),
        }


def test_a_disk_larger_than_an_extent_is_split_in_several(
    tool: Tool, sample: Path, tmp_path: Path
) -> None:
    large = tmp_path / "large.img"
    machine.copy_sparse(sample, large)
    with large.open("r+b") as file:
        file.truncate(4500 * MIB)
        file.seek(4400 * MIB)
        file.write(b"the end")
    tool("qemu-img", "convert", "-O", "vmdk", "-o", "subformat=twoGbMaxExtentSparse", large,
         tmp_path / "disk.vmdk")  # fmt: skip
    with open_evidence(tmp_path / "disk.vmdk") as evidence:
        assert len(evidence.files) == 4
        assert bytes(evidence.source.read(4400 * MIB, 7)) == b"the end"
        assert evidence.source.read(0, 8 * MIB) == sample.read_bytes()[: 8 * MIB]
