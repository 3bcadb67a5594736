"""Systems with a package of each kind, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packages.making import (
    copy_tree,
    deb,
    install_arch,
    install_debs,
    needs,
    rpm,
    rpm_of,
    tiny_tree,
)


@pytest.fixture(scope="session")
def dpkg_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root directory in which dpkg installed `tiny`."""
    needs("dpkg", "dpkg-deb", "mke2fs")
    folder = tmp_path_factory.mktemp("dpkg")
    package = deb(folder, "tiny", tiny_tree(folder / "tree"), conffiles="/etc/tiny.conf\n")
    install_debs(folder / "root", package)
    return folder / "root"


@pytest.fixture(scope="session")
def rpm_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root directory in which rpm installed `tiny`."""
    needs("rpm", "rpmbuild", "mke2fs")
    folder = tmp_path_factory.mktemp("rpm")
    root = folder / "root"
    root.mkdir()
    package = rpm_of(folder, tiny_tree(folder / "tree"))
    rpm(root, "--initdb")
    rpm(root, "-i", "--nodeps", "--ignoreos", package)
    return root


@pytest.fixture(scope="session")
def pacman_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root directory in which pacman installed `tiny`."""
    needs("pacman", "bsdtar", "mke2fs")
    folder = tmp_path_factory.mktemp("pacman")
    install_arch(folder, folder / "root", tiny_tree(folder / "tree"))
    return folder / "root"


@pytest.fixture
def dpkg_copy(dpkg_root: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return copy_tree(dpkg_root, tmp_path / "root")


@pytest.fixture
def rpm_copy(rpm_root: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return copy_tree(rpm_root, tmp_path / "root")


@pytest.fixture
def pacman_copy(pacman_root: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return copy_tree(pacman_root, tmp_path / "root")
