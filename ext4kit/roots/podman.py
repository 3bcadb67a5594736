"""Containers and images of Podman, CRI-O and Buildah, from the records of containers/storage."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ext4kit.roots.docker import left_over
from ext4kit.roots.layer_store import MOST_LAYERS, LayerStore
from ext4kit.roots.model import LinuxRoot, RootKind
from ext4kit.roots.record_files import (
    Json,
    RecordFiles,
    created,
    list_at,
    safe_name,
    text_at,
    texts_at,
)

DRIVER = b"overlay"


class _PodmanStore:
    """A storage directory.

    Args:
        files: of the tree.
        store: the directory.
    """

    def __init__(self, files: RecordFiles, store: bytes) -> None:
        self._files, self._store = files, store
        self.layers = LayerStore(files, b"%s/%s" % (store, DRIVER))
        self.used = set[bytes]()
        self.is_unprivileged = b"/.local/share/containers/" in store + b"/"
        self._parents = {
            text_at(one, "id"): text_at(one, "parent") for one in self.records("layers")
        }

    def records(self, kind: str) -> list[Json]:
        """The records of layers, images or containers, also of those that end with a boot."""
        found = list[Json]()
        for name in (kind, f"volatile-{kind}"):
            path = b"%s/%s-%s/%s.json" % (self._store, DRIVER, kind.encode(), name.encode())
            found += list_at({"all": self._files.json(path)}, "all")
        return found

    def stack(self, layer: str) -> tuple[tuple[bytes, ...], int]:
        """Paths of a layer and of those below it, and how many are missing."""
        names = list[bytes]()
        while layer and len(names) < MOST_LAYERS:
            names.append(safe_name(layer))
            layer = self._parents.get(layer, "")
        if len(names) == 1:  # without a record of the layer
            names += self.layers.below(names[0])
        self.used.update(names)
        return self.layers.paths(names)


def podman_roots(files: RecordFiles, store: bytes) -> Iterator[LinuxRoot]:
    """The containers, the images, and the layers that neither of them has.

    Args:
        files: of the tree.
        store: storage directory, such as /var/lib/containers/storage.
    """
    place = _PodmanStore(files, store)
    images = place.records("images")
    titles = {text_at(one, "id"): ", ".join(texts_at(one, "names")) for one in images}
    for record in place.records("containers"):
        yield from _container(place, record, titles)
    for record in images:
        identity, (paths, missing) = text_at(record, "id"), place.stack(text_at(record, "layer"))
        if paths:
            names = texts_at(record, "names") or [identity[:12]]
            yield LinuxRoot(
                RootKind.PODMAN_IMAGE, names[0], paths[0], paths, image=", ".join(names),
                identity=identity, is_unprivileged=place.is_unprivileged,
                details=created(record), missing=missing,
            )  # fmt: skip
    yield from left_over(place.layers, place.used, RootKind.PODMAN_LAYER)


def _container(place: _PodmanStore, record: Json, titles: dict[str, str]) -> Iterator[LinuxRoot]:
    layer, identity = text_at(record, "layer"), text_at(record, "id")
    paths, missing = place.stack(layer)
    if not paths or not place.layers.has(safe_name(layer)):
        return
    names = texts_at(record, "names") or [identity[:12]]
    image = text_at(record, "image")
    yield LinuxRoot(
        RootKind.PODMAN_CONTAINER, names[0], paths[0], paths, has_upper=True,
        image=titles.get(image) or _image_name(record) or image, identity=identity,
        is_unprivileged=place.is_unprivileged, work=place.layers.work(safe_name(layer)),
        details=created(record), missing=missing,
    )  # fmt: skip


def _image_name(record: Json) -> str:
    """The name of the image in the JSON text that the record holds as a text."""
    try:
        return text_at(json.loads(text_at(record, "metadata")), "image-name")
    except (ValueError, RecursionError):
        return ""
