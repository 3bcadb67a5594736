"""All roots of a server are found, with what their containers changed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import ext4kit as library
from ext4kit.errors import NotFoundError
from ext4kit.roots import LinuxRoot, RootKind, find_roots, root_named, root_view
from ext4kit.roots.changes import ChangeCounts, ChangeKind, change_counts, changes_of
from ext4kit.roots.origins import OriginState
from ext4kit.views.opening import open_view
from ext4kit.workspace import Workspace
from tests.conftest import Cli
from tests.roots.conftest import KEPT
from tests.roots.overlays import facts_of_mount, facts_of_view, mounted_image, overlay, run

CONTAINERS = {
    "docker web": "web", "docker idle": "idle", "containerd": "front1", "podman pweb": "pweb",
    "podman annas": "annas",
}  # fmt: skip


def _by_name(server: Workspace) -> dict[str, LinuxRoot]:
    return {root.name: root for root in find_roots(server)}


def test_each_kind_of_root_is_found_with_image_and_distribution(server: Workspace) -> None:
    found = {
        (root.kind, root.name): (root.image, root.distribution and root.distribution.title)
        for root in find_roots(server)
    }
    tiny, debian = "Tiny Linux 1.0", "Debian GNU/Linux 12 (bookworm)"
    assert found == {
        (RootKind.SYSTEM, "system"): ("", debian),
        (RootKind.DOCKER_CONTAINER, "web"): ("shop/web:2.1", tiny),
        (RootKind.DOCKER_CONTAINER, "idle"): ("tiny:1.0", tiny),
        (RootKind.DOCKER_IMAGE, "tiny:1.0"): ("tiny:1.0", tiny),
        (RootKind.DOCKER_IMAGE, "shop_web:2.0"): ("shop/web:2.0", tiny),
        (RootKind.DOCKER_IMAGE, "shop_web:2.1"): ("shop/web:2.1", tiny),
        (RootKind.PODMAN_CONTAINER, "pweb"): ("localhost/shop/web:2.1", tiny),
        (RootKind.PODMAN_IMAGE, "localhost_shop_web:2.1"): ("localhost/shop/web:2.1", tiny),
        (RootKind.PODMAN_CONTAINER, "annas"): ("docker.io/library/debian:12", None),
        (RootKind.PODMAN_IMAGE, "docker.io_library_debian:12"): (
            "docker.io/library/debian:12", debian),
        (RootKind.CONTAINERD_CONTAINER, "front1"): ("docker.io/shop/web:2.1", tiny),
        (RootKind.CONTAINERD_IMAGE, "docker.io_shop_web:2.1"): ("docker.io/shop/web:2.1", tiny),
        (RootKind.LXC, "box"): ("", "Alpine Linux v3.19"),
        (RootKind.CHROOT, "srv_jail"): ("", "Ubuntu 22.04.4 LTS"),
        (RootKind.SNAPSHOT, "timeshift_snapshots_2026-03-01_10-00-01_localhost"): ("", debian),
    }  # fmt: skip
    assert not list(server.fs.problems)


def test_records_tell_more_of_containers(server: Workspace) -> None:
    found = _by_name(server)
    assert found["front1"].details == {
        "namespace": "k8s.io", "pod namespace": "prod", "pod": "shop-0", "container": "front",
    }  # fmt: skip
    assert found["web"].details["command"] == "/bin/pause"
    assert found["srv_jail"].details == {"made by": "debootstrap"}
    assert found["annas"].is_unprivileged and not found["pweb"].is_unprivileged


def test_layers_are_those_that_the_engines_stacked(server: Workspace) -> None:
    truth = json.loads((KEPT / "layers.json").read_text())
    found = _by_name(server)
    for title, name in CONTAINERS.items():
        assert [path.decode() for path in found[name].layers] == truth[title], name


def test_a_root_has_several_names(server: Workspace) -> None:
    roots = find_roots(server)
    web = root_named(roots, "web")
    assert root_named(roots, web.identity[:8]) is web
    assert root_named(roots, "shop/web:2.0").name == "shop_web:2.0"
    assert root_named(roots, "/srv/jail").name == "srv_jail"
    with pytest.raises(NotFoundError):
        root_named(roots, "none")


@pytest.mark.usefixtures("needs_kernel")
def test_containers_saw_what_the_kernel_shows(servers: Path, tmp_path: Path) -> None:
    truth = json.loads((KEPT / "layers.json").read_text())
    with library.open(servers) as opened:
        workspace = Workspace(opened.filesystem())
        found = _by_name(workspace)
        with mounted_image(servers, tmp_path, "ro") as disk:
            for title, name in CONTAINERS.items():
                layers = [disk / path.lstrip("/") for path in truth[title]]
                options = "userxattr" if name == "annas" else ""
                with overlay(tmp_path, layers, None, options) as merged:
                    shown = facts_of_mount(merged)
                assert facts_of_view(root_view(workspace.fs, found[name])) == shown, name


CHANGES = {
    "web": {
        (ChangeKind.DELETED, "/app/config"), (ChangeKind.DELETED, "/app/keep"),
        (ChangeKind.MOVED, "/app/kept"), (ChangeKind.REPLACED, "/data/d"),
        (ChangeKind.ADDED, "/data/d/9"), (ChangeKind.METADATA, "/data/old/3"),
        (ChangeKind.CHANGED, "/etc/passwd"), (ChangeKind.ADDED, "/tmp/.x"),
        (ChangeKind.ADDED, "/tmp/.x/m"), (ChangeKind.DELETED, "/tmp/gone"),
    },
    "idle": set(),
    "front1": {
        (ChangeKind.ADDED, "/run"),  # by ctr, as a mount point
        (ChangeKind.DELETED, "/app/config"), (ChangeKind.CHANGED, "/etc/passwd"),
        (ChangeKind.ADDED, "/tmp/payload"),
    },
    "annas": {
        (ChangeKind.DELETED, "/data/f"), (ChangeKind.CHANGED, "/data/g"),
        (ChangeKind.REPLACED, "/etc"), (ChangeKind.ADDED, "/etc/new"),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_those_that_were_made(name: str, server: Workspace) -> None:
    root = _by_name(server)[name]
    changes = list(changes_of(server, root))
    assert {(one.kind, one.path.decode()) for one in changes} == CHANGES[name]
    for change in changes:
        if change.origin is not None:
            assert change.origin.state is OriginState.EXISTS
            assert change.lower is not None
            assert change.lower.number == change.origin.handle.inode


def test_counts_are_those_of_find(server: Workspace, servers: Path, tmp_path: Path) -> None:
    found = _by_name(server)
    assert change_counts(server.fs, found["web"]) == ChangeCounts(5, 2)
    assert change_counts(server.fs, found["idle"]) == ChangeCounts(0, 0)
    assert change_counts(server.fs, found["srv_jail"]) is None


def test_a_deleted_inode_of_a_layer_can_be_read(server: Workspace) -> None:
    root = _by_name(server)["web"]
    (gone,) = [one for one in changes_of(server, root) if one.file is not None]
    assert gone.file is not None
    content = gone.file.content()
    assert content is not None and content.read(0, 100) == b"gone\n"


def test_layers_without_a_record_are_found(servers: Path, tmp_path: Path) -> None:
    image = tmp_path / "records-gone.img"
    image.write_bytes(servers.read_bytes())
    script = tmp_path / "requests"
    with library.open(servers) as opened:
        root = _by_name(Workspace(opened.filesystem()))["web"]
    docker = "/var/lib/docker"
    script.write_text(
        f"rm {docker}/containers/{root.identity}/config.v2.json\n"
        f"rm {docker}/image/overlay2/layerdb/mounts/{root.identity}/mount-id\n"
    )
    run("debugfs", "-w", "-f", script, image)
    with library.open(image) as opened:
        workspace = Workspace(opened.filesystem())
        found = [one for one in find_roots(workspace) if one.kind is RootKind.DOCKER_LAYER]
        assert [one.layers for one in found] == [root.layers]
        kinds = {(one.kind, one.path.decode()) for one in changes_of(workspace, found[0])}
        assert kinds == CHANGES["web"]


def test_an_origin_that_is_gone_is_told(servers: Path, tmp_path: Path) -> None:
    image = tmp_path / "origin-gone.img"
    image.write_bytes(servers.read_bytes())
    with library.open(servers) as opened:
        workspace = Workspace(opened.filesystem())
        web = _by_name(workspace)["web"]
        (passwd,) = [one for one in changes_of(workspace, web) if one.path == b"/etc/passwd"]
    assert passwd.lower is not None
    run("debugfs", "-w", "-R", f"set_inode_field <{passwd.lower.number}> generation 1", image)
    with library.open(image) as opened:
        workspace = Workspace(opened.filesystem())
        found = [one for one in changes_of(workspace, web) if one.path == b"/etc/passwd"]
        assert found[0].origin is not None
        assert found[0].origin.state is OriginState.REUSED


def test_the_view_has_each_root_as_a_directory(server: Workspace) -> None:
    view = open_view(server, "roots")
    assert {node.name for node in view.root.children()} == {
        name.encode() for name in _by_name(server) if name != "system"
    }
    node = view.lookup("/web/etc/passwd")
    content = node.content()
    assert content is not None
    assert content.read(0, 99) == b"root:x:0:0:root:/root:/bin/sh\nevil:x:0:0::/:/bin/sh\n"
    assert node.layer_path is not None and node.layer_path.endswith(b"/diff/etc/passwd")


def _json(done: subprocess.CompletedProcess[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_commands_show_roots_and_write_what_changed(
    ext4kit: Cli, servers: Path, tmp_path: Path
) -> None:
    rows = {one["name"]: one for one in _json(ext4kit("roots", servers, "--json"))}
    assert (rows["web"]["changed_files"], rows["web"]["whiteouts"]) == (5, 2)
    changed = _json(ext4kit("roots", servers, "web", "--json"))
    assert {(one["change"], one["path"]) for one in changed} == CHANGES["web"]
    ext4kit("roots", servers, "web", "-o", tmp_path / "out")
    names = {path.name for path in (tmp_path / "out/live").rglob("*") if path.is_file()}
    assert names == {"passwd", "kept", "m", "3", "9"}
    ext4kit("roots", servers, "web", "-o", tmp_path / "whole", "--whole")
    assert (tmp_path / "whole/live/bin/pause").stat().st_size == 8720
    assert not (tmp_path / "whole/live/app/config").exists()


def test_stat_tells_what_attributes_of_overlayfs_say(ext4kit: Cli, servers: Path) -> None:
    (change,) = [
        one
        for one in _json(ext4kit("roots", servers, "web", "--json"))
        if one["path"] == "/etc/passwd"
    ]
    text = ext4kit("stat", servers, str(change["layer_path"])).stdout
    origin = change["origin"]
    assert isinstance(origin, dict)
    told = f"copy of inode {origin['inode']}, generation {origin['generation']} (exists)"
    assert told in text
    (record,) = _json(ext4kit("stat", servers, str(change["layer_path"]), "--json"))
    assert [one["overlay"] for one in record["xattrs"] if "overlay" in one] == [told]  # type: ignore[attr-defined]
