"""Kernels are fetched from an archive; what is not what the suite names is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sample_images.kernels import KernelError, kernel, kernels_folder, kernels_here
from sample_images.kernels.__main__ import main
from sample_images.kernels.fetching import Mirror, fetch, mirrors
from tests.environment import needs
from tests.kernels.mirror import PROGRAM, RELEASE, make_mirror

pytestmark = needs("apt-get", "dpkg-deb")


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_fetched_kernel_has_program_libraries_and_modules(tmp_path: Path) -> None:
    got = fetch("sid", [make_mirror(tmp_path / "mirror", "sid")])
    assert (got.name, got.release, got.suite) == ("9.3", RELEASE, "sid")
    assert kernel("9.3") == got
    assert (got.folder / "linux").stat().st_mode & 0o777 == 0o755
    assert (got.folder / "lib/ld-linux-x86-64.so.2").read_bytes() == b"loader"
    assert (got.folder / "lib/libc.so.6").read_bytes() == b"library"
    assert (got.modules / "modules.dep").exists()
    assert [path.name for path in kernels_folder().iterdir()] == ["sid"]


def test_the_program_names_the_loader_beside_it(tmp_path: Path) -> None:
    got = fetch("sid", [make_mirror(tmp_path / "mirror", "sid")])
    program = (got.folder / "linux").read_bytes()
    assert len(program) == len(PROGRAM)
    assert b"by lib/ld-linux-x86-64.so.2\0" in program
    assert b"/lib64" not in program


def test_a_package_with_another_checksum_is_refused(tmp_path: Path) -> None:
    mirror = make_mirror(tmp_path / "mirror", "sid")
    package = tmp_path / "mirror/pool/user-mode-linux_1_amd64.deb"
    data = bytearray(package.read_bytes())
    data[-1] ^= 1
    package.write_bytes(data)
    _assert_refused("sid", [mirror], "Hash Sum mismatch|unexpected size")


def test_an_index_with_another_checksum_is_refused(tmp_path: Path) -> None:
    mirror = make_mirror(tmp_path / "mirror", "sid")
    index = tmp_path / "mirror/dists/sid/main/binary-amd64/Packages"
    index.write_bytes(index.read_bytes().replace(b"Version: 1", b"Version: 2"))
    _assert_refused("sid", [mirror], "Hash Sum mismatch")


def test_a_suite_that_nobody_signed_is_refused(tmp_path: Path) -> None:
    mirror = make_mirror(tmp_path / "mirror", "sid")
    _assert_refused("sid", [Mirror(mirror.url)], "not signed|Release")


def test_a_suite_that_left_one_mirror_is_taken_from_the_next(tmp_path: Path) -> None:
    other = make_mirror(tmp_path / "other", "sid")
    mirror = make_mirror(tmp_path / "mirror", "bullseye")
    assert fetch("bullseye", [other, mirror]).suite == "bullseye"


def test_a_new_version_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    mirror = make_mirror(tmp_path / "mirror", "sid")
    old = fetch("sid", [mirror])
    (old.folder / "modules" / RELEASE).rename(old.folder / "modules" / "8.1.0")
    assert list(kernels_here()) == ["8.1"]
    fetch("sid", [mirror])
    assert list(kernels_here()) == ["9.3"]


def test_a_program_of_another_kind_is_refused(tmp_path: Path) -> None:
    mirror = make_mirror(tmp_path / "mirror", "sid", b"a script")
    _assert_refused("sid", [mirror], "loader")


def test_a_mirror_is_named_by_the_environment_or_by_the_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DEBIAN_MIRROR", "http://mirror.example/debian")
    assert [one.url for one in mirrors()] == ["http://mirror.example/debian"]
    monkeypatch.delenv("DEBIAN_MIRROR")
    monkeypatch.setattr("platform.freedesktop_os_release", lambda: {"ID": "other"})
    with pytest.raises(KernelError, match="DEBIAN_MIRROR"):
        mirrors()


def _assert_refused(suite: str, places: list[Mirror], why: str) -> None:
    with pytest.raises(KernelError) as caught:
        fetch(suite, places)
    assert re.search(why, str(caught.value))
    assert "\n" not in str(caught.value)
    assert kernels_here() == {}
    assert list(kernels_folder().iterdir()) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["9.9", "--", "true"], "no kernel 9.9 here (none)"),
        (["--fetch", "wheezy"], "wheezy is none of 5.10,"),
        (["6.1"], "no command"),
    ],
)
def test_an_error_is_one_line(
    words: list[str], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 3
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"error: {told}")
    assert said.err.count("\n") == 1
