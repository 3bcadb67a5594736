"""What the tests share: who may use the kernel, built sample images, the command line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from sample_images import Built, build, unpack
from sample_images.recipes.machine import missing_for_kernel

ROOT = Path(__file__).resolve().parent.parent

SLOW = "EXT4KIT_SLOW"

# How busy the machine is decides nothing; what is drawn differs from run to run in the long one.
settings.register_profile(
    "steady", deadline=None, derandomize=os.environ.get(SLOW, "") in ("", "0")
)
settings.load_profile("steady")

Cli = Callable[..., subprocess.CompletedProcess[str]]
Images = Callable[[str], Built]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, with the reason, what this machine or this run does not allow."""
    reason = missing_for_kernel()
    slow = os.environ.get(SLOW, "") not in ("", "0")
    for item in items:
        if reason and item.get_closest_marker("kernel"):
            item.add_marker(pytest.mark.skip(reason=reason))
        if not slow and item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason=f"slow; set {SLOW}=1"))


@pytest.fixture(scope="session")
def needs_kernel() -> None:
    """Skip without root or loop devices."""
    if reason := missing_for_kernel():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def image_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where this session's images lie; EXT4KIT_IMAGES names a folder that is kept and used."""
    kept = os.environ.get("EXT4KIT_IMAGES")
    if kept:
        yield Path(kept)
        return
    folder = tmp_path_factory.mktemp("images")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def built(needs_kernel: None, image_folder: Path) -> Images:
    """Give the image of a recipe, made once in a session."""

    def give(name: str) -> Built:
        image = Built(image_folder / f"{name}.img", image_folder / f"{name}.truth.json")
        return image if image.truth.exists() else build(name, image_folder)

    return give


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Images:
    """Give a packed sample, unpacked once in a session; needs no root."""
    folder = tmp_path_factory.mktemp("unpacked")
    made: dict[str, Built] = {}

    def give(name: str) -> Built:
        if name not in made:
            made[name] = unpack(name, folder)
        return made[name]

    return give


@pytest.fixture(scope="session")
def ext4kit() -> Cli:
    """Run the command line in a process of its own and give what it said."""

    def call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        start = "import sys; from ext4kit.cli.main import main; sys.exit(main())"
        command = [sys.executable, "-c", start, *map(str, arguments)]
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, cwd=ROOT
        )

    return call
