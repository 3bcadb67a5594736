"""A slice of `make fuzz`: fresh images in each run, each through every command."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from sample_images.recipes.machine import missing_for_kernel
from tests.environment.sharing import built_once
from tests.evidence.failing_disk import missing as missing_for_disks
from tests.fuzz import images
from tests.fuzz.__main__ import Choice, one_image
from tests.fuzz.containers import ContainerCommands, Containers
from tests.fuzz.inputs import Damaged, PowerCuts, bases

pytestmark = pytest.mark.skipif(bool(images.missing()), reason=images.missing())
PARTS = 6  # run beside each other
IMAGES = 12
QUICK_IMAGES = 8
CUTS = 2
SPREAD = 1000  # between the first images of two runs


@cache
def _damaged() -> Damaged:
    return Damaged(built_once("fuzz-slice", lambda folder: bases(folder, [])))


@pytest.mark.parametrize("part", range(PARTS))
def test_damaged_images_break_no_command(
    part: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """`python -m tests.fuzz --seed N --count 1` with the `seed` of a finding repeats it."""
    count = QUICK_IMAGES if request.config.option.quick else IMAGES
    first = request.config.option.seed * SPREAD
    for seed in range(first + part, first + count, PARTS):
        found = list(one_image(_damaged(), seed, tmp_path, Choice(), []))
        assert not found, (found[0]["base"], seed, found[0]["arguments"], found[0]["what"])


def test_damaged_containers_break_no_command(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """`python -m tests.fuzz --containers --seed N --count 1` makes such a one again."""
    inputs = Containers(tmp_path, [])
    count = inputs.kinds
    first = request.config.option.seed * SPREAD
    (folder := tmp_path / "work").mkdir()
    for seed in range(first, first + count):
        found = list(one_image(inputs, seed, folder, ContainerCommands(inputs.key), []))
        assert not found, (found[0]["base"], seed, found[0]["arguments"], found[0]["what"])


@pytest.mark.kernel
def test_images_as_power_cuts_leave_them_break_no_command(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """`python -m tests.fuzz --powercut --seed N --count 1` cuts such a history once more."""
    if reason := missing_for_kernel() or missing_for_disks():
        pytest.skip(reason)
    first = request.config.option.seed * SPREAD
    for seed in range(first, first + CUTS):
        found = list(one_image(PowerCuts(), seed, tmp_path, Choice(), []))
        assert not found, (found[0], seed)
