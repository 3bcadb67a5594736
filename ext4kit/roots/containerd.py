"""Containers and snapshots of containerd, from its two databases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ext4kit.errors import CorruptError
from ext4kit.parsers.bolt import BoltBucket, BoltDatabase
from ext4kit.roots.docker import DockerRecord
from ext4kit.roots.layer_store import MOST_LAYERS
from ext4kit.roots.model import LinuxRoot, RootKind
from ext4kit.roots.record_files import RecordFiles, text_of

SNAPSHOTTER = b"io.containerd.snapshotter.v1.overlayfs"
_META = b"io.containerd.metadata.v1.bolt/meta.db"
_VERSION, _PLUGIN = b"v1", b"overlayfs"
_CONFIG = b"containerd.io/gc.ref.content."  # label of a content that names another one
_SNAPSHOT = b"containerd.io/gc.ref.snapshot.overlayfs"  # label of an image configuration
_MOST_STEPS = 64  # from the name of an image to its snapshot
_ACTIVE = b"\x02"
_LABELS = {
    b"io.kubernetes.pod.namespace": "pod namespace",
    b"io.kubernetes.pod.name": "pod",
    b"io.kubernetes.container.name": "container",
}


@dataclass(frozen=True, slots=True)
class _Owner:
    """What a snapshot is for.

    Attributes:
        kind: of the root.
        name: of the container or image.
        image: name and tag.
        details: from labels.
    """

    kind: RootKind
    name: str
    image: str
    details: dict[str, str]


class _Snapshots:
    """The snapshots of the plug-in, by their names in it.

    Args:
        database: its database.
        folder: the directory of the plug-in.
    """

    def __init__(self, database: BoltDatabase, folder: bytes) -> None:
        self._folder = folder
        found = database.root.at(_VERSION, b"snapshots")
        self._records = (
            {name: one.values() for name, one in found.buckets().items()} if found else {}
        )

    def names(self) -> list[bytes]:
        """The names of all snapshots that no other one is above of."""
        parents = {one.get(b"parent", b"") for one in self._records.values()}
        return [name for name in self._records if name not in parents]

    def is_active(self, name: bytes) -> bool:
        """Whether a snapshot can be written to."""
        return self._records.get(name, {}).get(b"kind") == _ACTIVE

    def folders(self, name: bytes) -> list[bytes]:
        """The directories of a snapshot and of those below it."""
        found = list[bytes]()
        while name in self._records and len(found) < MOST_LAYERS:
            record = self._records[name]
            number = varint(record.get(b"id", b""))
            found.append(b"%s/snapshots/%d" % (self._folder, number))
            name = record.get(b"parent", b"")
        return found


class _Metadata:
    """What containerd knows of images and containers.

    Args:
        database: the database of all plug-ins; None if there is none.
    """

    def __init__(self, database: BoltDatabase | None) -> None:
        self._spaces: dict[bytes, BoltBucket] = {}
        version = None if database is None else database.root.at(_VERSION)
        if version is not None:
            self._spaces = version.buckets()

    @cached_property
    def owners(self) -> dict[bytes, _Owner]:
        """The owner of each snapshot that has one; a container rather than an image."""
        found: dict[bytes, _Owner] = {}
        for space, bucket in self._spaces.items():
            snapshots = bucket.at(b"snapshots", _PLUGIN)
            keys = {} if snapshots is None else snapshots.buckets()
            names = {key: one.values().get(b"name", b"") for key, one in keys.items()}
            for key, owner in (*self._images(bucket), *self._containers(space, bucket)):
                if names.get(key):
                    found[names[key]] = owner
        return found

    def _containers(self, space: bytes, bucket: BoltBucket) -> Iterator[tuple[bytes, _Owner]]:
        containers = bucket.at(b"containers")
        for name, record in {} if containers is None else containers.buckets().items():
            values, labels = record.values(), record.at(b"labels")
            known = {} if labels is None else labels.values()
            details = {"namespace": text_of(space)}
            details |= {
                title: text_of(known[key]) for key, title in _LABELS.items() if key in known
            }
            owner = _Owner(
                RootKind.CONTAINERD_CONTAINER,
                text_of(name),
                text_of(values.get(b"image", b"")),
                details,
            )
            yield values.get(b"snapshotKey", b""), owner

    def _images(self, bucket: BoltBucket) -> Iterator[tuple[bytes, _Owner]]:
        images, contents = bucket.at(b"images"), bucket.at(b"content", b"blob")
        blobs = {} if contents is None else contents.buckets()
        for name, record in {} if images is None else images.buckets().items():
            target = record.at(b"target")
            digest = b"" if target is None else target.values().get(b"digest", b"")
            key, title = _snapshot_of(blobs, digest), text_of(name)
            if key:
                yield key, _Owner(RootKind.CONTAINERD_IMAGE, title, title, {})


def _snapshot_of(blobs: Mapping[bytes, BoltBucket], digest: bytes) -> bytes:
    """The snapshot of an image, found through the labels of its contents; b"" for none."""
    waiting, steps = [digest], 0
    while waiting and steps < _MOST_STEPS:
        steps += 1
        blob = blobs.get(waiting.pop())
        labels = None if blob is None else blob.at(b"labels")
        values = {} if labels is None else labels.values()
        if _SNAPSHOT in values:
            return values[_SNAPSHOT]
        waiting += [value for key, value in values.items() if key.startswith(_CONFIG)]
    return b""


def containerd_roots(
    files: RecordFiles, folder: bytes, docker: Mapping[str, DockerRecord]
) -> Iterator[LinuxRoot]:
    """The containers, images and further snapshots.

    Args:
        files: of the tree.
        folder: directory of the plug-in for overlayfs.
        docker: containers of Docker, which can keep their layers here.
    """
    path = folder + b"/metadata.db"
    store = folder.rpartition(b"/")[0]
    database = files.bolt(path)
    if database is None:
        return
    try:
        snapshots = _Snapshots(database, folder)
        owners = _owners(files, b"%s/%s" % (store, _META))
    except CorruptError as error:
        files.tell(path, str(error))
        return
    for name in dict.fromkeys([*owners, *snapshots.names()]):
        root = _root(files, snapshots, name, owners.get(name), docker)
        if root is not None:
            yield root


def _owners(files: RecordFiles, path: bytes) -> dict[bytes, _Owner]:
    try:
        return _Metadata(files.bolt(path)).owners
    except CorruptError as error:
        files.tell(path, str(error))
        return {}


def _root(
    files: RecordFiles,
    snapshots: _Snapshots,
    name: bytes,
    owner: _Owner | None,
    docker: Mapping[str, DockerRecord],
) -> LinuxRoot | None:
    """A snapshot as a root; None if its directory is not there."""
    folders = snapshots.folders(name)
    paths = tuple(one + b"/fs" for one in folders if files.is_directory(one + b"/fs"))
    if not paths:
        return None
    key = text_of(name).rpartition("/")[2]
    known = docker.get(key)
    if known is not None:
        owner = _Owner(RootKind.DOCKER_CONTAINER, known.name, known.image, known.details)
    if owner is None:
        owner = _Owner(RootKind.CONTAINERD_SNAPSHOT, key[:19], "", {})
    is_active = snapshots.is_active(name)
    return LinuxRoot(
        owner.kind, owner.name, paths[0], paths, has_upper=is_active, image=owner.image,
        identity=key, work=folders[0] + b"/work" if is_active else b"", details=owner.details,
        missing=len(folders) - len(paths),
    )  # fmt: skip


def varint(data: bytes) -> int:
    """A number as Go's `binary.PutUvarint` writes it; 0 without bytes."""
    found = 0
    for place, byte in enumerate(data[:10]):
        found |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    return found
