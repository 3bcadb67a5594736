"""Containers and encryptions that another package brings, found by its entry points."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Images

SAMPLE = "rm_rf_tree"
KEY = 0x5A
MODULE = '''
from pathlib import Path

from ext4kit.errors import AccessError
from ext4kit.evidence.evidence import Evidence
from ext4kit.evidence.raw import RawFile
from ext4kit.evidence.source import Window, check_range, peek

MAGIC = b"XORDISK1"


class Xored:
    """Bytes behind a header, each XORed with a key."""

    def __init__(self, source, header, key):
        self._source, self._header, self._key = source, header, key
        self.name, self.size = source.name, source.size - header

    def read(self, offset, length):
        check_range(self, offset, length)
        data = self._source.read(self._header + offset, length)
        return memoryview(bytes(data).translate(bytes(one ^ self._key for one in range(256))))

    def close(self):
        self._source.close()


class Container:
    def probe(self, source):
        return peek(source, 0, 8) == MAGIC

    def open_container(self, request):
        raw = RawFile(request.path)
        if peek(raw, 0, 8) != MAGIC:
            raw.close()
            raise AccessError(f"{request.path}: no XOR disk")
        key = bytes(raw.read(8, 1))[0]
        return Evidence(Xored(raw, 512, key), (request.path,), request.kind)


class Encryption:
    def unlock(self, volume, keys):
        key = peek(volume, 512, 1)
        return Xored(volume, 1024, key[0]) if key in keys.phrases else None


container, encryption = Container(), Encryption()
'''
ENTRY_POINTS = """[ext4kit.sources]
xordisk = xordisk:container
[ext4kit.encryption]
BitLocker = xordisk:encryption
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The folder of an installed package with the entry points."""
    folder = tmp_path / "package"
    (folder / "xordisk-1.0.dist-info").mkdir(parents=True)
    (folder / "xordisk.py").write_text(MODULE)
    (folder / "xordisk-1.0.dist-info" / "METADATA").write_text("Name: xordisk\nVersion: 1.0\n")
    (folder / "xordisk-1.0.dist-info" / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


def _run(package: Path | None, *words: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(package or "")}
    command = [sys.executable, "-m", "ext4kit", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def _xored(data: bytes) -> bytes:
    return data.translate(bytes(one ^ KEY for one in range(256)))


def test_a_container_of_another_package_is_probed_and_read(
    unpacked: Images, package: Path, tmp_path: Path
) -> None:
    plain, image = unpacked(SAMPLE).image, tmp_path / "disk.xor"
    header = (b"XORDISK1" + bytes([KEY])).ljust(512, b"\0")
    image.write_bytes(header + _xored(plain.read_bytes()))
    expected = _run(None, "deleted", plain, "--json")
    assert _run(package, "deleted", image, "--json").stdout == expected.stdout
    assert expected.stdout
    without = _run(None, "deleted", image)
    assert without.returncode == 3 and "not ext2, ext3 or ext4" in without.stderr


def test_the_format_of_another_package_can_be_forced(
    unpacked: Images, package: Path, tmp_path: Path
) -> None:
    refused = _run(package, "volumes", unpacked(SAMPLE).image, "--format", "xordisk")
    assert (refused.returncode, "no XOR disk" in refused.stderr) == (3, True)
    unknown = _run(None, "volumes", unpacked(SAMPLE).image, "--format", "xordisk")
    assert unknown.returncode == 2 and "'xordisk' is not one of raw" in unknown.stderr


def test_a_known_disk_asks_no_other_package(unpacked: Images, package: Path) -> None:
    (package / "xordisk.py").write_text("raise SystemExit('asked')")
    done = _run(package, "ls", unpacked(SAMPLE).image)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_encryption_of_another_package_opens_a_volume(
    unpacked: Images, package: Path, tmp_path: Path
) -> None:
    plain, image, key = unpacked(SAMPLE).image, tmp_path / "disk.img", tmp_path / "key"
    start = b"\xeb\x58\x90-FVE-FS-".ljust(512, b"\0") + bytes([KEY]).ljust(512, b"\0")
    image.write_bytes(start + _xored(plain.read_bytes()))
    key.write_bytes(bytes([KEY]))
    listed = _run(package, "volumes", image, "--key-file", key)
    assert "BitLocker" in listed.stdout and "ext4" in listed.stdout
    got = _run(package, "ls", "-r", image, "--key-file", key)
    assert (got.returncode, got.stdout) == (0, _run(None, "ls", "-r", plain).stdout)
    key.write_bytes(b"x")
    locked = _run(package, "ls", image, "--key-file", key)
    assert locked.returncode == 3 and "opens its encrypted volume" in locked.stderr
