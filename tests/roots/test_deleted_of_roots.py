"""`deleted`, `recover` and `timeline` with --root: what was deleted in one Linux root."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from tests.roots.conftest import KEPT
from tests.roots.overlays import mounted_image, new_image

_RELEASE = 'PRETTY_NAME="Some Linux"\nID=some\n'


def records(ext4kit: Cli, *words: str | Path) -> list[dict[str, Any]]:
    """The records of deleted files."""
    done = ext4kit("deleted", *words, "--json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [one for one in found if one["record"] == "deleted"]


def paths(ext4kit: Cli, *words: str | Path) -> set[str]:
    """Their paths."""
    return {one["path"] for one in records(ext4kit, *words)}


def known_paths(one: dict[str, Any]) -> list[str]:
    """Its present and former paths."""
    every = [one["path"], *(former["path"] for former in one.get("former_paths", ()))]
    return [path for path in every if path is not None]


def test_a_container_has_what_was_deleted_in_its_layers(
    ext4kit: Cli, servers: Path, tmp_path: Path
) -> None:
    layers = json.loads((KEPT / "layers.json").read_text())
    upper = layers["docker web"][0]
    assert paths(ext4kit, servers, "--root", "web") == {f"{upper}/tmp/gone"}  # see make_servers.sh
    every = records(ext4kit, servers)
    for title, name in (("docker idle", "idle"), ("podman pweb", "pweb"), ("containerd", "front1")):
        mine = tuple(f"{layer}/" for layer in layers[title])
        expected = [one for one in every if any(path.startswith(mine) for path in known_paths(one))]
        assert records(ext4kit, servers, "--root", name) == expected
    out = tmp_path / "out"
    done = ext4kit("recover", servers, "--root", "web", "-o", out)
    assert done.returncode == 0, done.stderr
    written = [path for path in (out / "files").rglob("*") if path.is_file()]
    assert [path.read_text() for path in written] == ["gone\n"]
    assert str(written[0]).endswith(f"{upper}/tmp/gone")


def test_paths_are_those_of_the_root(ext4kit: Cli, servers: Path) -> None:
    for path in ("/tmp", "/tmp/gone", "gone", "/t*/g*"):
        assert len(paths(ext4kit, servers, path, "--root", "web")) == 1, path
    for path in ("/tmp/other", "/var/lib/docker"):
        done = ext4kit("deleted", servers, path, "--root", "web")
        assert done.returncode == 1
        assert f"no such deleted file in the root web: {path}" in done.stderr


def test_files_without_a_path_are_left_out_and_counted(
    ext4kit: Cli, servers: Path, tmp_path: Path
) -> None:
    nameless = [one for one in records(ext4kit, servers) if one["path"] is None]
    assert nameless
    for root in ("web", "system"):
        done = ext4kit("deleted", servers, "--root", root)
        assert f"note: {len(nameless)} further deleted files have no known path" in done.stderr
    assert None not in paths(ext4kit, servers, "--root", "system")
    done = ext4kit("recover", servers, "--root", "web", "-o", tmp_path / "out")
    assert f"{len(nameless)} more deleted files have no known path" in done.stdout


@pytest.fixture
def jailed(tmp_path: Path) -> Path:
    """An image with a chroot; files were deleted in it and outside of it."""
    image = new_image(tmp_path)
    with mounted_image(image, tmp_path) as disk:
        for root in (disk, disk / "srv/jail"):
            for folder in ("etc", "usr/bin", "tmp"):
                (root / folder).mkdir(parents=True)
            (root / "etc/os-release").write_text(_RELEASE)
        (disk / "srv/jail-not").mkdir()
        gone = [disk / name for name in ("srv/jail/tmp/in", "tmp/out", "srv/jail-not/near")]
        for path in gone:
            path.write_text(path.name)
        moved = disk / "srv/jail/tmp/moved"
        moved.write_text("moved")
        subprocess.run(["sync", "-f", disk], check=True)
        moved.rename(disk / "tmp/moved")
        subprocess.run(["sync", "-f", disk], check=True)
        for path in (*gone, disk / "tmp/moved"):
            path.unlink()
    return image


@pytest.mark.usefixtures("needs_kernel")
def test_a_chroot_has_its_folder_and_the_system_the_rest(ext4kit: Cli, jailed: Path) -> None:
    assert paths(ext4kit, jailed, "--root", "srv_jail") == {"/srv/jail/tmp/in", "/tmp/moved"}
    own = {"/tmp/out", "/srv/jail-not/near", "/tmp/moved"}
    assert paths(ext4kit, jailed, "--root", "system") == own
    assert paths(ext4kit, jailed, "/tmp/in", "--root", "srv_jail") == {"/srv/jail/tmp/in"}
    assert paths(ext4kit, jailed, "/srv/jail", "--root", "system") == set()


@pytest.mark.usefixtures("needs_kernel")
def test_events_are_those_at_paths_of_the_root(ext4kit: Cli, jailed: Path) -> None:
    def events(root: str, *words: str) -> set[tuple[str, str]]:
        done = ext4kit("timeline", jailed, "--root", root, "--kind", "deleted", "--json", *words)
        found = [json.loads(line) for line in done.stdout.splitlines()]
        return {(one["kind"], one["path"]) for one in found if one["record"] == "event"}

    assert events("srv_jail") == {("deleted", "/srv/jail/tmp/in")}
    own = {("deleted", path) for path in ("/tmp/out", "/srv/jail-not/near", "/tmp/moved")}
    assert events("system") == own
    assert events("srv_jail", "/tmp") == {("deleted", "/srv/jail/tmp/in")}
    assert events("srv_jail", "/srv") == set()


def test_a_root_of_a_lost_file_system_is_refused(ext4kit: Cli, servers: Path) -> None:
    done = ext4kit("deleted", servers, "--lost", "--root", "web")
    assert done.returncode == 2 and "omit --lost" in done.stderr
