"""Overlays that the running kernel writes on an ext4 image, and what it shows of them."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.live_view import LiveView
from ext4kit.filesystem.view import Node, View
from ext4kit.roots.overlay_view import OverlayView
from tests.filesystem.matrix_oracle import Digest
from tests.mount.mounting import Facts, facts_below

COMPARED = ("mode", "uid", "gid", "size", "mtime_ns", "device", "target", "xattrs", "digest")
_REFUSED = {errno.EXDEV, errno.ENOTEMPTY, errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.EINVAL,
            errno.ENOENT, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EBUSY}  # fmt: skip


def run(*words: str | Path) -> None:
    """Run a command; its output is in the error if it fails."""
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stderr)


def new_image(folder: Path) -> Path:
    """An empty ext4 file system."""
    image = folder / "overlays.img"
    with image.open("wb") as file:
        file.truncate(32 << 20)
    run("mkfs.ext4", "-q", "-I", "256", "-N", "4096", image)
    return image


@contextmanager
def mounted_image(image: Path, folder: Path, options: str = "rw") -> Iterator[Path]:
    """An image, mounted for the time of the context."""
    place = folder / "disk"
    place.mkdir(exist_ok=True)
    run("mount", "-o", f"loop,{options}", image, place)
    try:
        yield place
    finally:
        run("umount", place)


@contextmanager
def overlay(
    folder: Path, layers: Sequence[Path], work: Path | None, options: str
) -> Iterator[Path]:
    """An overlay of layers, the top one first, which is written to if there is a work directory."""
    place = folder / "merged"
    place.mkdir(exist_ok=True)
    upper = [f"upperdir={layers[0]}", f"workdir={work}"] if work else []
    lower = ":".join(map(str, layers[1:] if work else layers))
    words = ",".join([*filter(None, [options]), f"lowerdir={lower}", *upper])
    run("mount", "-t", "overlay", "overlay", "-o", words, place)
    try:
        yield place
    finally:
        run("umount", place)


def facts_of_mount(root: Path) -> dict[bytes, Facts]:
    """What system calls show of all files, without what overlayfs makes up."""
    return {path: _compared(facts) for path, facts in facts_below(root).items()}


def _compared(facts: Facts) -> Facts:
    found = {name: facts[name] for name in COMPARED if name in facts}
    if "target" not in found and "digest" not in found:
        del found["size"]
    return found


def facts_of_view(view: View) -> dict[bytes, Facts]:
    """The same of a view."""
    nodes = [node for some in view.walk() for node in some.nodes]
    return {node.path.strip(b"/"): _facts_of_node(node) for node in (view.root, *nodes)}


def _facts_of_node(node: Node) -> Facts:
    inode = node.inode
    assert inode is not None
    found: Facts = {
        "mode": inode.mode, "uid": inode.uid, "gid": inode.gid, "mtime_ns": inode.mtime,
        "xattrs": {os.fsdecode(name): value for name, value in sorted(node.xattrs().items())},
    }  # fmt: skip
    if inode.device:
        found["device"] = os.makedev(*inode.device)
    if inode.kind == "symlink":
        found |= {"target": node.link_target(), "size": inode.size}
    if inode.kind == "file":
        content = node.content()
        assert content is not None
        digest = Digest(content.size)
        digest.add(0, content.open().read())
        found |= {"digest": digest.hexdigest(), "size": inode.size}
    return found


def overlay_view(
    fs: FileSystem, layers: Sequence[str], is_unprivileged: bool = False, index: str = ""
) -> OverlayView:
    """The view of layers of an image, by their paths."""
    live = LiveView(fs)
    found = live.lookup(index) if index else None
    return OverlayView(
        [live.lookup(layer) for layer in layers], is_unprivileged=is_unprivileged, index=found
    )


class RandomWriter:
    """Changes a tree at random, the same way for the same seed.

    Args:
        root: the tree.
        chance: where the numbers come from.
    """

    def __init__(self, root: Path, chance: random.Random) -> None:
        self._root, self._chance = root, chance
        self._acts: list[Callable[[], None]] = [
            self._make_file, self._make_file, self._make_folder, self._make_folder, self._append,
            self._append, self._remove, self._remove, self._rename, self._rename, self._rename,
            self._link, self._symlink, self._chmod, self._chmod, self._attribute, self._replace,
            self._refill, self._truncate, self._fifo, self._rename_folder, self._rename_folder,
            self._rename_folder, self._link,
        ]  # fmt: skip

    def write(self, count: int) -> None:
        """Make changes; those that the kernel refuses are left out."""
        for _ in range(count):
            try:
                self._chance.choice(self._acts)()
            except OSError as error:
                if error.errno not in _REFUSED:
                    raise

    def _all(self, wants_folder: bool | None = None) -> list[Path]:
        found = []
        for top, folders, files in os.walk(self._root):
            names = [*(folders if wants_folder is not False else ()),
                     *(files if wants_folder is not True else ())]  # fmt: skip
            found += [Path(top) / name for name in names]
        return sorted(found)

    def _any(self, wants_folder: bool | None = None) -> Path:
        return self._chance.choice(self._all(wants_folder) or [self._root / "none"])

    def _new(self) -> Path:
        folders = [path for path in self._all(True) if not path.is_symlink()]
        above = self._chance.choice([self._root, *folders])
        if len(above.relative_to(self._root).parts) > 4:
            above = self._root
        return above / self._chance.choice("abcdefgh")

    def _make_file(self) -> None:
        with self._new().open("xb") as file:
            file.write(self._chance.randbytes(self._chance.choice([0, 5, 3000, 9000])))

    def _make_folder(self) -> None:
        self._new().mkdir()

    def _append(self) -> None:
        path = self._any(False)
        if path.is_file() and not path.is_symlink():
            with path.open("ab") as file:
                file.write(self._chance.randbytes(100))

    def _truncate(self) -> None:
        path = self._any(False)
        if path.is_file() and not path.is_symlink():
            os.truncate(path, self._chance.choice([0, 10, 20000]))

    def _remove(self) -> None:
        path = self._any()
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()

    def _rename(self) -> None:
        self._any().rename(self._new())

    def _rename_folder(self) -> None:
        self._any(True).rename(self._new())

    def _link(self) -> None:
        path = self._any(False)
        with suppress(FileExistsError):
            self._new().hardlink_to(path)

    def _symlink(self) -> None:
        self._new().symlink_to(self._chance.choice(["a", "/b/c", "../d"]))

    def _fifo(self) -> None:
        os.mkfifo(self._new())

    def _chmod(self) -> None:
        path = self._any()
        if not path.is_symlink():
            path.chmod(self._chance.choice([0o700, 0o644, 0o755, 0o600]))

    def _attribute(self) -> None:
        path = self._any()
        if not path.is_symlink() and (path.is_dir() or path.is_file()):
            os.setxattr(path, "user.mark", self._chance.randbytes(4))

    def _replace(self) -> None:
        """Put a folder in place of a file, or a file in place of a folder."""
        path = self._any()
        was_folder = path.is_dir() and not path.is_symlink()
        shutil.rmtree(path) if was_folder else path.unlink()
        path.write_bytes(b"file now") if was_folder else path.mkdir()

    def _refill(self) -> None:
        """Put a new folder in place of a folder: it is opaque."""
        path = self._any(True)
        if not path.is_symlink():
            shutil.rmtree(path)
            path.mkdir()
            (path / "fresh").write_bytes(b"fresh")
