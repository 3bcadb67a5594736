"""`extract` and `search` with --root, with the mounts of layers by the kernel as oracle."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from tests.roots.conftest import KEPT
from tests.roots.overlays import mounted_image, overlay
from tests.roots.test_roots_found import CONTAINERS
from tests.schemas.outputs import complaint

_MADE = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
Tree = dict[str, tuple[int, bytes]]


def tree_of(top: Path) -> Tree:
    """(type, content or target) of everything below a folder."""
    found: Tree = {}
    for path in sorted(top.rglob("*")):
        mode = path.lstat().st_mode
        data = b""
        if stat.S_ISLNK(mode):
            data = os.fsencode(path.readlink())
        elif stat.S_ISREG(mode):
            data = path.read_bytes()
        found[str(path.relative_to(top))] = stat.S_IFMT(mode), data
    return found


def manifest(out: Path) -> list[dict[str, Any]]:
    """The records of the files of a folder."""
    lines = (out / "manifest.jsonl").read_text().splitlines()
    return [one for one in map(json.loads, lines) if "path" in one]


@pytest.mark.usefixtures("needs_kernel")
@pytest.mark.parametrize("title", CONTAINERS)
def test_a_whole_root_is_extracted_as_the_kernel_shows_it(
    title: str, ext4kit: Cli, servers: Path, tmp_path: Path
) -> None:
    layers, name = json.loads((KEPT / "layers.json").read_text())[title], CONTAINERS[title]
    with mounted_image(servers, tmp_path, "ro") as disk:
        places = [disk / path.lstrip("/") for path in layers]
        options = "userxattr" if name == "annas" else ""
        with overlay(tmp_path, places, None, options) as merged:
            shown = tree_of(merged)
    out = tmp_path / "out"
    done = ext4kit("extract", servers, "/", "--root", name, "--restore", "links,folders", "-o", out)
    assert done.returncode == 0, done.stderr
    plain = {path: one for path, one in shown.items() if one[0] in _MADE}
    assert tree_of(out / "files") == plain
    assert {one["path"].strip("/") for one in manifest(out)} == {*shown, ""}


def test_paths_and_patterns_are_those_of_the_root(
    ext4kit: Cli, servers: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    ext4kit("extract", servers, "/etc/passwd", "/app/*", "--root", "web", "-o", out)
    assert b"evil:x:0:0" in (out / "files/etc/passwd").read_bytes()
    by_path = {one["path"]: one for one in manifest(out)}
    assert set(by_path) == {"/etc/passwd", "/app/kept"}  # config and keep have whiteouts
    assert by_path["/etc/passwd"]["layer_path"].endswith("/diff/etc/passwd")
    own = tmp_path / "own"
    ext4kit("extract", servers, "/srv/jail", "--root", "system", "-o", own)
    assert (own / "files/srv/jail").is_dir()
    assert not any("layer_path" in one for one in manifest(own))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("/etc/passwd", "--root", "none"), "no root of this name"),
        (("/app/config", "--root", "web"), "/app/config"),
        (("<12>", "--root", "web"), "<12>"),
    ],
)
def test_what_a_root_does_not_have_is_one_line_and_exit_2(
    words: tuple[str, ...], text: str, ext4kit: Cli, servers: Path, tmp_path: Path
) -> None:
    done = ext4kit("extract", servers, *words, "-o", tmp_path / "out")
    assert done.returncode == 2 and text in done.stderr
    assert len(done.stderr.splitlines()) == 1 and not (tmp_path / "out").exists()


def hits(ext4kit: Cli, *words: str | Path) -> list[dict[str, Any]]:
    """The hits of a search, which keep their schema."""
    lines = ext4kit("search", *words, "--json").stdout.splitlines()
    found = [json.loads(line) for line in lines]
    assert [complaint(one["record"], one) for one in found] == [""] * len(found)
    return [one for one in found if one["record"] == "hit"]


def test_hits_tell_the_roots_whose_layers_have_the_file(ext4kit: Cli, servers: Path) -> None:
    truth = json.loads((KEPT / "layers.json").read_text())
    found = [one for one in hits(ext4kit, servers, "--text", "root:x:0:0") if one["path"]]
    assert found
    for name in ("web", "pweb", "front1"):
        title = next(title for title, other in CONTAINERS.items() if other == name)
        mine = {one["path"] for one in found if name in one.get("roots", ())}
        assert mine and mine == {
            one["path"] for one in found
            if any(one["path"].startswith(layer + "/") for layer in truth[title])
        }  # fmt: skip
    outside = [one for one in found if "/diff/" not in one["path"] and "/fs/" not in one["path"]]
    roots_of_directories = {"box", "srv_jail"}
    assert all(set(one.get("roots", ())) <= roots_of_directories for one in outside)
    assert "  (in web" in ext4kit("search", servers, "--text", "evil:x:0:0").stdout


def test_a_search_is_limited_to_the_layers_of_a_root(ext4kit: Cli, servers: Path) -> None:
    layers = json.loads((KEPT / "layers.json").read_text())["docker web"]
    every = hits(ext4kit, servers, "--text", "root:x:0:0")
    mine = hits(ext4kit, servers, "--root", "web", "--text", "root:x:0:0")
    below = [
        one for one in every
        if one["path"] and any(one["path"].startswith(layer + "/") for layer in layers)
    ]  # fmt: skip
    assert 0 < len(mine) < len(every)
    assert [one["path"] for one in mine] == [one["path"] for one in below]
    inside = hits(ext4kit, servers, "/etc/passwd", "--root", "web", "--text", "root:x:0:0")
    assert {one["path"] for one in inside} == {
        one["path"] for one in below if one["path"].endswith("/etc/passwd")
    }
    assert hits(ext4kit, servers, "/app", "--root", "web", "--text", "root:x:0:0") == []
    named = hits(ext4kit, servers, "passwd", "--root", "web", "--text", "root:x:0:0")
    assert [one["path"] for one in named] == [one["path"] for one in inside]
