"""Without the libraries of the extras: what needs one says which, everything else works."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ext4kit.cli.main import COMMANDS
from tests.case.making import made_case
from tests.environment import ROOT
from tests.evidence.containers.conftest import Tool
from tests.mount.mounting import missing as missing_for_mounts

LIBRARIES = {  # extra: what it brings
    "artifacts": "artifacts",
    "browse": "textual",
    "cluster": "distributed",
    "luks": "cryptography",
    "mount": "mfusepy",
    "search": "hyperscan",
    "serve": "wsgidav",
    "yara": "yara_x",
    "zstd": "zstandard",
}
PACKAGES = {"yara": "yara-x"}  # names for pip that differ from those of the modules
ELSEWHERE = {"all", "dev", "docs", "fuzz", "mutation"}  # extras that no command asks for
ENDLESS = {"serve", "cluster"}  # extras of commands that end by a signal, or need a scheduler
RUN = """
import sys
sys.modules.update(dict.fromkeys(name.replace("-", "_") for name in {hidden!r}))
from ext4kit.cli.main import run
sys.exit(max(map(run, {commands!r})))
"""


def run_without(
    hidden: Sequence[str], *commands: Sequence[str | Path]
) -> subprocess.CompletedProcess[str]:
    """The worst exit code of some commands, in a process that cannot import what is hidden."""
    words = [[str(word) for word in command] for command in commands]
    code = RUN.format(hidden=tuple(hidden), commands=words)
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=ROOT)


@pytest.fixture
def artifacts(sample: Path) -> tuple[str | Path, ...]:
    """Counts files of artifact definitions."""
    return ("artifacts", sample)


@pytest.fixture
def cluster(sample: Path, tmp_path: Path) -> tuple[str | Path, ...]:
    """Gives the jobs of a case to a scheduler."""
    case = made_case(tmp_path / "case", sample)
    return ("case", "run", "-q", "--case", case, "--scheduler", "tcp://127.0.0.1:9")


@pytest.fixture
def luks(tool: Tool, tmp_path: Path, key: Path) -> tuple[str | Path, ...]:
    """Shows an encrypted volume and what is in it."""
    path = tmp_path / "luks.img"
    with path.open("xb") as file:
        file.truncate(20 << 20)
    options = ("--type", "luks2", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000")
    tool("cryptsetup", "luksFormat", "-q", *options, "--key-file", key, path)
    return ("volumes", path, "--key-file", key)


@pytest.fixture
def mount(sample: Path, tmp_path: Path) -> Iterator[tuple[str | Path, ...]]:
    """Mounts in the background."""
    if reason := missing_for_mounts():
        pytest.skip(reason)
    (folder := tmp_path / "views").mkdir()
    yield ("mount", sample, folder, "--daemon", "-q")
    subprocess.run(["fusermount3", "-u", folder], check=False)


@pytest.fixture
def search(sample: Path) -> tuple[str | Path, ...]:
    """Searches for a regular expression."""
    return ("search", sample, "--regex", "[0-9]{4}", "--count")


@pytest.fixture
def serve(sample: Path) -> tuple[str | Path, ...]:
    """Serves until it is interrupted."""
    return ("serve", sample)


@pytest.fixture
def yara(sample: Path, tmp_path: Path) -> tuple[str | Path, ...]:
    """Applies a YARA rule."""
    path = tmp_path / "rules.yar"
    path.write_text("rule each { condition: filesize > 0 }")
    return ("search", sample, "--yara", path, "--count", "--in", "live")


@pytest.fixture
def zstd(tool: Tool, sample: Path, tmp_path: Path) -> tuple[str | Path, ...]:
    """Reads a QCOW2 with Zstandard."""
    path = tmp_path / "zstd.img"
    options = ("-c", "-O", "qcow2", "-o", "compression_type=zstd")
    tool("qemu-img", "convert", "-f", "raw", *options, sample, path)
    return ("info", path)


def test_every_extra_that_a_command_can_ask_for_is_known_here() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert extras.keys() - ELSEWHERE == LIBRARIES.keys()
    assert extras["all"] == [f"ext4kit[{','.join(LIBRARIES)}]"]
    assert "ext4kit[all,docs]" in extras["dev"]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("artifacts", "artifact definitions"),
        ("cluster", "a cluster"),
        ("luks", "LUKS"),
        ("mount", "a mount"),
        ("search", "a search for more than a few texts"),
        ("serve", "a WebDAV server"),
        ("yara", "a search by YARA rules"),
        ("zstd", "zstd.img: QCOW2 with Zstandard"),
    ],
)
def test_what_needs_an_extra_says_so_in_one_line(
    name: str, what: str, request: pytest.FixtureRequest
) -> None:
    command = request.getfixturevalue(name)
    if name not in ENDLESS:
        assert run_without((), command).returncode == 0
    done = run_without((LIBRARIES[name],), command)
    package = PACKAGES.get(name, LIBRARIES[name])
    text = f"{what} needs the package {package}: pip install 'ext4kit[{name}]'\n"
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("ext4kit: ")
    assert done.stderr.endswith(text)


def test_slurm_needs_a_package_of_its_own(sample: Path, tmp_path: Path) -> None:
    command = ("case", "run", "--case", made_case(tmp_path / "case", sample), "--slurm", "1")
    for hidden, package in (("dask_jobqueue", "dask-jobqueue"), ("cryptography", "cryptography")):
        done = run_without((hidden,), command)
        text = f"Slurm needs the package {package}: pip install 'ext4kit[cluster]'\n"
        assert (done.returncode, done.stdout, done.stderr[-len(text) :]) == (3, "", text)
        assert done.stderr.count("\n") == 1


def test_an_encrypted_volume_is_listed_without_its_library(
    luks: tuple[str | Path, ...],
) -> None:
    done = run_without(tuple(LIBRARIES.values()), luks[:2])
    assert done.returncode == 0
    assert "crypto_LUKS (2)" in done.stdout


@pytest.mark.heavy
def test_every_command_works_without_any(sample: Path, tmp_path: Path) -> None:
    commands: list[tuple[str | Path, ...]] = [
        ("report", sample, "--html", tmp_path / "report.html"),
        ("volumes", sample),
        ("hash", sample),
        ("info", sample),
        ("ls", "-r", "-l", sample),
        ("stat", sample, "/"),
        ("cat", sample, "<8>"),
        ("extract", sample, "/", "-o", tmp_path / "extracted"),
        ("deleted", sample),
        ("explain", sample, "<14>"),
        ("versions", sample, "/keep/odd names/two words.txt"),
        ("recover", sample, "-o", tmp_path / "recovered"),
        ("scan", sample, "-o", tmp_path / "sample.scan"),
        ("verify", sample),
        ("crosscheck", sample, "--hashes"),
        ("journal", "audit", sample),
        ("export", sample, "--db", tmp_path / "case.sqlite"),
        ("timeline", sample),
        ("packages", sample, "--list"),
        ("search", sample, "--text", "e"),
        ("search", sample, "--text", "e", "--inside"),
        ("who", sample, "100"),
        ("blocks", sample, "--slack", "-o", tmp_path / "slack"),
        ("logs", sample),
        ("roots", sample),
        ("rules", "--on", sample),
        ("schema", "file"),
        ("completion", "zsh"),
    ]
    assert {command[0] for command in commands} == COMMANDS.keys() - {
        "artifacts", "browse", "case", "mount", "serve",
    }  # fmt: skip
    done = run_without(tuple(LIBRARIES.values()), *commands)
    assert (done.returncode, "needs the package" in done.stderr) == (0, False), done.stderr
