"""Deleted files, versions and earlier times in a mount are what the commands write."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ext4kit.recovery.tree_paths import CARVED
from tests.conftest import Cli, Images
from tests.filesystem import matrix
from tests.mount.mounting import Mount, missing, mounted
from tests.mount.recovered import recovered_files
from tests.views.test_slack_view import needs_tools, slack_image

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
SAMPLES = ("rm_rf_tree", "power_cut", "ext3", "removed_on_5_10")


def _digests(root: Path) -> dict[str, str]:
    """SHA-256 of every regular file that can be read to its end, by path."""
    return {
        str(path.relative_to(root)): digest
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink() and (digest := _digest(path))
    }


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _attribute(path: Path, name: str) -> str:
    return os.getxattr(path, f"user.ext4kit.{name}", follow_symlinks=False).decode()


def _lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.heavy
@pytest.mark.parametrize("name", SAMPLES)
def test_deleted_files_are_those_that_recover_writes(
    name: str, unpacked: Images, ext4kit: Cli, tmp_path: Path
) -> None:
    image = unpacked(name).image
    written = recovered_files(ext4kit, image, tmp_path / "out")
    with mounted(image) as mount:
        found = _digests(mount.root / "deleted")
        carved = _digests(mount.root / "unallocated" / "carved")
    assert written
    expected = sorted(str(one["sha256"]) for one in written if one["first_block"] is None)
    assert sorted(found.values()) == expected
    for one in written:
        path = one["path"]
        if isinstance(path, str) and one["first_block"] is None and "\\" not in path:
            names = [key for key in found if f"/{key}".partition("~")[0] == path.partition("~")[0]]
            assert one["sha256"] in {found[key] for key in names}, path
    contents = {str(one["sha256"]) for one in written if one["first_block"] is not None}
    assert contents <= set(carved.values())


def test_attributes_tell_what_is_known_of_a_deleted_file(unpacked: Images, ext4kit: Cli) -> None:
    image = unpacked("rm_rf_tree").image
    said = ext4kit("deleted", image, "--json", "--sources", "journal").stdout.splitlines()
    records = [one for line in said if (one := json.loads(line)).get("path")]
    with mounted(image) as mount:
        path = next(p for p in sorted((mount.root / "deleted").rglob("*.db")) if p.is_file())
        inside = f"/{path.relative_to(mount.root / 'deleted')}"
        record = next(one for one in records if one["path"] == inside)
        assert _attribute(path, "grade") == record["grade"]
        assert _attribute(path, "deleted") == record["deleted_at_iso"]
        assert record["sources"]["inode"] in _attribute(path, "sources")
        assert _attribute(path, "sha256") == _digest(path)
        assert "user.ext4kit.sha256" not in os.listxattr(path)
        seen = path.lstat()
        assert (seen.st_mode, seen.st_uid, seen.st_gid) == (
            record["mode"], record["uid"], record["gid"]
        )  # fmt: skip
        assert (seen.st_mtime_ns, seen.st_atime_ns) == (record["mtime"], record["atime"])


def test_versions_are_those_that_the_command_writes(
    unpacked: Images, ext4kit: Cli, tmp_path: Path
) -> None:
    image = unpacked("rm_rf_tree").image
    with mounted(image) as mount:
        folders = [p for p in sorted((mount.root / "versions").rglob("*")) if (p / "1").is_file()]
        assert len(folders) > 10
        for number, folder in enumerate(folders[::9]):
            out = tmp_path / str(number)
            inside = f"/{folder.relative_to(mount.root / 'versions')}"
            ext4kit("versions", image, inside, "-o", out)
            records = [one for one in _lines(out / "manifest.jsonl") if one.get("sha256")]
            assert sorted(_digests(folder).values()) == sorted(str(r["sha256"]) for r in records)


def _is_plain(path: str) -> bool:
    """Whether a record has the path as it is: it is UTF-8, and has nothing like an escape."""
    return "\\" not in path and not any(0xDC80 <= ord(each) <= 0xDCFF for each in path)


def _times(mount: Mount) -> list[str]:
    """Names of times below `as-of`: commits, transactions, moments between commits, spans."""
    listed = sorted(path.name for path in (mount.root / "as-of").iterdir())
    assert listed
    records = _lines(mount.root / "metadata/journal.jsonl")
    found = [f"tid-{one['transaction']}" for one in records if one["record"] == "transaction"]
    between = [f"{name[:19]}.{tenth}Z" for name in listed for tenth in range(1, 10)]
    return [*listed[-6:], "0s", "1s", *found[-6:], *between[::-1]]


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["rm_rf_tree", "power_cut"])
def test_earlier_trees_are_those_that_the_commands_tell(
    name: str, unpacked: Images, ext4kit: Cli, tmp_path: Path
) -> None:
    image = unpacked(name).image
    with mounted(image) as mount:
        as_of = mount.root / "as-of"
        times = _times(mount)
        seen = 0
        for number, time in enumerate(times):
            if seen == 20:
                break
            out, when = tmp_path / str(number), time.removeprefix("tid-")
            listed = ext4kit("ls", image, "-r", "--as-of", when, "--json").stdout.splitlines()
            if not listed:  # the journal does not go back so far
                assert not (as_of / time).exists()
                continue
            seen += 1
            paths = {str(one["path"]) for one in map(json.loads, listed) if "path" in one}
            shown = {f"/{path.relative_to(as_of / time)}" for path in (as_of / time).rglob("*")}
            assert set(filter(_is_plain, paths)) == set(filter(_is_plain, shown))
            ext4kit("extract", image, "/", "-o", out, "--as-of", when)
            records = [one for one in _lines(out / "manifest.jsonl") if one.get("sha256")]
            assert records
            found = _digests(as_of / time)
            expected = {str(r["path"]).strip("/"): r["sha256"] for r in records
                        if r["type"] == "file" and "\\" not in str(r["path"])}  # fmt: skip
            assert {path: found.get(path) for path in expected} == expected
        assert seen > 12
        assert not (as_of / "tid-99999").exists()
        assert not (as_of / "no time").exists()


def test_documents_are_what_the_commands_print(unpacked: Images, ext4kit: Cli) -> None:
    image = unpacked("rm_rf_tree").image
    commands = {
        "superblock.json": ("info",), "timeline.jsonl": ("timeline",),
        "journal.jsonl": ("journal", "list"),
    }  # fmt: skip
    with mounted(image) as mount:
        for name, words in commands.items():
            path = mount.root / "metadata" / name
            assert path.read_text() == ext4kit(*words, image, "--json").stdout
            assert path.stat().st_size == len(path.read_bytes())


def test_unallocated_runs_have_the_bytes_of_their_blocks(unpacked: Images) -> None:
    image = unpacked("rm_rf_tree").image
    with mounted(image) as mount:
        runs = sorted((mount.root / "unallocated").glob("block-*"))
        assert runs
        block_size = os.statvfs(mount.root).f_bsize
        data = image.read_bytes()
        for path in runs:
            first, last = map(int, path.name.split("-")[1:])
            assert path.read_bytes() == data[first * block_size : (last + 1) * block_size]
        assert CARVED.decode()[1:] not in os.listdir(mount.root / "deleted")  # noqa: PTH208


def test_numbers_of_files_are_the_same_in_each_mount(unpacked: Images) -> None:
    image = unpacked("ext3").image

    def numbers(mount: Mount) -> list[tuple[bytes, int]]:
        words: list[str | Path] = ["find", mount.root, "-printf", "%P %i\n"]
        said = subprocess.run(words, capture_output=True, check=True).stdout
        return sorted((line.rpartition(b" ")[0], int(line.split()[-1])) for line in
                      said.splitlines() if line[-1:].isdigit())  # fmt: skip

    with mounted(image) as first, mounted(image) as second:
        assert numbers(first) == numbers(second)


@needs_tools
def test_slack_has_the_rest_of_each_file(tmp_path: Path) -> None:
    image, expected = slack_image(tmp_path)
    with mounted(image) as mount:
        slack = mount.root / "slack"
        found = {str(path.relative_to(slack)): path for path in slack.rglob("*") if path.is_file()}
        assert {path: each.read_bytes() for path, each in found.items()} == expected != {}
        for path, each in found.items():
            owner = (mount.root / "live" / path).stat()
            assert (each.stat().st_mode, each.stat().st_mtime) == (owner.st_mode, owner.st_mtime)


def _partly_reused(image: Path) -> tuple[bytes, int]:
    """An image in which a file was deleted and its first blocks are another file's by now.

    Returns:
        (the content of `/file`, bytes of it that were reused).
    """
    data, reused = os.urandom(64 << 10), 40 << 10
    image.touch()
    os.truncate(image, 8 << 20)
    matrix.run("mke2fs -q -t ext4 -b 1024 -O has_journal", image)
    with matrix.mounted(image, "commit=600") as root:
        device = matrix.run("findmnt -no SOURCE", root).strip().rpartition("/")[2]
        Path(f"/sys/fs/ext4/{device}/reserved_clusters").write_text("0")
        (root / "file").write_bytes(data)
        matrix.run("sync -f", root)
        with suppress(OSError), (root / "rest").open("wb") as rest:
            while rest.write(b"r" * 1024):
                rest.flush()
        matrix.run("sync -f", root)
        time.sleep(0.05)  # commits of one tick of the kernel's clock cannot be told apart by time
        (root / "file").unlink()
        matrix.run("sync -f", root)  # no other block is free now
        (root / "new").write_bytes(b"n" * reused)
    return data, reused


@pytest.mark.kernel
def test_what_is_lost_of_a_file_is_an_error_and_the_rest_is_read(tmp_path: Path) -> None:
    image = tmp_path / "reused.img"
    data, reused = _partly_reused(image)
    with mounted(image) as mount:
        times = sorted((mount.root / "as-of").iterdir())
        as_of = [path for path in times if (path / "file").exists()][-1]
        (number,) = (path for path in (mount.root / "versions/file").iterdir())
        for path in (as_of / "file", mount.root / "deleted/file", number):
            assert path.stat().st_size == len(data)
            with path.open("rb", buffering=0) as file:
                file.seek(reused)
                assert file.read() == data[reused:], path
                for offset in (0, reused - 4096):
                    file.seek(offset)
                    with pytest.raises(OSError, match="Input/output error"):
                        file.read(1)
            assert _attribute(path, "grade") == "partial"
        assert "40 of 64 blocks" in _attribute(as_of / "file", "reasons")
        assert _attribute(as_of / "rest", "grade") in ("consistent", "intact")
