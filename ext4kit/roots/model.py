"""What is known of a Linux root on an image."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class RootKind(StrEnum):
    """What a root is."""

    SYSTEM = "system"
    HOMES = "home directories"
    DOCKER_CONTAINER = "docker container"
    DOCKER_IMAGE = "docker image"
    DOCKER_LAYER = "docker layer"
    CONTAINERD_CONTAINER = "containerd container"
    CONTAINERD_IMAGE = "containerd image"
    CONTAINERD_SNAPSHOT = "containerd snapshot"
    PODMAN_CONTAINER = "podman container"
    PODMAN_IMAGE = "podman image"
    PODMAN_LAYER = "podman layer"
    LXC = "lxc"
    NSPAWN = "nspawn"
    CHROOT = "chroot"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class Distribution:
    """What `os-release` says.

    Attributes:
        id: for programs ("debian").
        version: `VERSION_ID`.
        title: for people (`PRETTY_NAME`).
    """

    id: str
    version: str
    title: str


@dataclass(frozen=True, slots=True)
class LinuxRoot:
    """A Linux root.

    Attributes:
        kind: what it is.
        name: of the container, the image or the directory; no other root of the image has it.
        place: path of its directory; of several layers, that of the top one.
        layers: paths of all its layers, the top one first; one path without overlayfs.
        has_upper: whether the top layer has what a container changed.
        image: name and tag of the image; "" if unknown.
        identity: id of the container or the image; "" for none.
        is_unprivileged: whether overlayfs was mounted without privileges.
        work: path of the work directory of overlayfs; b"" for none.
        details: further facts from its records, by name.
        missing: layers that its records name and the image does not have.
        distribution: from its `os-release`; None without one.
    """

    kind: RootKind
    name: str
    place: bytes
    layers: tuple[bytes, ...]
    has_upper: bool = False
    image: str = ""
    identity: str = ""
    is_unprivileged: bool = False
    work: bytes = b""
    details: dict[str, str] = field(default_factory=dict, compare=False)
    missing: int = 0
    distribution: Distribution | None = None

    @property
    def is_own(self) -> bool:
        """Whether it is the system of the file system itself, and not one inside it."""
        return self.place == b"/"

    @property
    def is_merged(self) -> bool:
        """Whether it consists of layers of overlayfs."""
        return len(self.layers) > 1 or self.has_upper
