"""A server with containers of Docker, containerd and Podman, which these programs wrote."""

from __future__ import annotations

import lzma
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import ext4kit as library
from ext4kit.workspace import Workspace

KEPT = Path(__file__).parent / "kept"


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image; `kept/make_servers.sh` makes it."""
    image = tmp_path_factory.mktemp("servers") / "servers.img"
    with lzma.open(KEPT / "servers.img.xz") as packed, image.open("wb") as file:
        shutil.copyfileobj(packed, file)
    return image


@pytest.fixture
def server(servers: Path) -> Iterator[Workspace]:
    """Its file system."""
    with library.open(servers) as opened:
        yield Workspace(opened.filesystem())
