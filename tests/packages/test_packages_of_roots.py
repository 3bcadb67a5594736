"""Packages of Linux roots within an image, with the mount of their layers and dpkg as oracles."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import ext4kit as library
from ext4kit.fields import SomeDigests
from ext4kit.filesystem.content import Content
from ext4kit.known.digests import Digester
from ext4kit.packages.findings import PackageComparison, PackageFinding
from ext4kit.packages.systems import system_of
from ext4kit.roots import find_roots, root_named
from ext4kit.triage.suspicions.packaged import compare_packages
from ext4kit.workspace import Workspace
from tests.conftest import Cli
from tests.packages.making import call, copy_tree
from tests.roots.containers import CONTAINER, IMAGE, MIDDLE, STORE, docker_container
from tests.roots.overlays import mounted_image, overlay, run
from tests.schemas.outputs import complaint

pytestmark = pytest.mark.usefixtures("needs_kernel")

_VERIFIED = re.compile(r"(missing|\S{9}) +(?:c )?(/.*)")


@dataclass
class Server:
    """An image of a system with containers.

    Attributes:
        image: the image.
        verified: lines of `dpkg --verify` on the directories as the kernel shows them, by root.
    """

    image: Path
    verified: dict[str, set[tuple[str, str]]] = field(default_factory=dict)


def verified(root: Path) -> set[tuple[str, str]]:
    """(changed or missing, path) of the files of which dpkg says so."""
    done = subprocess.run(
        ["dpkg", f"--root={root}", "--verify"], capture_output=True, text=True, check=False
    )
    lines = filter(None, map(_VERIFIED.fullmatch, done.stdout.splitlines()))
    return {("missing" if one[1] == "missing" else "changed", one[2]) for one in lines}


def change_container(merged: Path) -> None:
    """What somebody does in a container."""
    bin_ = merged / "usr/bin"
    (bin_ / "a").write_text("evil")
    (bin_ / "b").unlink()
    (bin_ / "c").unlink()
    (bin_ / "c").symlink_to("a")
    (bin_ / "d").chmod(0o4755)
    (bin_ / "new").write_text("evil")
    (merged / "etc/tiny.conf").write_text("other")
    shutil.rmtree(merged / "usr/lib/tiny")  # opaque afterwards
    (merged / "usr/lib/tiny").mkdir()
    (merged / "usr/lib/tiny/other").touch()


@pytest.fixture(scope="module")
def server(dpkg_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A clean system with a Docker container and an LXC container, which were changed."""
    folder = tmp_path_factory.mktemp("server")
    made = Server(folder / "server.img")
    with made.image.open("wb") as file:
        file.truncate(48 << 20)
    run("mkfs.ext4", "-q", "-I", "256", made.image)
    with mounted_image(made.image, folder) as disk:
        call("cp", "-a", f"{dpkg_root}/.", disk)
        layers = docker_container(disk)
        call("cp", "-a", f"{dpkg_root}/.", layers[-1])
        (layers[1] / "usr/bin").mkdir(parents=True)
        (layers[1] / "usr/bin/e").write_text("of the image")  # a changed program of its image
        box = disk / "var/lib/lxc/box"
        box.mkdir(parents=True)
        copy_tree(dpkg_root, box / "rootfs")
        (box / "config").write_text("lxc.uts.name = box\n")
        (box / "rootfs/usr/bin/f").write_text("evil")
        with overlay(folder, layers, layers[0].parent / "work", "metacopy=on") as merged:
            change_container(merged)
            made.verified["web"] = verified(merged)
        made.verified["box"] = verified(box / "rootfs")
    return made


def records(ext4kit: Cli, *words: str | Path) -> list[dict[str, Any]]:
    """Records of `packages`, which keep their schema."""
    lines = ext4kit("packages", *words, "--json").stdout.splitlines()
    found = [json.loads(line) for line in lines]
    assert [complaint(one["record"], one) for one in found] == [""] * len(found)
    return found


def told(found: list[dict[str, Any]], root: str | None) -> set[tuple[str, str]]:
    """(kind, path) of the differences of a root."""
    mine = (one for one in found if one["record"] == "package difference")
    return {(one["kind"], one["path"]) for one in mine if one.get("root") == root}


def as_dpkg_says(found: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """The differences of which `dpkg --verify` tells, in its words."""
    words = {"changed": "changed", "configured": "changed", "replaced": "changed"}
    words |= {"missing": "missing"}
    return {(words[kind], path) for kind, path in found if kind in words}


def test_each_root_is_checked_as_the_kernel_shows_it(ext4kit: Cli, server: Server) -> None:
    found = records(ext4kit, server.image, "--all")
    for name in ("web", "box"):
        assert ("changed", "/usr/bin/a" if name == "web" else "/usr/bin/f") in server.verified[name]
        assert as_dpkg_says(told(found, name)) == server.verified[name], name
    assert told(found, "web") >= {
        ("foreign", "/usr/bin/new"), ("mode", "/usr/bin/d"), ("replaced", "/usr/bin/c"),
        ("missing", "/usr/lib/tiny/empty"), ("changed", "/usr/bin/e"),
    }  # fmt: skip
    assert told(found, None) == set()  # of the system itself
    summaries = [one for one in found if one["record"] == "summary"]
    assert [one.get("root") for one in summaries] == [None, "web", "box"]


def test_one_root_is_chosen_by_its_name(ext4kit: Cli, server: Server) -> None:
    every = records(ext4kit, server.image)
    for name in ("web", "box"):
        alone = records(ext4kit, server.image, "--root", name)
        mine = [one for one in every if one.get("root") == name]
        differences = [one for one in mine if one["record"] != "summary"]
        assert [one for one in alone if one["record"] != "summary"] == differences
        assert alone[-1]["differences"] == mine[-1]["differences"]
    own = records(ext4kit, server.image, "--root", "system")
    assert [one["record"] for one in own] == ["summary"] and "root" not in own[0]
    codes = {
        ("--root", "web"): 1, ("--root", "system"): 0, ("--root", "none"): 2, ("/",): 0,
        ("--root", "web", "/"): 2, ("--root", "box", "--owner", "/usr/bin/f"): 0, (): 1,
    }  # fmt: skip
    found = {words: ext4kit("packages", server.image, *words).returncode for words in codes}
    assert found == codes


def test_lines_have_a_heading_for_each_root(ext4kit: Cli, server: Server) -> None:
    lines = ext4kit("packages", server.image).stdout.splitlines()
    heads = [line.split(" (")[0] for line in lines if line.startswith("== ")]
    assert heads == ["== / ==", "== web", "== box"]
    assert not any(
        line.startswith("== ")
        for line in ext4kit("packages", server.image, "--root", "box").stdout.splitlines()
    )
    listed = records(ext4kit, server.image, "--list")
    assert [(one["name"], one.get("root")) for one in listed] == [
        ("tiny", None), ("tiny", "web"), ("tiny", "box")
    ]  # fmt: skip
    (owner,) = records(ext4kit, server.image, "--root", "web", "--owner", "/usr/bin/a")
    assert (owner["root"], owner["status"]) == ("web", "changed")


def test_files_that_roots_share_are_read_once(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[int]()
    hashed = Digester._hashed

    def counted(self: Digester, content: Content) -> SomeDigests:
        read.append(content.size)
        return hashed(self, content)

    monkeypatch.setattr(Digester, "_hashed", counted)
    with library.open(server.image) as opened:
        workspace = Workspace(opened.filesystem())
        root = root_named(find_roots(workspace), "web")
        comparison = PackageComparison(workspace, is_quick=True)
        first = comparison.findings(system_of(workspace.fs, root))
        before = len(read)
        again = comparison.findings(system_of(workspace.fs, root))
    assert before == first.check.hashed > 0
    assert len(read) == before and again.each == first.each


def test_a_metacopy_is_compared_by_the_content_of_its_layer(server: Server) -> None:
    with library.open(server.image) as opened:
        workspace = Workspace(opened.filesystem())
        fs, root = workspace.fs, root_named(find_roots(workspace), "web")
        upper, lower = (fs.lookup(one + b"/usr/bin/d") for one in (root.layers[0], root.layers[-1]))
        assert b"trusted.overlay.metacopy" in fs.xattrs(fs.inode(upper)) and upper != lower
        found = PackageComparison(workspace, is_quick=True).findings(system_of(fs, root))
        assert found.check.status_of(b"/usr/bin/d") == "unchanged"


def _findings(image: Path) -> Sequence[PackageFinding]:
    """What differs in the root of the container."""
    with library.open(image) as opened:
        workspace = Workspace(opened.filesystem())
        root = root_named(find_roots(workspace), "web")
        return PackageComparison(workspace, True).findings(system_of(workspace.fs, root)).each


def test_files_of_layers_that_are_gone_are_not_called_missing(
    server: Server, tmp_path: Path
) -> None:
    image = tmp_path / "gone.img"
    shutil.copyfile(server.image, image)
    with mounted_image(image, tmp_path) as disk:
        lower = disk / STORE / IMAGE
        database = disk / STORE / CONTAINER / "diff/var/lib"
        shutil.rmtree(database, ignore_errors=True)
        database.mkdir(parents=True)
        call("cp", "-a", lower / "diff/var/lib/dpkg", database)
        shutil.rmtree(lower)
    by_path = {one.path: str(one.kind) for one in _findings(image)}
    assert by_path[b"/usr/bin/g"] == "unreadable"
    assert by_path[b"/usr/bin/a"] == "changed"  # the layer of the container has it
    assert "missing" not in by_path.values()


def test_signs_of_changed_programs_name_the_root(ext4kit: Cli, server: Server) -> None:
    with library.open(server.image) as opened:
        sightings = compare_packages(Workspace(opened.filesystem()), is_whole=True).sightings
    found = {
        (code, os.fsdecode(one.path), one.note.rpartition("; ")[2])
        for code, one in sightings if one.path is not None
    }  # fmt: skip
    upper, lxc = f"/{STORE}/{CONTAINER}/diff", "/var/lib/lxc/box/rootfs"
    web, box = "in docker container web", "in lxc box"
    assert found >= {
        ("packaged-changed", f"{upper}/usr/bin/a", web),
        ("packaged-changed", f"/{STORE}/{MIDDLE}/diff/usr/bin/e", web),
        ("foreign-program", f"{upper}/usr/bin/new", web),
        ("packaged-rights", f"{upper}/usr/bin/d", web),
        ("packaged-changed", f"{lxc}/usr/bin/f", box),
    }
    assert {where for _, _, where in found} == {web, box}
    lines = ext4kit("report", server.image, "--json").stdout.splitlines()
    shown = [line for line in lines if "packaged-changed" in line]
    assert shown and any(web in line and "/usr/bin/a" in line for line in shown)


def test_lists_of_layers_of_an_image_are_not_judged_by_times(
    server: Server, tmp_path: Path
) -> None:
    """A layer that a pull unpacked has times that no log of dpkg has; a container's layer may."""
    image = tmp_path / "lists.img"
    shutil.copyfile(server.image, image)
    with mounted_image(image, tmp_path) as disk:
        lower, upper = (disk / STORE / name / "diff/var" for name in (IMAGE, CONTAINER))
        log = lower / "log/dpkg.log"
        log.parent.mkdir(exist_ok=True)
        log.write_text(
            "2020-01-01 00:00:00 status installed tiny:all 1.0-1\n"
            "2040-01-01 00:00:00 status installed tiny:all 1.0-1\n"
        )
    assert ("list", "/var/lib/dpkg/info/tiny.list") not in _lists(image)
    with mounted_image(image, tmp_path) as disk:
        lower, upper = (disk / STORE / name / "diff/var" for name in (IMAGE, CONTAINER))
        (upper / "lib/dpkg/info").mkdir(parents=True)
        shutil.copy(lower / "lib/dpkg/info/tiny.list", upper / "lib/dpkg/info/tiny.list")
    assert ("list", "/var/lib/dpkg/info/tiny.list") in _lists(image)


def _lists(image: Path) -> set[tuple[str, str]]:
    return {(str(one.kind), os.fsdecode(one.path)) for one in _findings(image)}


def test_files_of_a_damaged_lower_directory_are_not_called_missing(
    server: Server, tmp_path: Path
) -> None:
    image = tmp_path / "damaged.img"
    shutil.copyfile(server.image, image)
    request = f"blocks /{STORE}/{IMAGE}/diff/usr/bin"
    (block,) = call("debugfs", "-R", request, image).splitlines()[-1].split()
    with library.open(image) as opened:
        size = opened.filesystem().superblock.block_size
    with image.open("r+b") as file:
        file.seek(int(block) * size)
        file.write(b"\xff" * size)
    by_path = {one.path: str(one.kind) for one in _findings(image)}
    assert by_path[b"/usr/bin/g"] == "unreadable"
    assert by_path[b"/usr/bin/a"] == "changed"  # the layer of the container has it
