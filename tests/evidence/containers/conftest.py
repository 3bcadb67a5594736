"""One packed sample and what the commands say of it, to be held against every container."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ext4kit.cli.main import run as run_command
from sample_images.recipes import machine
from sample_images.recipes.score import OWN, read_records
from tests.conftest import Images
from tests.environment.kernel import missing_for_kernel

SAMPLE = "rm_rf_tree"
PHRASE = "correct horse"
LUKS1_HEADER = 2 << 20  # bytes in front of the content, as cryptsetup lays it out

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def sample(unpacked: Images) -> Path:
    """The sample as a raw image."""
    return unpacked(SAMPLE).image


@pytest.fixture(scope="module")
def tool() -> Tool:
    """Run a tool and give what it said; skip the test where the tool is not installed."""

    def call(*command: str | Path) -> str:
        if shutil.which(str(command[0]), path=machine.SYSTEM_PATH) is None:
            pytest.skip(f"needs {command[0]}")
        return machine.run(*command).decode(errors="replace")

    return call


@pytest.fixture(scope="module")
def luks1(tool: Tool, sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample in LUKS1: a header of cryptsetup's, the content encrypted by qemu-img.

    qemu-img counts for a header how often a hash can be made in a second of processor time, and
    gives up when the first count takes less than the system's clock for that can tell.
    """
    folder = tmp_path_factory.mktemp("luks1")
    disk, key = folder / "disk", folder / "key"
    key.write_text(PHRASE)
    with disk.open("xb") as file:
        file.truncate(LUKS1_HEADER + sample.stat().st_size)
    tool("cryptsetup", "luksFormat", "-q", "--type", "luks1", "--key-file", key,
         "--pbkdf-force-iterations", "1000", disk)  # fmt: skip
    tool("qemu-img", "convert", "--object", f"secret,id=s,file={key}", "-n", "-f", "raw", sample,
         "--target-image-opts", f"driver=luks,key-secret=s,file.driver=file,file.filename={disk}"
         )  # fmt: skip
    return disk


@pytest.fixture
def password(tmp_path: Path) -> Path:
    """A file with the pass phrase in its first line."""
    path = tmp_path / "password"
    path.write_text(f"{PHRASE}\nmore\n")
    return path


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A file with nothing but the pass phrase."""
    path = tmp_path / "key"
    path.write_text(PHRASE)
    return path


@pytest.fixture
def loop() -> Iterator[Callable[[Path], Path]]:
    """Attach files to loop devices, detached at the end; skip where that is not allowed."""
    if reason := missing_for_kernel():
        pytest.skip(reason)
    attached: list[str] = []

    def attach(path: Path) -> Path:
        attached.append(machine.run("losetup", "-f", "--show", path).decode().strip())
        return Path(attached[-1])

    yield attach
    for device in attached:
        machine.run("losetup", "-d", device)


@dataclass(frozen=True, slots=True)
class Answers:
    """What three commands say of a file system.

    Attributes:
        listing: lines of `ls -r -l --json`.
        verdict: lines of `verify --json`.
        manifest: of `recover`.
        digest: of every file that it wrote, with its name.
    """

    listing: str
    verdict: str
    manifest: str
    digest: str


def _anywhere(record: dict[str, Any]) -> dict[str, Any]:
    """A manifest record without what says where on the disk its evidence lies."""
    return {name: value for name, value in record.items() if name != "evidence"}


@pytest.fixture(scope="session")
def told() -> dict[Path, Answers]:
    """What raw images said, asked once."""
    return {}


@pytest.fixture
def same_answers(
    answers: Callable[..., Answers], told: dict[Path, Answers], sample: Path
) -> Callable[..., None]:
    """Assert that an image says what the sample says as a raw image."""

    def check(image: Path, *options: str | Path) -> None:
        if sample not in told:
            told[sample] = answers(sample)
        assert answers(image, *options) == told[sample]

    return check


@pytest.fixture
def answers(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Answers]:
    """Ask an image, in any container."""

    def ask(image: Path, *options: str | Path) -> Answers:
        more = [str(option) for option in options]

        def said(*arguments: str) -> str:
            capsys.readouterr()
            assert run_command([arguments[0], str(image), *arguments[1:], *more]) == 0
            return "".join(
                line
                for line in capsys.readouterr().out.splitlines(keepends=True)
                if json.loads(line).get("record") != "problem"
            )

        out = tmp_path_factory.mktemp("recovered")
        listing, verdict = said("ls", "-r", "-l", "--json"), said("verify", "--json")
        said("recover", "-o", str(out), "--json")
        found = hashlib.sha256()
        for path in sorted(each for each in out.rglob("*") if each.is_file()):
            if path.name in OWN:  # times and places are in these
                continue
            found.update(f"{path.relative_to(out)}\0".encode() + path.read_bytes())
        manifest = "\n".join(json.dumps(_anywhere(record)) for record in read_records(out))
        shutil.rmtree(out)
        return Answers(listing, verdict, manifest, found.hexdigest())

    return ask
