"""The source tarball of e2fsprogs, through apt and as an ordinary user.

apt gets package lists of its own in a folder of the caller's, made from the sources of this machine
with `deb-src` for `deb`: so its mirror, its keys and its proxy are used, and nothing of the system
is changed.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

from tests.cases.tools import PATH, CasesError, ask

SOURCES = Path("/etc/apt")
MINUTES = 5  # for each run of apt-get
TARBALLS = {  # of the versions in Debian
    "e2fsprogs_1.46.2.orig.tar.gz": (
        "f79f26b4f65bdc059fca12e1ec6a3040c3ce1a503fb70eb915bee71903815cd5"
    ),
    "e2fsprogs_1.47.0.orig.tar.gz": (
        "6667afde56eef0c6af26684974400e4d2288ea49e9441bf5e6229195d51a3578"
    ),
    "e2fsprogs_1.47.2.orig.tar.gz": (
        "6dcd67ff9d8b13274ba3f088e4318be4f5b71412cd863524423fc49d39a6371f"
    ),
    "e2fsprogs_1.47.4.orig.tar.gz": (
        "2cec05f39c20ee621f14926195664e66e6017190ac8e4bbdb16d86082e43c5da"
    ),
}
OTHERWISE = "give its source by --tarball FILE or EXT4KIT_E2FSPROGS_TARBALL"

_SETTINGS = """\
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "{folder}/sources";
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
"""


def download(folder: Path, installed: str) -> Path:
    """Let apt fetch the tarball into `folder`, one that is not newer than the tools to ask.

    Raises:
        CasesError: there is no apt-get, no source package, or no way to the mirror.
    """
    if not shutil.which("apt-get", path=PATH):
        raise CasesError(f"apt-get is not installed: {OTHERWISE}")
    settings = _prepare(folder)
    updated = _apt(folder, settings, "apt-get", "update")
    listed = _apt(folder, settings, "apt-cache", "showsrc", "--only-source", "e2fsprogs")
    versions = re.findall(r"^Version: (\S+)", listed.stdout.decode(), re.MULTILINE)
    fitting = [each for each in versions if numbers(each) <= numbers(installed)]
    if not fitting:
        fault = _complaint(updated) or f"none is as old as e2fsprogs {installed}"
        raise CasesError(f"apt-get knows no source package ({fault}): {OTHERWISE}")
    wanted = f"e2fsprogs={max(fitting, key=numbers)}"
    done = _apt(folder, settings, "apt-get", "source", "--download-only", wanted)
    found = [path for path in folder.glob("e2fsprogs_*.orig.tar.*") if path.suffix != ".asc"]
    if len(found) == 1 and (done.returncode == 0 or found[0].name in TARBALLS):
        return found[0]  # a mirror may lack the signature beside it; a known one needs none
    raise CasesError(f"apt-get does not fetch {wanted} ({_complaint(done)}): {OTHERWISE}")


def numbers(version: str) -> tuple[int, ...]:
    """The upstream part of a version, to compare: of `1.47.0-2` 1, 47, 0."""
    found = re.search(r"\d+(\.\d+)+", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def checked(tarball: Path, installed: str) -> str:
    """The SHA-256 of a tarball.

    Raises:
        CasesError: it is not what a tarball of that name is known to be, or newer than the tools:
            a case is there for what an older version does wrong.
    """
    if numbers(tarball.name) > numbers(installed):
        raise CasesError(
            f"{tarball} is newer than the installed e2fsprogs {installed}: {OTHERWISE}"
        )
    with tarball.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if TARBALLS.get(tarball.name, digest) != digest:
        raise CasesError(f"{tarball}: SHA-256 {digest} is not that of {tarball.name}; remove it")
    return digest


def _prepare(folder: Path) -> Path:
    """Lists and settings for an apt of our own; the path of the settings."""
    for name in ("sources", "state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    for path in (SOURCES / "sources.list", *sorted((SOURCES / "sources.list.d").glob("*"))):
        if path.suffix in (".list", ".sources") and path.is_file():
            text = for_sources(path.read_text(errors="replace"))
            (folder / "sources" / path.name).write_text(text)
    settings = folder / "apt.conf"
    settings.write_text(_SETTINGS.format(folder=folder))
    return settings


def for_sources(text: str) -> str:
    """A list of package sources, of either format, that asks for source packages alone."""
    text = re.sub(r"(?m)^\s*deb(-src)?\s.*\bcdrom:.*\n?", "", text)
    text = re.sub(r"(?m)^\s*deb(-src)?(?=\s)", "deb-src", text)
    return re.sub(r"(?mi)^Types:.*$", "Types: deb-src", text)


def _apt(
    folder: Path, settings: Path, program: str, *words: str
) -> subprocess.CompletedProcess[bytes]:
    quietly = ("env", "-C", folder, program, "-qq", "-c", settings)
    try:
        return ask(*quietly, *words, limit=60 * MINUTES)
    except subprocess.TimeoutExpired:
        raise CasesError(f"{program} takes over {MINUTES} minutes: {OTHERWISE}") from None


def _complaint(done: subprocess.CompletedProcess[bytes]) -> str:
    """The first error that apt tells of, or the first warning."""
    said = done.stderr.decode(errors="replace")
    found = re.search(r"(?m)^E: *(.*)", said) or re.search(r"(?m)^W: *(.*)", said)
    return found[1] if found else ""
