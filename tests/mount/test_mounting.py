"""A mount begins, ends and refuses as it should, whatever is done to it."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sample_images import unpack
from tests.conftest import Cli, Images
from tests.environment import ROOT
from tests.mount.mounting import ENVIRONMENT, missing, mounted

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
NAME = "rm_rf_tree"


def _is_mounted(folder: Path) -> bool:
    return str(folder) in Path("/proc/self/mounts").read_text()


@pytest.fixture(params=[signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def number(request: pytest.FixtureRequest) -> Iterator[int]:
    """A signal that the program does not ignore, as it would in a run in the background."""
    former = signal.signal(request.param, signal.SIG_DFL)
    yield request.param
    signal.signal(request.param, former)


def test_a_signal_unmounts(number: int, unpacked: Images) -> None:
    with mounted(unpacked(NAME).image) as mount:
        assert (mount.root / "live").is_dir()
        assert mount.end(number) == 0
        assert not _is_mounted(mount.root)
        assert "internal error" not in mount.errors.read_text()


def test_a_signal_ends_a_mount_that_is_read(unpacked: Images) -> None:
    with mounted(unpacked(NAME).image) as mount:
        path = mount.root / "live/keep/odd names/two words.txt"
        reader = subprocess.Popen(["sh", "-c", 'sleep 60 < "$0"', path])
        try:
            time.sleep(0.5)
            assert mount.end() == 0
            assert not _is_mounted(mount.root)
        finally:
            reader.kill()
            reader.wait()


def test_fusermount_ends_the_program(unpacked: Images) -> None:
    with mounted(unpacked(NAME).image) as mount:
        subprocess.run(["fusermount3", "-u", mount.root], check=True)
        assert mount.process.wait(30) == 0


def test_a_daemon_goes_on_alone(unpacked: Images, tmp_path: Path) -> None:
    (folder := tmp_path / "views").mkdir()
    words: list[str | Path] = [
        sys.executable,
        "-m",
        "ext4kit",
        "mount",
        unpacked(NAME).image,
        folder,
        "--daemon",
    ]
    done = subprocess.run(words, capture_output=True, env=ENVIRONMENT, cwd=ROOT, timeout=60)
    try:
        assert (done.returncode, done.stdout) == (0, b"")
        assert done.stderr.startswith(b"note: mounted at ")
        assert (folder / "live/keep").is_dir()
    finally:
        subprocess.run(["fusermount3", "-u", folder], check=True)
    assert not _is_mounted(folder)


def test_a_daemon_that_cannot_mount_says_so(tmp_path: Path) -> None:
    (folder := tmp_path / "views").mkdir()
    (image := tmp_path / "none.img").write_bytes(bytes(1 << 20))
    words: list[str | Path] = [sys.executable, "-m", "ext4kit", "mount", image, folder, "--daemon"]
    done = subprocess.run(words, capture_output=True, env=ENVIRONMENT, cwd=ROOT, timeout=60)
    assert done.returncode == 3
    assert done.stderr.count(b"\n") == 1


def test_places_that_cannot_be_used_are_refused(
    unpacked: Images, ext4kit: Cli, tmp_path: Path
) -> None:
    image = unpacked(NAME).image
    (tmp_path / "full/file").mkdir(parents=True)
    (tmp_path / "file").write_text("")
    cases = {"none": "no such directory", "full": "not empty", "file": "not a directory"}
    for name, text in cases.items():
        done = ext4kit("mount", image, tmp_path / name)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert text in done.stderr
    with mounted(image) as mount:
        done = ext4kit("mount", image, mount.root)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "mounted there already" in done.stderr


@pytest.mark.kernel
def test_a_place_on_the_evidence_is_refused(unpacked: Images, ext4kit: Cli, tmp_path: Path) -> None:
    from tests.filesystem.matrix import mounted as by_kernel

    image = tmp_path / "own.img"
    shutil.copy(unpacked(NAME).image, image)
    with by_kernel(image) as root:
        (root / "views").mkdir()
        done = ext4kit("mount", image, root / "views")
        assert (done.returncode, done.stderr.count("on the evidence itself")) == (2, 1)


def test_the_rest_of_a_killed_program_is_told(
    unpacked: Images, ext4kit: Cli, tmp_path: Path
) -> None:
    image, folder = unpacked(NAME).image, tmp_path / "views"
    folder.mkdir()
    with mounted(image, folder=folder) as mount:
        mount.end(signal.SIGKILL)
        try:
            done = ext4kit("mount", image, folder)
            assert (done.returncode, done.stderr.count("\n")) == (2, 1)
            assert f"`fusermount3 -u {folder}`" in done.stderr
        finally:
            subprocess.run(["fusermount3", "-u", folder], check=True)
    with mounted(image, folder=folder) as mount:
        assert (mount.root / "live/keep").is_dir()


def test_nothing_can_be_written(unpacked: Images) -> None:
    image = unpacked(NAME).image
    before = hashlib.sha256(image.read_bytes()).digest()
    with mounted(image) as mount:
        path = mount.root / "live/keep/odd names/two words.txt"
        for change in (
            lambda: path.write_text("x"), path.unlink, lambda: path.chmod(0o777),
            (mount.root / "new").mkdir, lambda: os.setxattr(path, "user.x", b"x"),
            lambda: os.utime(path), lambda: path.rename(mount.root / "live/moved"),
            lambda: os.truncate(path, 0), lambda: (mount.root / "link").symlink_to("x"),
        ):  # fmt: skip
            with pytest.raises(OSError, match="Read-only file system"):
                change()
        options = next(
            line.split()[3] for line in Path("/proc/self/mounts").read_text().splitlines()
            if line.split()[1] == str(mount.root)
        )  # fmt: skip
        assert {"ro", "nosuid", "nodev", "noexec"} <= set(options.split(","))
        assert "allow_other" not in options
    assert hashlib.sha256(image.read_bytes()).digest() == before


def test_many_readers_at_once_get_the_same(unpacked: Images) -> None:
    def digest(root: Path) -> str:
        words = "find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum"
        done = subprocess.run(["sh", "-c", words], cwd=root, capture_output=True, check=True)
        return done.stdout.decode()

    with mounted(unpacked(NAME).image) as mount, ThreadPoolExecutor(8) as pool:
        roots = [mount.root / ("live" if number % 2 else "deleted") for number in range(8)]
        found = list(pool.map(digest, roots))
        assert len(set(found)) == 2


def test_a_killed_reader_harms_nobody(unpacked: Images) -> None:
    with mounted(unpacked(NAME).image) as mount:
        for _ in range(5):
            reader = subprocess.Popen(
                ["sh", "-c", "find . -type f -exec cat {} + > /dev/null"], cwd=mount.root
            )
            time.sleep(0.05)
            reader.kill()
            reader.wait()
        assert (mount.root / "live/keep").is_dir()
        assert list((mount.root / "deleted").iterdir())


USER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def _python_of_others() -> str:
    """A Python that another user can run with the libraries of this one; "" for none."""
    for program in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        words = [*USER, program, "-c", "import ext4kit, numpy, mfusepy, click"]
        if not subprocess.run(words, env=ENVIRONMENT, cwd="/", capture_output=True).returncode:
            return program
    return ""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_an_ordinary_user_mounts_and_reads_files_of_root(unpacked: Images) -> None:
    program = _python_of_others()
    if not program:
        pytest.skip("another user cannot run this Python")
    with tempfile.TemporaryDirectory(prefix="ext4kit-others-") as name:
        (folder := Path(name)).chmod(0o755)
        image = Path(shutil.copy(unpacked(NAME).image, folder))
        image.chmod(0o644)
        with mounted(image, program=(*USER, program)) as mount:
            command: list[str | Path] = [
                *USER,
                "find",
                mount.root / "live",
                "-type",
                "f",
                "-exec",
                "cat",
                "{}",
                "+",
            ]
            done = subprocess.run(command, capture_output=True)
            assert (done.returncode, done.stderr) == (0, b"")
            assert done.stdout
            with pytest.raises(PermissionError):  # nobody else is let in, not even root
                (mount.root / "live").stat()
            assert mount.end() == 0
            assert not _is_mounted(mount.root)


def test_each_volume_has_a_folder(tmp_path: Path) -> None:
    sample = unpack("ext3", tmp_path).image
    size = sample.stat().st_size
    image, start = tmp_path / "two.img", 1 << 20
    with image.open("wb") as file:
        file.truncate(start + 2 * size + (1 << 20))
    table = f"label: dos\nstart={start >> 9}, size={size >> 9}\nstart={(start + size) >> 9}, " \
            f"size={size >> 9}\n"  # fmt: skip
    subprocess.run(["sfdisk", "-q", image], input=table.encode(), check=True)
    with image.open("r+b") as file:
        for place in (start, start + size):
            file.seek(place)
            file.write(sample.read_bytes())
    with mounted(image) as mount:
        names = sorted(path.name for path in mount.root.iterdir())
        assert [name.partition("-")[0] for name in names] == ["volume", "volume"]
        one, other = (sorted(p.name for p in (mount.root / name / "live").iterdir())
                      for name in names)  # fmt: skip
        assert one == other != []
    with mounted(image, "--volume", "1") as mount:
        assert sorted(p.name for p in (mount.root / "live").iterdir()) == one


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_others_are_let_in_by_an_ordinary_user_only_if_the_system_permits_it(
    unpacked: Images,
) -> None:
    program = _python_of_others()
    configured = Path("/etc/fuse.conf")
    lines = configured.read_text().splitlines() if configured.exists() else []
    if not program or "user_allow_other" in map(str.strip, lines):
        pytest.skip("another user cannot run this Python, or may let others in")
    with tempfile.TemporaryDirectory(prefix="ext4kit-others-") as name:
        (folder := Path(name)).chmod(0o755)
        image = Path(shutil.copy(unpacked(NAME).image, folder))
        image.chmod(0o644)
        (place := folder / "views").mkdir()
        os.chown(place, 65534, 65534)
        words = [*USER, program, "-m", "ext4kit", "mount", image, place, "--allow-other"]
        done = subprocess.run(list(map(str, words)), env=ENVIRONMENT, cwd="/", capture_output=True,
                              text=True, timeout=60)  # fmt: skip
        own = [line for line in done.stderr.splitlines() if line.startswith("ext4kit:")]
        assert (done.returncode, len(own)) == (1, 1), done.stderr
        assert "user_allow_other" in done.stderr
        assert "/etc/fuse.conf" in done.stderr
        assert not _is_mounted(place)


@pytest.mark.slow
def test_eight_readers_get_the_same_for_a_minute(unpacked: Images) -> None:
    expected: dict[str, str] = {}

    def read(root: Path, end: float) -> int:
        rounds = 0
        while time.monotonic() < end or not rounds:
            for path in sorted(root.rglob("*")):
                if path.is_file() and not path.is_symlink():
                    digest = hashlib.sha256(path.read_bytes()).hexdigest()
                    assert expected.setdefault(str(path), digest) == digest
            rounds += 1
        return rounds

    with mounted(unpacked(NAME).image) as mount, ThreadPoolExecutor(8) as pool:
        trees = ("live", "deleted", "versions", "unallocated")
        end = time.monotonic() + 60
        done = list(pool.map(lambda tree: read(mount.root / tree, end), trees * 2))
        assert min(done) > 0
        assert mount.process.poll() is None
        assert "internal error" not in mount.errors.read_text()
