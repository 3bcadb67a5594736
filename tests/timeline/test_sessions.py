"""Each operation of a random session shows as its one event, and nothing else shows."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from tests.session import Setup, record
from tests.timeline.judging import Verdict, judge

pytestmark = pytest.mark.kernel

LARGE_LOG = ("-J", "size=16")  # all 500 operations stay in it
SETUPS = (
    Setup("default-that-wraps"),
    Setup("default", ("-t", "ext4", *LARGE_LOG)),
    Setup("1k-blocks", ("-t", "ext4", "-b", "1024", *LARGE_LOG)),
    Setup("data-journal", ("-t", "ext4", "-J", "size=32"), "data=journal", 256 << 20),
    Setup("big-directory", ("-t", "ext4", "-b", "1024", *LARGE_LOG), crowd=1500),
    Setup("ext3-128", ("-t", "ext3", "-I", "128", *LARGE_LOG)),
    Setup("ext3-256", ("-t", "ext3", "-I", "256", *LARGE_LOG)),
    Setup("inline-data", ("-t", "ext4", "-O", "inline_data", *LARGE_LOG)),
    Setup("ext4-128", ("-t", "ext4", "-I", "128", *LARGE_LOG)),
    Setup("no-metadata-csum", ("-t", "ext4", "-O", "^metadata_csum", *LARGE_LOG)),
    Setup("bigalloc", ("-t", "ext4", "-O", "bigalloc", "-C", "16384", *LARGE_LOG), size=256 << 20),
    Setup("not-replayed", ("-t", "ext4", *LARGE_LOG), commit="fsync", crash=True),
)
SHORT = ("default", "data-journal", "ext3-128", "inline-data", "not-replayed")


def recorded(setup: Setup, folder: Path) -> Verdict:
    image = folder / f"{setup.name}.img"
    try:
        return judge(record(setup, folder))
    finally:
        image.unlink(missing_ok=True)


@pytest.mark.heavy
@pytest.mark.parametrize("name", SHORT)
def test_a_short_session_is_told_without_an_error(name: str, tmp_path: Path) -> None:
    setup = next(setup for setup in SETUPS if setup.name == name)
    setup = replace(setup, operations=100, seed=zlib.crc32(name.encode()) % 1000)
    assert recorded(setup, tmp_path) == Verdict(100, [], [], [])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("setup", SETUPS, ids=lambda setup: setup.name)
def test_a_session_of_500_operations_is_told_without_an_error(
    setup: Setup, seed: int, tmp_path: Path
) -> None:
    verdict = recorded(replace(setup, operations=500, seed=seed), tmp_path)
    assert (verdict.missed, verdict.invented) == ([], [])
    if setup.name.endswith("wraps"):
        assert 100 < verdict.operations < 500
        assert len(verdict.vague) < 20
    else:
        assert (verdict.operations, verdict.vague) == (500, [])
