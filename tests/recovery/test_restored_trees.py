"""A tree that `recover` and `extract` restore is that of the kernel, and stays in its folder."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sample_images.recipes.machine import sync
from sample_images.recipes.score import read_records
from tests.conftest import Cli
from tests.recovery.test_traps import Disk
from tests.writing_kernel import HERE

pytestmark = pytest.mark.kernel
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
CAPABILITY = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)  # cap_net_bind_service=ep
EVERYTHING = "all,privileges"
OUTSIDE = "/tmp/ext4kit-must-not-be-written"
KINDS = {
    stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket", stat.S_IFCHR: "char device",
}  # fmt: skip


@dataclass(frozen=True)
class Node:
    """What the kernel says of a file."""

    kind: str
    mode: int
    owner: tuple[int, int]
    mtime: int
    target: str | None
    xattrs: dict[str, bytes]
    content: bytes | None
    names: int


def node(path: Path) -> Node:
    seen = path.lstat()
    names = [
        name for name in os.listxattr(path, follow_symlinks=False) if name != "security.selinux"
    ]
    is_file = stat.S_ISREG(seen.st_mode)
    return Node(
        kind=KINDS[stat.S_IFMT(seen.st_mode)],
        mode=stat.S_IMODE(seen.st_mode),
        owner=(seen.st_uid, seen.st_gid),
        mtime=seen.st_mtime_ns,
        target=str(path.readlink()) if path.is_symlink() else None,
        xattrs={name: os.getxattr(path, name, follow_symlinks=False) for name in names},
        content=path.read_bytes() if is_file else None,
        names=seen.st_nlink if is_file else 1,
    )


def nodes(root: Path) -> dict[str, Node]:
    """All below a folder, no link followed."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder) / name
            found[str(path.relative_to(root))] = node(path)
    return found


def git(repository: Path, *words: str) -> subprocess.CompletedProcess[str]:
    settings = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "gc.auto=0"]
    command = ["git", *settings, "-c", f"safe.directory={repository}", "-C", str(repository)]
    return subprocess.run([*command, *words], capture_output=True, text=True, check=False)


def make_repository(root: Path) -> None:
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / "program.sh").write_text("#!/bin/sh\necho hello\n")
    (root / "program.sh").chmod(0o755)
    (root / "latest").symlink_to("program.sh")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    git(root, "repack", "-q")
    (root / "program.sh").write_text("#!/bin/sh\necho goodbye\n" * 300)
    git(root, "commit", "-q", "-a", "-m", "second")


def make_tree(root: Path) -> None:
    """Modes, owners, times, links, empty folders and attributes that are not the default ones."""
    root.mkdir()
    for mode in (0o644, 0o600, 0o755, 0o000, 0o444, 0o4755, 0o2711, 0o6777):
        path = root / f"mode {mode:o}"
        path.write_bytes(b"%o" % mode * 1000)
        os.chown(path, 1000 + mode, 2000 + mode)
        path.chmod(mode)
        os.utime(path, ns=(10**18 + mode, 10**18 + 7 * mode))
    for name, mode in (("empty", 0o755), ("empty/er", 0o700), ("shared", 0o1777), ("set", 0o2775)):
        (root / name).mkdir()
        (root / name).chmod(mode)
    (root / "set" / "file").write_bytes(b"content" * 400)
    targets = ("mode 644", "../empty", OUTSIDE, "/etc/passwd", "nowhere", "x" * 200)
    for number, target in enumerate(targets):
        (root / "shared" / f"link {number}").symlink_to(target)
    os.chown(root / "shared" / "link 0", 5, 6, follow_symlinks=False)
    (root / "one").write_bytes(b"several names" * 500)
    (root / "two").hardlink_to(root / "one")
    (root / "empty" / "three").hardlink_to(root / "one")
    (root / "noted").write_bytes(b"with attributes" * 300)
    for name, value in (("user.note", b"\0\xff"), ("trusted.x", b"t"), ("user.big", b"b" * 900)):
        os.setxattr(root / "noted", name, value)
    os.setxattr(root / "set", "user.folder", b"f")
    acl = struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", *entry)
        for entry in (
            (1, 6, 0xFFFFFFFF), (2, 4, 1234), (4, 4, 0xFFFFFFFF), (16, 4, 0xFFFFFFFF),
            (32, 0, 0xFFFFFFFF),
        )
    )  # fmt: skip
    os.setxattr(root / "noted", "system.posix_acl_access", acl)
    (root / "capable").write_bytes(b"privileged" * 300)
    os.setxattr(root / "capable", "security.capability", CAPABILITY)
    os.mkfifo(root / "fifo")
    os.mknod(root / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(root / "socket"))
    for folder, folders, _ in os.walk(root, topdown=False):
        for name in folders:
            os.utime(Path(folder) / name, ns=(10**18, 10**18 + len(name)))


@dataclass(frozen=True)
class Scene:
    """An image before and after its trees were removed, and what the kernel said of them."""

    before: Path
    after: Path
    tree: dict[str, Node]


@pytest.fixture(scope="module")
def scene(needs_kernel: None, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Removed after another mount, so that all had been written to the disk."""
    folder = tmp_path_factory.mktemp("trees")
    disk = Disk(folder, "-J", "size=4")
    with disk.mounted() as root:
        make_tree(root / "tree")
        make_repository(root / "repository")
        (root / "replaced").mkdir()
        (root / "replaced" / "note").write_bytes(b"first" * 900)
        sync(root)
        (root / "replaced" / "new").write_bytes(b"second" * 900)
        (root / "replaced" / "new").rename(root / "replaced" / "note")
        sync(root)
        tree = nodes(root / "tree")
    before = folder / "before"
    shutil.copyfile(disk.image, before)
    with disk.mounted() as root:
        shutil.rmtree(root / "tree")
        shutil.rmtree(root / "repository")
        shutil.rmtree(root / "replaced")
    return Scene(before, disk.image, tree)


def manifest(out: Path) -> dict[str, dict[str, Any]]:
    """The records of an output folder, by what they are of."""
    return {record["path"]: record for record in read_records(out) if record["path"]}


Restore = Callable[..., Path]


@pytest.fixture(params=["recover", "extract"])
def restored(request: pytest.FixtureRequest, scene: Scene, ext4kit: Cli, tmp_path: Path) -> Restore:
    """Calls the command with words for `--restore`; the output folder."""

    def call(*words: str) -> Path:
        out = tmp_path / "-".join(("out", *words)).replace(",", "-")
        options = ["-o", out, *(("--restore", ",".join(words)) if words else ())]
        first = [scene.after] if request.param == "recover" else [scene.before, "/"]
        done = ext4kit(request.param, *first, *options)
        assert done.returncode in (0, 1), done.stderr
        return out

    return call


MADE = ("file", "directory", "symlink")


@pytest.fixture
def all_names(request: pytest.FixtureRequest) -> None:
    """Of a file with several names, a mount that overwrites the log leaves the last one alone."""
    if request.node.callspec.params["restored"] == "recover" and not HERE.log_goes_on:
        pytest.skip("this kernel's mount overwrites the names of links in the log")


@pytest.mark.usefixtures("all_names")
@pytest.mark.skipif(not IS_ROOT, reason="owners and trusted attributes need root")
def test_everything_that_the_kernel_shows_comes_back(scene: Scene, restored: Restore) -> None:
    found = nodes(restored(EVERYTHING) / "files" / "tree")
    assert found == {name: one for name, one in scene.tree.items() if one.kind in MADE}


def test_by_default_modes_and_times_come_back_and_no_privilege(
    scene: Scene, restored: Restore
) -> None:
    out = restored()
    found, records = nodes(out / "files" / "tree"), manifest(out)
    expected = {name: one for name, one in scene.tree.items() if one.kind == "file"}
    assert {name for name, one in found.items() if one.kind == "file"} >= {
        name for name in expected if name not in ("one", "two", "empty/three")
    }
    for name, one in found.items():
        assert one.mode == scene.tree[name].mode & ~0o6000, name
        assert one.mtime == scene.tree[name].mtime, name
        assert one.target is None and not one.xattrs, name
        missed = [each["what"] for each in records[f"/tree/{name}"]["not_restored"]]
        assert missed == ["privileges"] * bool(scene.tree[name].mode & 0o6000), name
        assert records[f"/tree/{name}"]["restored"] == ["mode", "times"], name


def test_none_gives_the_bytes_alone(scene: Scene, restored: Restore) -> None:
    out, mask = restored("none"), os.umask(0)
    os.umask(mask)
    for name, one in nodes(out / "files" / "tree").items():
        if one.kind == "file":
            assert one.mode == 0o666 & ~mask, name
            assert one.content == scene.tree[name].content, name
            assert one.mtime > 10**18 + 10**17, name


def test_setuid_needs_its_word_and_the_owner(restored: Restore) -> None:
    for words in (("owner",), ("privileges",), ("all",)):
        for one in nodes(restored(*words) / "files" / "tree").values():
            assert not one.mode & 0o6000
            assert "security.capability" not in one.xattrs


def test_devices_and_sockets_are_recorded_and_never_made(restored: Restore) -> None:
    out = restored(EVERYTHING)
    assert {one.kind for one in nodes(out).values()} <= set(MADE)
    records = manifest(out)
    for name in ("fifo", "device", "socket"):
        assert records[f"/tree/{name}"]["output"] is None


def test_a_restored_repository_works(restored: Restore) -> None:
    repository = restored("links,folders") / "files" / "repository"
    checked = git(repository, "fsck", "--full", "--strict")
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    assert git(repository, "log", "--format=%s").stdout == "second\nfirst\n"
    assert git(repository, "status", "--porcelain").stdout == ""


@pytest.mark.usefixtures("all_names")
def test_the_manifest_names_each_link(restored: Restore) -> None:
    records = manifest(restored("links"))
    assert records["/tree/shared/link 2"]["link_target"] == OUTSIDE
    assert records["/tree/shared/link 2"]["output"] == "files/tree/shared/link 2"
    assert records["/tree/shared/link 2"]["restored"] == ["links", "times"]
    assert not Path(OUTSIDE).exists()
    outputs = {f"files/tree/{name}" for name in ("one", "two", "empty/three")}
    named = [records[path] for path in records if path.split("/")[-1] in ("one", "two", "three")]
    told = {one["output"] for one in named}
    told |= {each for one in named for each in one.get("hard_links", ())}
    assert told == outputs


def test_a_file_that_was_replaced_is_not_in_the_tree(
    scene: Scene, ext4kit: Cli, tmp_path: Path
) -> None:
    done = ext4kit("recover", scene.after, "/replaced", "-o", tmp_path / "out")
    assert done.returncode in (0, 1), done.stderr
    there = tmp_path / "out" / "files" / "replaced"
    assert [path.name for path in there.iterdir()] == ["note"]
    assert (there / "note").read_bytes() == b"second" * 900
    earlier = tmp_path / "out" / "earlier" / "replaced" / "note"
    assert earlier.read_bytes() == b"first" * 900
