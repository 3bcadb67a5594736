"""Hashes of images, volumes and files, held against coreutils' md5sum, sha1sum and sha256sum."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

from ext4kit.errors import AccessError
from ext4kit.evidence import open_evidence
from ext4kit.evidence.hashing import hash_evidence, hash_files, hash_ranges
from ext4kit.evidence.source import check_range
from tests.partition_tables import write_table

MIB = 1 << 20


def told_by_tools(data: bytes) -> dict[str, str]:
    return {
        name: subprocess.run([f"{name}sum"], input=data, capture_output=True, check=True)
        .stdout.split()[0]
        .decode()
        for name in ("md5", "sha1", "sha256")
    }


def test_the_image_and_its_partitions_in_one_pass(tmp_path: Path) -> None:
    """Partitions that start and end anywhere, in each other's neighbourhood, holes between."""
    disk = tmp_path / "disk.img"
    with disk.open("xb") as file:
        file.truncate(23 * MIB + 512)
    parts = ("63,size=4099", "8192,size=20481", "30000,type=5", "30777,size=1", "31000,size=16000")
    write_table(disk, "\n".join(["label: dos", *(f"start={each}" for each in parts)]))
    noise = random.Random(5)
    with disk.open("r+b") as file:
        for offset, length in ((63 * 512, 300_000), (5 * MIB + 1, 3 * MIB), (20 * MIB, 700)):
            file.seek(offset)
            file.write(noise.randbytes(length))
    content, seen = disk.read_bytes(), []
    with open_evidence(disk) as evidence:
        image, volumes = hash_evidence(evidence, progress=lambda *each: seen.append(each))
        assert image.digests == told_by_tools(content)
        assert image.size == len(content)
        assert len(volumes) == len(evidence.volumes) == 4
        for volume in evidence.volumes:
            part = content[volume.offset : volume.offset + volume.size]
            assert volumes[volume.index].digests == told_by_tools(part)
            assert not volumes[volume.index].unreadable
    assert seen[-1] == (len(content), len(content))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_partition_that_the_image_lacks_in_part_or_whole(tmp_path: Path) -> None:
    disk = tmp_path / "disk.img"
    with disk.open("xb") as file:
        file.truncate(20 * MIB)
    write_table(disk, "label: dos\nstart=2048,size=8192\nstart=20480,size=10000\n")
    os.truncate(disk, 3 * MIB)
    with open_evidence(disk) as evidence:
        _, volumes = hash_evidence(evidence)
    assert volumes[1].size == 2 * MIB
    assert volumes[1].digests == told_by_tools(disk.read_bytes()[MIB:])
    assert set(volumes) == {1}


def test_files_are_hashed_as_they_are(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "ab"]
    for number, path in enumerate(paths, 1):
        path.write_bytes(random.Random(number).randbytes(number * 3_000_001))
    found = hash_files(paths)
    assert {path: found[path].digests for path in paths} == {
        path: told_by_tools(path.read_bytes()) for path in paths
    }


class BadSectors:
    """A disk with sectors that cannot be read, as a failing device has them."""

    name = "failing disk"

    def __init__(self, data: bytes, bad: set[int]) -> None:
        self.data, self.bad, self.size = data, bad, len(data)

    def read(self, offset: int, length: int) -> memoryview:
        check_range(self, offset, length)
        for sector in range(offset // 512, -(-(offset + length) // 512)):
            if sector in self.bad:
                raise AccessError(f"sector {sector}")
        return memoryview(self.data)[offset : offset + length]

    def close(self) -> None:
        pass


def test_what_cannot_be_read_is_named_and_hashed_as_zeros() -> None:
    data = random.Random(7).randbytes(5 * MIB + 100)
    bad = {0, 4096, 4097, 4098, 9000, len(data) // 512}
    zeroed = bytearray(data)
    for sector in bad:
        zeroed[sector * 512 : sector * 512 + 512] = bytes(len(data[sector * 512 :][:512]))
    source = BadSectors(data, bad)
    whole, part = hash_ranges(source, [range(len(data)), range(4097 * 512 + 10, 4_000_000)])
    assert whole.digests == told_by_tools(bytes(zeroed))
    assert [(each.offset // 512, each.length) for each in whole.unreadable] == [
        (0, 512), (4096, 3 * 512), (9000, 512), (len(data) // 512, 100)
    ]  # fmt: skip
    assert part.unreadable[0].offset == 0
    assert "sector 4097" in part.unreadable[0].reason
