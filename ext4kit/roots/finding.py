"""Finds the Linux roots on an image: the system, containers, images, chroots, snapshots."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ext4kit.errors import NotFoundError
from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.live_view import LiveView
from ext4kit.filesystem.view import free_name
from ext4kit.problems import Severity
from ext4kit.roots.containerd import SNAPSHOTTER, containerd_roots
from ext4kit.roots.directories import (
    directory_root,
    file_system_root,
    lxc_root,
    places_of_releases,
)
from ext4kit.roots.docker import DockerRecord, docker_records, docker_roots
from ext4kit.roots.model import LinuxRoot
from ext4kit.roots.os_release import distribution_of
from ext4kit.roots.overlay_view import OverlayView
from ext4kit.roots.podman import podman_roots
from ext4kit.roots.record_files import RecordFiles
from ext4kit.selection import Selection
from ext4kit.workspace import Workspace

MOST_ROOTS = 10_000
_DOCKER, _PODMAN, _ROOTFS = b"/image/overlay2", b"/overlay-layers", b"/rootfs"
_RELEASE = b"/os-release"
_NAMES = re.compile(
    b"^(?:%s)$" % b"|".join(re.escape(name) for name in
    (b"overlay2", b"overlay-layers", SNAPSHOTTER, b"rootfs", b"os-release"))
)  # fmt: skip


def find_roots(workspace: Workspace) -> list[LinuxRoot]:
    """The roots on the file system, in one walk over its names; each has a name of its own.

    Records that cannot be read are problems of the file system.

    Args:
        workspace: of the file system.
    """
    fs = workspace.fs
    files = RecordFiles(LiveView(fs), fs.problems)
    found, taken = list[LinuxRoot](), set[bytes]()
    for root in _all_roots(fs, files):
        if len(found) >= MOST_ROOTS:
            what = f"only the first {MOST_ROOTS:,} are listed"
            fs.problems.add("roots", what, Severity.WARNING)
            break
        name = free_name(root.name.replace("/", "_").encode("utf-8", "surrogateescape"), taken)
        taken.add(name)
        view = root_view(fs, root, files=files)
        release = distribution_of(RecordFiles(view, fs.problems))
        text = name.decode("utf-8", "surrogateescape")
        found.append(replace(root, name=text, distribution=release))
    return found


def root_named(roots: Iterable[LinuxRoot], name: str) -> LinuxRoot:
    """The root with a name, with the start of an id, or at a place.

    Raises:
        NotFoundError: there is none.
    """
    listed = list(roots)
    for root in listed:
        if name in (root.name, root.image, root.identity, root.place.decode("utf-8", "replace")):
            return root
    for root in listed:
        if len(name) >= 4 and root.identity.removeprefix("sha256:").startswith(name):
            return root
    raise NotFoundError(name.encode("utf-8", "surrogateescape"), "no root of this name")


def root_view(
    fs: FileSystem, root: LinuxRoot, above: bytes = b"", files: RecordFiles | None = None
) -> OverlayView:
    """The tree of a root: of its layers, or of its directory.

    Args:
        fs: the file system.
        root: the root.
        above: path of its root directory in the tree.
        files: of the file system, which keeps directories that were looked up.

    Raises:
        NotFoundError: it is not there any more.
    """
    files = files or RecordFiles(LiveView(fs), fs.problems)
    layers = list(filter(None, map(files.node, root.layers)))
    if not layers:
        raise NotFoundError(root.place)
    index = files.node(root.work + b"/index") if root.work else None
    return OverlayView(
        layers, f"root-{root.name}", above, root.is_unprivileged, root.is_merged, index
    )  # fmt: skip


def _all_roots(fs: FileSystem, files: RecordFiles) -> Iterator[LinuxRoot]:
    if (system := file_system_root(files)) is not None:
        yield system
    paths = [path for some in LiveView(fs).walk(Selection(names=(_NAMES,))) for path in some.paths]
    stores, docker = set[bytes](), dict[str, DockerRecord]()
    for store in _parents(paths, _DOCKER):
        stores.add(store + b"/overlay2")
        docker |= docker_records(files, store)
        yield from docker_roots(files, store)
    for store in _parents(paths, _PODMAN):
        stores.add(store + b"/overlay")
        yield from podman_roots(files, store)
    for folder in (path for path in paths if path.endswith(b"/" + SNAPSHOTTER)):
        stores.add(folder)
        yield from containerd_roots(files, folder, docker)
    yield from _directories(files, [path for path in paths if not _is_below(path, stores)])


def _directories(files: RecordFiles, paths: list[bytes]) -> Iterator[LinuxRoot]:
    """The roots that are directories of their own."""
    places = set[bytes]()
    for path in paths:
        root = lxc_root(files, path) if path.endswith(_ROOTFS) else None
        if root is not None:
            places |= {path, *root.layers}
            yield root
    releases = [path for path in paths if path.endswith(_RELEASE)]
    for place in places_of_releases(releases):
        root = None if place in places else directory_root(files, place)
        if root is not None:
            yield root


def _parents(paths: list[bytes], end: bytes) -> Iterator[bytes]:
    """The directories that have something at a path below them."""
    return (path.removesuffix(end) for path in paths if path.endswith(end))


def _is_below(path: bytes, folders: set[bytes]) -> bool:
    return any(path.startswith(folder + b"/") for folder in folders)
