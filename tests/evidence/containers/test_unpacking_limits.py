"""A few kilobytes that become more than a disk holds: the space has a limit, which is named."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from ext4kit.errors import AccessError
from ext4kit.evidence import open_evidence
from ext4kit.evidence.limits import OpenLimits
from tests.cli.conftest import ROOT
from tests.conftest import Cli
from tests.evidence.containers.measured import measured_command

MIB = 1 << 20
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
}


@pytest.fixture(params=PACKERS)
def bomb(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """64 MiB that are no zeros, in streams one after the other."""
    path = tmp_path / f"bomb.{request.param}"
    path.write_bytes(PACKERS[request.param](b"A" * (16 * MIB)) * 4)
    return path


def test_the_limit_and_the_ratio_are_named(ext4kit: Cli, bomb: Path) -> None:
    result = ext4kit("info", bomb, "--unpack-limit", "10M")
    assert (result.returncode, result.stdout) == (3, "")
    assert f"{bomb}: its image takes more than 10,485,760 bytes in " in result.stderr
    ratio = round(10 * MIB / bomb.stat().st_size)
    told = re.search(r"\(([\d,]+) times as much as the file so far\): --unpack", result.stderr)
    assert told and abs(int(told[1].replace(",", "")) - ratio) <= ratio // 100 + 1
    assert ext4kit("info", bomb, "--unpack-limit", "64M").stderr.count("not ext2") == 1


def test_half_of_what_is_free_may_be_taken(bomb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = Usage(20 * MIB)
    monkeypatch.setattr("ext4kit.evidence.containers.packed.shutil.disk_usage", usage)
    with pytest.raises(AccessError, match="than 10,485,760 bytes in .*, half of the free space"):
        open_evidence(bomb)
    asked = Mock(return_value=False)
    with pytest.raises(AccessError, match="half of the free space"):
        open_evidence(bomb, limits=OpenLimits(ask=asked))
    asked.return_value = True
    usage.free = 60 * MIB
    with open_evidence(bomb, limits=OpenLimits(ask=asked)) as evidence:
        assert evidence.source.size == 64 * MIB
    assert asked.call_count == 2
    assert "times as much as the file so far" in asked.call_args.args[0]


class Usage:
    """`disk_usage` of a folder with little room."""

    def __init__(self, free: int) -> None:
        self.free = free

    def __call__(self, _folder: str) -> Usage:
        return self


def test_zeros_take_no_space(tmp_path: Path) -> None:
    path = tmp_path / "zeros.bz2"
    path.write_bytes(bz2.compress(bytes(64 * MIB)) * 8)
    with open_evidence(path, limits=OpenLimits(unpacked=0)) as evidence:
        assert evidence.source.size == 512 * MIB
        (note,) = evidence.problems
        assert "(0 bytes, " in note.what and "times the file with its zeros" in note.what


def test_streams_of_xz_with_padding_are_one_image(tmp_path: Path) -> None:
    parts = [b"first" * 1000, b"", b"last" * 9000]
    streams = [lzma.compress(part, check=lzma.CHECK_CRC32) for part in parts]
    path = tmp_path / "disk.xz"
    path.write_bytes(streams[0] + bytes(8) + streams[1] + streams[2] + bytes(4 * MIB))
    with open_evidence(path) as evidence:
        whole = b"".join(parts)
        assert bytes(evidence.source.read(0, evidence.source.size)) == whole
    if tool := shutil.which("xz"):
        assert subprocess.run([tool, "-dc", path], capture_output=True).stdout == whole


@pytest.mark.parametrize("cut", [1, 40, 4000])
def test_a_cut_stream_of_xz_keeps_what_is_in_front_of_the_cut(tmp_path: Path, cut: int) -> None:
    data = bytes(range(256)) * 4000
    path = tmp_path / "disk.xz"
    path.write_bytes(lzma.compress(data)[:-cut] if cut < 4000 else lzma.compress(data) * 2 + b"x")
    with open_evidence(path) as evidence:
        size = evidence.source.size
        assert bytes(evidence.source.read(0, size)) == (data * 2)[:size]
        assert any("data is damaged after them" in one.what for one in evidence.problems)


@pytest.mark.skipif(sys.platform != "linux", reason="measures memory as Linux does")
def test_a_large_dictionary_is_refused(tmp_path: Path) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 30}]
    path = tmp_path / "disk.xz"
    path.write_bytes(lzma.compress(bytes(MIB), filters=filters))
    done, _, peak = measured_command("volumes", path)
    assert done.returncode == 3 and "emory usage limit" in done.stderr
    assert peak < 512 * MIB  # half of what the stream asks for


def test_an_interrupt_ends_it_within_a_second_and_leaves_nothing(tmp_path: Path) -> None:
    path, folder = tmp_path / "zeros.bz2", tmp_path / "temporary"
    path.write_bytes(bz2.compress(bytes(64 * MIB)) * 1000)
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "ext4kit", "info", str(path)], cwd=ROOT, stderr=subprocess.PIPE,
        env={"TMPDIR": str(folder)}, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    )  # fmt: skip
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    _, said = process.communicate(timeout=60)
    assert time.monotonic() - start < 1
    assert (process.returncode, said) == (130, b"ext4kit: interrupted\n")
    assert list(folder.iterdir()) == [] and tempfile.gettempdir()
