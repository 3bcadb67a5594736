"""Evidence that is mounted read-write is told, where the kernel says it is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ext4kit.evidence import open_evidence
from ext4kit.evidence.mounts import writable_mounts
from sample_images.recipes import machine

pytestmark = pytest.mark.kernel


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "an image.img"
    path.touch()
    machine.truncate(path, 16 << 20)
    machine.run("mke2fs", "-q", "-F", "-t", "ext4", path)
    return path


def mount(device: Path, place: Path, options: str) -> None:
    subprocess.run(["mount", "-o", options, str(device), str(place)], check=True)


@pytest.mark.parametrize("options", ["rw", "ro"])
def test_a_mounted_device_and_the_image_below_it(image: Path, tmp_path: Path, options: str) -> None:
    place = tmp_path / "a place"
    place.mkdir()
    with machine.loop_device(image) as device:
        assert writable_mounts(image) == writable_mounts(device) == []
        mount(device, place, options)
        try:
            expected = [str(place).encode()] if options == "rw" else []
            assert writable_mounts(image) == writable_mounts(device) == expected
            for path in (image, Path(device)):
                with open_evidence(path) as evidence:
                    told = [str(problem) for problem in evidence.problems]
                assert len(told) == len(expected)
                assert all(f"is mounted read-write at {place}" in text for text in told)
        finally:
            subprocess.run(["umount", str(place)], check=True)
    assert writable_mounts(image) == []


def test_a_mounted_partition_is_one_of_its_disk(image: Path, tmp_path: Path) -> None:
    disk, place = tmp_path / "disk.img", tmp_path / "place"
    place.mkdir()
    with disk.open("wb") as stream:
        stream.truncate(20 << 20)
        stream.seek(1 << 20)
        stream.write(image.read_bytes())
    table = "2048,32768,L\n"
    subprocess.run(
        ["sfdisk", "--no-tell-kernel", "-q", str(disk)], input=table, text=True, check=True
    )
    attached = ["losetup", "-f", "--show", "-P", str(disk)]
    device = subprocess.run(attached, check=True, capture_output=True, text=True).stdout.strip()
    try:
        part = Path(f"{device}p1")
        if not part.exists():
            pytest.skip("this kernel makes no partitions of loop devices")
        mount(part, place, "rw")
        try:
            for path in (disk, Path(device), part):
                assert writable_mounts(path) == [str(place).encode()]
        finally:
            subprocess.run(["umount", str(place)], check=True)
    finally:
        subprocess.run(["losetup", "-d", device], check=True)
