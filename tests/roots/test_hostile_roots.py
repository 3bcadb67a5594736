"""Records, layers and databases that somebody changed lead to no endless work and no crash."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

import ext4kit as library
from ext4kit.errors import Ext4kitError
from ext4kit.filesystem.live_view import LiveView
from ext4kit.roots import find_roots, root_view
from ext4kit.roots.changes import change_counts, changes_of
from ext4kit.workspace import Workspace
from tests.roots.overlays import facts_of_view, mounted_image, new_image, overlay_view, run

_DEEP = b"[" * 200_000
_PODMAN = "/var/lib/containers/storage"
_DOCKER = "/var/lib/docker/image/overlay2"


def _everything(image: Path) -> list[str]:
    """Read all that the commands read; the problems that were told."""
    with library.open(image) as opened:
        workspace = Workspace(opened.filesystem())
        for root in find_roots(workspace):
            change_counts(workspace.fs, root)
            list(changes_of(workspace, root))
            for some in root_view(workspace.fs, root).walk():
                for node in some.nodes:
                    node.head()
                    node.xattrs()
        return [problem.what for problem in workspace.fs.problems]


def _with_files(servers: Path, folder: Path, files: dict[str, bytes]) -> Path:
    """The server with other bytes in some files."""
    image, requests = folder / "changed.img", list[str]()
    image.write_bytes(servers.read_bytes())
    for number, (path, data) in enumerate(files.items()):
        source = folder / f"file-{number}"
        source.write_bytes(data)
        requests += [f"rm {path}", f"write {source} {path}"]
    script = folder / "requests"
    script.write_text("".join(f"{each}\n" for each in requests))
    run("debugfs", "-w", "-f", script, image)
    return image


@pytest.mark.parametrize(
    "files",
    [
        {f"{_DOCKER}/repositories.json": _DEEP},
        {f"{_DOCKER}/repositories.json": b'{"Repositories": {"a": [1, {"b": 2}], "c": {"d": 3}}}'},
        {f"{_PODMAN}/overlay-containers/containers.json": b'[1, null, {"id": 7, "names": "x"}]'},
        {f"{_PODMAN}/overlay-images/images.json": b'[{"id": "../..", "layer": "../../../etc"}]'},
        {f"{_PODMAN}/overlay-containers/containers.json": b"\xff\xfe{"},
    ],
    ids=range(5),
)
def test_records_of_any_kind_are_read_or_left_out(
    servers: Path, tmp_path: Path, files: dict[str, bytes]
) -> None:
    told = _everything(_with_files(servers, tmp_path, files))
    is_json = next(iter(files.values()))[:1] in (b"[", b"{") and _DEEP not in files.values()
    assert any("is not JSON" in text for text in told) != is_json


def test_layers_that_are_below_themselves_end(servers: Path, tmp_path: Path) -> None:
    layers = [{"id": "aaa", "parent": "bbb"}, {"id": "bbb", "parent": "aaa"}]
    store = "/home/anna/.local/share/containers/storage"
    path = f"{store}/overlay-layers/layers.json"
    image = _with_files(servers, tmp_path, {path: json.dumps(layers).encode()})
    with library.open(image) as opened:
        workspace = Workspace(opened.filesystem())
        (root,) = [one for one in find_roots(workspace) if one.name == "annas"]
        assert len(root.layers) <= 500
        assert len(facts_of_view(root_view(workspace.fs, root))) < 20


@pytest.mark.parametrize(
    "value", [b"/loop", b"/d/d/d/d", b"/", b"..", b".", b"/a//b/", b"/x" * 100]
)
@pytest.mark.usefixtures("needs_kernel")
def test_redirects_that_lead_anywhere_end(tmp_path: Path, value: bytes) -> None:
    image = new_image(tmp_path)
    with mounted_image(image, tmp_path) as disk:
        for name in ("upper", "middle", "lower"):
            (disk / name / "loop/d").mkdir(parents=True)
            os.setxattr(disk / name / "loop", "trusted.overlay.redirect", value)
            os.setxattr(disk / name / "loop/d", "trusted.overlay.redirect", value)
            (disk / name / "loop/file").write_bytes(b"x")
            os.setxattr(disk / name / "loop/file", "trusted.overlay.metacopy", b"")
    with library.open(image) as opened:
        view = overlay_view(opened.filesystem(), ["/upper", "/middle", "/lower"])
        nodes = [node for some in view.walk() for node in some.nodes]
        assert len(nodes) < 1000
        (file,) = [node for node in nodes if node.path == b"/loop/file"]
        assert file.content() is None
        assert [reason.code for reason in file.reasons] == ["overlay-content-missing"]


@pytest.mark.parametrize("seed", range(3))
def test_damage_anywhere_is_told_or_passed_over(seed: int, servers: Path, tmp_path: Path) -> None:
    chance, data = random.Random(seed), bytearray(servers.read_bytes())
    with library.open(servers) as opened:
        tree = LiveView(opened.filesystem())
        places = [
            int(run_.physical[0]) * 1024
            for some in tree.walk()
            for node in some.nodes
            if (content := node.readable()) and (run_ := content.runs) is not None and len(run_)
        ]
    for place in chance.sample(places, 60):
        for _ in range(20):
            data[place + chance.randrange(1024)] = chance.randrange(256)
    image = tmp_path / "damaged.img"
    image.write_bytes(data)
    try:
        _everything(image)
    except Ext4kitError as error:
        pytest.fail(f"{type(error)}: {error}")


def test_directories_that_contain_each_other_end(servers: Path, tmp_path: Path) -> None:
    with library.open(servers) as opened:
        workspace = Workspace(opened.filesystem())
        (root,) = [one for one in find_roots(workspace) if one.name == "web"]
    image, script = tmp_path / "loop.img", tmp_path / "requests"
    image.write_bytes(servers.read_bytes())
    place = root.place.decode()
    above = [f"link {place} {place}/tmp/.x/{name}" for name in "ab"]
    other = [f"link {place}/data {place}/tmp/{name}" for name in "cd"]
    script.write_text("".join(f"{each}\n" for each in (*above, *other)))
    run("debugfs", "-w", "-f", script, image)
    with library.open(image) as opened:
        workspace = Workspace(opened.filesystem())
        paths = [one.path for one in changes_of(workspace, root)]
        assert b"/tmp/.x/a" in paths and len(paths) < 50
        assert sum(len(some.paths) for some in root_view(workspace.fs, root).walk()) < 100
