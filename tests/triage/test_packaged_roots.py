"""Signs of packaged files in Linux roots within an image, with dpkg as oracle."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.roots.containers import CONTAINER, IMAGE, STORE, docker_container
from tests.roots.overlays import mounted_image, overlay, run

pytestmark = pytest.mark.usefixtures("needs_kernel")

_SETUID, _PLAIN = "usr/bin/passwd", "usr/sbin/useradd"  # of the package
_INFO = Path("/var/lib/dpkg/info")
Change = Callable[[Path], object]


def packaged_root(root: Path) -> None:
    """The files of the package `passwd` of this computer, with what dpkg knows of it."""
    if not (_INFO / "passwd.md5sums").exists():
        pytest.skip("this computer has no package passwd of dpkg")
    info = root / "var/lib/dpkg/info"
    info.mkdir(parents=True)
    for name in ("passwd.list", "passwd.md5sums"):
        shutil.copy(_INFO / name, info)
    status = subprocess.run(["dpkg-query", "-s", "passwd"], capture_output=True, check=True)
    (root / "var/lib/dpkg/status").write_bytes(status.stdout)
    for folder in ("etc", "usr/bin", "usr/sbin"):
        (root / folder).mkdir(parents=True)
    for name in (_SETUID, _PLAIN):
        run("cp", "-p", f"/{name}", root / name)
    shutil.copy("/etc/os-release", root / "etc/os-release")


def says_changed(root: Path, name: str) -> bool:
    """Whether `dpkg --verify` says that a file of a root was changed."""
    done = subprocess.run(
        ["dpkg", f"--root={root}", "--verify"], capture_output=True, text=True, check=False
    )
    return any(
        line.endswith(f" /{name}") and line.startswith("??5") for line in done.stdout.splitlines()
    )


def image_with(folder: Path, fill: Callable[[Path], object]) -> Path:
    """An image that is filled on its mount."""
    image = folder / "image"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    run("mkfs.ext4", "-q", "-I", "256", image)
    with mounted_image(image, folder) as disk:
        fill(disk)
    return image


def signs(ext4kit: Cli, image: Path, *options: str) -> set[tuple[str, str]]:
    """(code, path) of the signs of programs."""
    done = ext4kit("report", image, "--json", *options)
    records = map(json.loads, done.stdout.splitlines())
    found = {(one["code"], one["path"]) for one in records if one["record"] == "sighting"}
    return {(code, path) for code, path in found if path and "bin/" in path}


def append(path: Path) -> None:
    """Change a program, which stays setuid."""
    mode = path.stat().st_mode
    with path.open("ab") as file:
        file.write(b"more")
    path.chmod(mode)


def nothing(_path: Path) -> None:
    """Leave it as it is."""


@pytest.mark.parametrize(
    ("name", "change", "is_changed", "is_sign"),
    [
        (_SETUID, nothing, False, False),
        (_SETUID, append, True, True),
        (_PLAIN, lambda path: path.chmod(0o4755), False, True),  # of which dpkg has no mode
    ],
)
def test_a_setuid_program_of_a_chroot_is_a_sign_if_it_was_changed(
    name: str, change: Change, is_changed: bool, is_sign: bool, tmp_path: Path, ext4kit: Cli
) -> None:
    def fill(disk: Path) -> None:
        root = disk / "srv/jail"
        packaged_root(root)
        change(root / name)
        assert says_changed(root, name) == is_changed

    image = image_with(tmp_path, fill)
    for options in ((), ("--quick",)):
        found = signs(ext4kit, image, *options)
        assert (("setuid-place", f"/srv/jail/{name}") in found) == is_sign
        assert is_sign or not found


def test_lists_that_others_can_write_do_not_vouch(tmp_path: Path, ext4kit: Cli) -> None:
    def fill(disk: Path) -> None:
        packaged_root(disk / "srv/jail")
        run("chown", "1000", disk / "srv/jail/var/lib/dpkg")

    image = image_with(tmp_path, fill)
    assert ("setuid-place", f"/srv/jail/{_SETUID}") in signs(ext4kit, image, "--quick")


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_container_is_compared_as_it_saw_its_layers(
    is_changed: bool, tmp_path: Path, ext4kit: Cli
) -> None:
    def fill(disk: Path) -> None:
        layers = docker_container(disk)
        packaged_root(layers[-1])
        with overlay(tmp_path, layers, layers[0].parent / "work", "") as merged:
            path = merged / _SETUID
            if is_changed:
                append(path)
            else:
                path.touch()  # copied up, with the time of now
            assert says_changed(merged, _SETUID) == is_changed

    image = image_with(tmp_path, fill)
    upper, lower = f"/{STORE}/{CONTAINER}/diff/{_SETUID}", f"/{STORE}/{IMAGE}/diff/{_SETUID}"
    for options in ((), ("--quick",)):
        found = signs(ext4kit, image, *options)
        assert (("setuid-new", upper) in found) == is_changed
        assert lower not in {path for _, path in found}
        assert is_changed or not found
