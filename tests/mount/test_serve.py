"""What is served over WebDAV is what the kernel's mount and the other commands show."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import signal
import stat
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest

from sample_images import unpack
from tests.cli.test_other_systems import GO, LESS
from tests.conftest import Cli, Images
from tests.filesystem import matrix
from tests.mount.recovered import recovered_files
from tests.mount.serving import SPACE, Resource, Serving, served
from tests.mount.test_live import by_kernel

NAME = "rm_rf_tree"
FILE = b"/live/keep/odd names/two words.txt"
LENGTH = 1 << 20  # bytes that are compared at the start and at the end of a file
SHARE = 20
MEMORY = 250 << 10  # KiB
COMBINATIONS = ("default", "inline_data", "ext3_1k", "unreplayed")


@pytest.fixture(scope="module")
def sample(unpacked: Images) -> Iterator[Serving]:
    """A sample, served once for all tests that only read."""
    with served(unpacked(NAME).image) as serving:
        yield serving


def _lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _births(root: Path) -> dict[bytes, int]:
    """Creation times in seconds, as the kernel has them; 0 for none."""
    words = r"find . -mindepth 1 -print0 | xargs -0 stat --printf '%n\0%W\0'"
    said = subprocess.run(["sh", "-c", words], cwd=root, capture_output=True, check=True).stdout
    parts = said.split(b"\0")
    return {path[2:]: int(text) for path, text in zip(parts[::2], parts[1::2], strict=False)}


@pytest.mark.kernel
@pytest.mark.heavy
@pytest.mark.parametrize("name", COMBINATIONS)
def test_every_live_file_is_as_the_kernel_shows_it(name: str, tmp_path: Path) -> None:
    built = matrix.built(name)
    with by_kernel(built, tmp_path) as root, served(built.image) as serving:
        births = _births(root)
        found = {each.path[6:].rstrip(b"/"): each for each in serving.below(b"/live/")}
        assert found.keys() == births.keys()
        for row, (path, each) in enumerate(found.items()):
            whole = os.fsencode(root) + b"/" + path
            seen = os.lstat(whole)
            assert each.is_folder == stat.S_ISDIR(seen.st_mode), path
            assert each.modified == seen.st_mtime_ns // 10**9, path
            made = each.values.get("{DAV:}creationdate")
            seconds = 0 if made is None else int(datetime.fromisoformat(made).timestamp())
            assert seconds == births[path], path
            if row % SHARE == 0 or not path.startswith(b"directories/"):  # thousands, all alike
                _check_content(serving, each, whole, seen)


def _check_content(serving: Serving, each: Resource, whole: bytes, seen: os.stat_result) -> None:
    if stat.S_ISREG(seen.st_mode):
        assert each.size == seen.st_size, each.path
        for offset in {0, max(seen.st_size - LENGTH, 0)} if seen.st_size else ():
            with open(whole, "rb") as file:  # noqa: PTH123
                file.seek(offset)
                expected = file.read(LENGTH)
            given = {"Range": f"bytes={offset}-{offset + LENGTH - 1}"}
            assert serving.get(each.path, given).body == expected, each.path
    elif stat.S_ISLNK(seen.st_mode):
        assert serving.get(each.path).body == os.readlink(whole), each.path  # noqa: PTH115
        assert each.values["{DAV:}getcontenttype"] == "inode/symlink"
    elif not each.is_folder:
        assert (each.size, serving.get(each.path).status) == (None, 403), each.path


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["rm_rf_tree", "power_cut", "removed_on_5_10"])
def test_deleted_files_are_those_that_recover_writes(
    name: str, unpacked: Images, ext4kit: Cli, tmp_path: Path
) -> None:
    image = unpacked(name).image
    written = recovered_files(ext4kit, image, tmp_path / "out")
    with served(image) as serving:
        found = serving.digests(b"/deleted/")
        carved = serving.digests(b"/unallocated/carved/")
    expected = sorted(str(one["sha256"]) for one in written if one["first_block"] is None)
    assert written
    assert sorted(found.values()) == expected
    contents = {str(one["sha256"]) for one in written if one["first_block"] is not None}
    assert contents <= set(carved.values())


def test_properties_tell_what_is_known_of_a_deleted_file(
    sample: Serving, ext4kit: Cli, unpacked: Images
) -> None:
    image = unpacked(NAME).image
    said = ext4kit("deleted", image, "--json", "--sources", "journal").stdout.splitlines()
    records = {one["path"]: one for line in said if (one := json.loads(line)).get("path")}
    file = next(each for each in sample.below(b"/deleted/") if each.path.endswith(b".db"))
    record = records[file.path.removeprefix(b"/deleted").decode()]
    assert file.values[SPACE + "grade"] == record["grade"]
    assert file.values[SPACE + "deleted"] == record["deleted_at_iso"]
    assert record["sources"]["inode"] in file.values[SPACE + "sources"]
    assert SPACE + "sha256" not in file.values
    body = b'<propfind xmlns="DAV:"><prop><sha256 xmlns="urn:ext4kit:"/></prop></propfind>'
    (asked,) = sample.listed(file.path, "0", body)
    assert asked.values == {
        SPACE + "sha256": hashlib.sha256(sample.get(file.path).body).hexdigest()
    }


def test_names_alone_of_properties_have_no_values(sample: Serving) -> None:
    (found,) = sample.listed(FILE, "0", b'<propfind xmlns="DAV:"><propname/></propfind>')
    assert SPACE + "sha256" in found.values
    assert "{DAV:}getetag" in found.values
    assert not any(found.values.values())


def test_earlier_trees_and_versions_are_those_that_the_commands_write(
    sample: Serving, unpacked: Images, ext4kit: Cli, tmp_path: Path
) -> None:
    image = unpacked(NAME).image
    last = sorted(each.path for each in sample.listed(b"/as-of/")[1:])[-1]
    for folder in (last, b"/as-of/0s/"):
        when = folder.split(b"/")[2].decode()
        out = tmp_path / when
        ext4kit("extract", image, "/", "-o", out, "--as-of", when)
        expected = {
            str(one["path"]).strip("/").encode(): one["sha256"]
            for one in _lines(out / "manifest.jsonl")
            if one.get("sha256") and one["type"] == "file" and "\\" not in str(one["path"])
        }
        found = sample.digests(folder)
        assert expected
        assert {path: found.get(path) for path in expected} == expected
    assert sample.get(b"/as-of/no time/").status == 404
    versions = next(each for each in sample.below(b"/versions/") if each.path.endswith(b"/1"))
    inside = versions.path.removeprefix(b"/versions").removesuffix(b"/1")
    ext4kit("versions", image, inside.decode(), "-o", tmp_path / "versions")
    records = _lines(tmp_path / "versions" / "manifest.jsonl")
    digests = sorted(str(one["sha256"]) for one in records if one.get("sha256"))
    assert sorted(sample.digests(b"/versions" + inside).values()) == digests


def test_documents_are_what_the_commands_print(
    sample: Serving, unpacked: Images, ext4kit: Cli
) -> None:
    said = ext4kit("journal", "list", unpacked(NAME).image, "--json").stdout.encode()
    assert sample.get(b"/metadata/journal.jsonl").body == said
    sizes = {each.path: each.size for each in sample.listed(b"/metadata/")}
    assert sizes[b"/metadata/journal.jsonl"] == len(said)


def test_ranges_are_parts_of_the_file(sample: Serving) -> None:
    whole = sample.get(FILE)
    size, tag = len(whole.body), whole.headers["etag"]
    assert whole.headers["accept-ranges"] == "bytes"
    parts = {"0-0": (0, 1), "5-99": (5, 100), "100-": (100, size), "-7": (size - 7, size),
             f"{size - 3}-{size + 99}": (size - 3, size)}  # fmt: skip
    for text, (start, end) in parts.items():
        found = sample.get(FILE, {"Range": f"bytes={text}"})
        assert (found.status, found.body) == (206, whole.body[start:end]), text
        assert found.headers["content-range"] == f"bytes {start}-{end - 1}/{size}"
    assert sample.get(FILE, {"Range": f"bytes={size}-"}).status == 416
    assert sample.get(FILE, {"Range": "bytes=0-4", "If-Range": tag}).status == 206
    assert sample.get(FILE, {"Range": "bytes=0-4", "If-Range": '"other"'}).status == 200
    assert sample.get(FILE, {"If-None-Match": tag}).status == 304
    head = sample.request("HEAD", FILE)
    assert (head.status, head.headers["content-length"], head.body) == (200, str(size), b"")


def test_tags_and_times_are_the_same_in_each_run(sample: Serving, unpacked: Images) -> None:
    def seen(serving: Serving) -> list[Resource]:
        return [each for path in (b"/live/", b"/deleted/") for each in serving.below(path)]

    with served(unpacked(NAME).image) as other:
        assert seen(other) == seen(sample)


def test_a_system_with_less_serves_the_same(sample: Serving, unpacked: Images) -> None:
    with served(unpacked(NAME).image, program=("-c", LESS + GO)) as other:
        for path in (b"/live/", b"/deleted/"):
            assert list(other.below(path)) == list(sample.below(path))
            assert other.digests(path) == sample.digests(path) != {}
        journal = b"/metadata/journal.jsonl"
        assert other.get(journal, {"Range": "bytes=9-99"}).body == sample.get(journal).body[9:100]
        assert other.end(signal.SIGTERM) == 0


def test_many_readers_at_once_get_the_same(unpacked: Images) -> None:
    with served(unpacked(NAME).image) as serving, ThreadPoolExecutor(8) as pool:
        roots = [b"/live/", b"/deleted/"] * 4
        found = list(pool.map(serving.digests, roots))
    assert found[0] and found[1]
    assert found == found[:2] * 4


def test_each_volume_has_a_folder(tmp_path: Path) -> None:
    sample = unpack("ext3", tmp_path).image
    image, size, start = tmp_path / "two.img", sample.stat().st_size, 1 << 20
    with image.open("wb") as file:
        file.truncate(start + 2 * size + (1 << 20))
        for place in (start, start + size):
            file.seek(place)
            file.write(sample.read_bytes())
    table = "label: dos\n" + "".join(
        f"start={place >> 9}, size={size >> 9}\n" for place in (start, start + size)
    )
    subprocess.run(["sfdisk", "-q", image], input=table.encode(), check=True)
    with served(image) as serving:
        folders = [each.path for each in serving.listed(b"/")[1:]]
        assert [path[1:8] for path in folders] == [b"volume-"] * 2
        one, other = (serving.digests(path + b"live/") for path in folders)
        assert one == other != {}


@pytest.mark.heavy
def test_a_large_file_takes_little_memory(tmp_path: Path) -> None:
    (folder := tmp_path / "source").mkdir()
    with (folder / "large").open("wb") as file:
        file.truncate(400 << 20)
        file.seek(350 << 20)
        file.write(b"end")
    image = tmp_path / "large.img"
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", folder, image, "500M"], check=True)
    with served(image) as serving:
        connection = http.client.HTTPConnection("127.0.0.1", serving.port, timeout=60)
        known = {"Authorization": serving.basic(serving.user, serving.password)}
        connection.request("GET", "/live/large", headers=known)
        answer, digest = connection.getresponse(), hashlib.sha256()
        while piece := answer.read(LENGTH):
            digest.update(piece)
        with (folder / "large").open("rb") as file:
            assert digest.digest() == hashlib.file_digest(file, "sha256").digest()
        status = Path(f"/proc/{serving.process.pid}/status").read_text()
        assert int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) < MEMORY
