"""Containers and images of Docker, from its records."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from ext4kit.roots.layer_store import LayerStore
from ext4kit.roots.model import LinuxRoot, RootKind
from ext4kit.roots.record_files import (
    Json,
    RecordFiles,
    created,
    items_at,
    safe_name,
    text_at,
    text_of,
    texts_at,
    value_at,
)

DRIVER = b"overlay2"
_INIT = b"-init"  # layer between a container and its image


@dataclass(frozen=True, slots=True)
class DockerRecord:
    """What Docker recorded of a container.

    Attributes:
        name: without the slash in front of it.
        image: name and tag.
        details: state and times.
    """

    name: str
    image: str
    details: dict[str, str]


def docker_records(files: RecordFiles, store: bytes) -> dict[str, DockerRecord]:
    """The containers of a data directory of Docker, by id."""
    found = {}
    for name in files.names(store + b"/containers"):
        config = files.json(b"%s/containers/%s/config.v2.json" % (store, name))
        if config is None:
            continue
        identity = text_at(config, "ID") or name.decode("utf-8", "replace")
        image = text_at(config, "Config", "Image") or text_at(config, "Image")
        title = text_at(config, "Name").lstrip("/")
        found[identity] = DockerRecord(title or identity[:12], image, _details(config))
    return found


def _details(config: Json) -> dict[str, str]:
    words = [text_at(config, "Path"), *texts_at(config, "Args")]
    state = "running" if value_at(config, "State", "Running") is True else "stopped"
    found = {
        "created": text_at(config, "Created"),
        "started": text_at(config, "State", "StartedAt"),
        "finished": text_at(config, "State", "FinishedAt"),
        "state": state,
        "command": " ".join(filter(None, words)),
        "host name": text_at(config, "Config", "Hostname"),
    }
    return {key: value for key, value in found.items() if value}


def docker_roots(files: RecordFiles, store: bytes) -> Iterator[LinuxRoot]:
    """The containers, the images, and the layers that neither of them has.

    Args:
        files: of the tree.
        store: data directory of Docker, usually /var/lib/docker.
    """
    layers, used = LayerStore(files, b"%s/%s" % (store, DRIVER)), set[bytes]()
    yield from _containers(files, store, layers, used)
    yield from _images(files, store, layers, used)
    yield from left_over(layers, used, RootKind.DOCKER_LAYER)


def left_over(layers: LayerStore, used: set[bytes], kind: RootKind) -> Iterator[LinuxRoot]:
    """The layers that no record names; those below another of them are part of it."""
    names = [name for name in layers.ids if name not in used and layers.has(name)]
    below = {name: layers.below(name) for name in names}
    lower = {each for some in below.values() for each in some}
    for name in names:
        if name in lower:
            continue
        paths, missing = layers.paths([name, *below[name]])
        title = name.decode("utf-8", "backslashreplace")
        yield LinuxRoot(
            kind, title[:12], paths[0], paths, has_upper=True, identity=title,
            work=layers.work(name), missing=missing,
        )  # fmt: skip


def _containers(
    files: RecordFiles, store: bytes, layers: LayerStore, used: set[bytes]
) -> Iterator[LinuxRoot]:
    """The containers with a layer, also those whose record is gone."""
    records = docker_records(files, store)
    mounts = b"%s/image/%s/layerdb/mounts" % (store, DRIVER)
    ids = dict.fromkeys([*records, *map(text_of, files.names(mounts))])
    for identity in ids:
        if not (folder := safe_name(identity)):
            continue
        top = safe_name(files.line(b"%s/%s/mount-id" % (mounts, folder)))
        if not layers.has(top):
            continue
        names = [top, *layers.below(top)]
        used.update(names)
        paths, missing = layers.paths(names)
        known = records.get(identity, DockerRecord(identity[:12], "", {}))
        yield LinuxRoot(
            RootKind.DOCKER_CONTAINER, known.name, paths[0], paths, has_upper=True,
            image=known.image, identity=identity, work=layers.work(top), details=known.details,
            missing=missing,
        )  # fmt: skip


def _images(
    files: RecordFiles, store: bytes, layers: LayerStore, used: set[bytes]
) -> Iterator[LinuxRoot]:
    """The images, with all their tags."""
    folder = b"%s/image/%s" % (store, DRIVER)
    tags: dict[str, list[str]] = {}
    for _, names in items_at(files.json(folder + b"/repositories.json"), "Repositories"):
        for tag, digest in items_at(names):
            if isinstance(digest, str) and "@" not in tag:
                tags.setdefault(digest, []).append(tag)
    for name in files.names(folder + b"/imagedb/content/sha256"):
        config = files.json(b"%s/imagedb/content/sha256/%s" % (folder, name))
        chain = chain_id(texts_at(config, "rootfs", "diff_ids"))
        cache = b"%s/layerdb/%s/cache-id" % (folder, chain.replace(":", "/").encode())
        top = safe_name(files.line(cache)) if chain else b""
        if not layers.has(top):
            continue
        below = [top, *layers.below(top)]
        used.update(below)
        paths, missing = layers.paths(below)
        identity = f"sha256:{text_of(name)}"
        titles = sorted(tags.get(identity, ())) or [text_of(name)[:12]]
        yield LinuxRoot(
            RootKind.DOCKER_IMAGE, titles[0], paths[0], paths, image=", ".join(titles),
            identity=identity, details=created(config), missing=missing,
        )  # fmt: skip


def chain_id(diff_ids: list[str]) -> str:
    """Docker's name of a stack of layers, from the digests of its layers; "" for none."""
    found = diff_ids[0] if diff_ids else ""
    for digest in diff_ids[1:]:
        text = f"{found} {digest}".encode("utf-8", "surrogateescape")
        found = f"sha256:{hashlib.sha256(text).hexdigest()}"
    return found if _is_digest(found) else ""


def _is_digest(text: str) -> bool:
    method, _, digits = text.partition(":")
    return method == "sha256" and len(digits) == 64 and digits.isascii() and digits.isalnum()
