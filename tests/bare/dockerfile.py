"""Run the Dockerfile's steps in order without a daemon, then the program as its user.

`python -m tests.bare.dockerfile`, as root. Each FROM is a minimal Debian of the image's suite
(debootstrap) with Debian's own Python in place of the image's; each RUN runs in it by chroot, in
the order, directory, environment and with the user of the Dockerfile. Mirror, proxies and
certificates are those of this machine.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from sample_images import unpack
from tests.bare.system import BareError, bootstrap, settings
from tests.environment import ROOT

SAMPLE = "rm_rf_tree"
PYTHON = ("python3", "python3-pip", "python3-venv", "ca-certificates")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The program has to work without a network; a new network namespace has none.
OFFLINE = ("unshare", "--net")
_IMAGE = re.compile(r"python:3[.0-9]*-slim-(?P<suite>[a-z]+)")
_SIDES_OF_A_COPY = 2


@dataclass(slots=True)
class Stage:
    """A stage of the build: its file system and what later steps take over from earlier ones."""

    root: Path
    variables: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    folder: str = "/"
    user: str = "root"
    entry: list[str] = field(default_factory=list)

    def run(self, *command: str, before: tuple[str, ...] = (), reaching: bool = False) -> str:
        """Run a command in the stage and give its standard output.

        Args:
            command: what is run.
            before: what chroot is called by.
            reaching: with the machine's way to mirrors and indexes.
        """
        variables = settings() if reaching else {}
        words = [f"{name}={value}" for name, value in (variables | self.variables).items()]
        inside = f'cd {shlex.quote(self.folder)} && exec "$@"'
        done = subprocess.run(
            [*before, "env", "-i", *words, "chroot", f"--userspec={self.user}", str(self.root),
             "sh", "-c", inside, "sh", *command],
            stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        if done.returncode != 0:
            raise BareError(f"exit code {done.returncode}: {shlex.join(command)}")
        return done.stdout


def _base(suite: str, root: Path) -> None:
    """A minimal Debian with Python under the names that the image has it."""
    bootstrap(suite, root, PYTHON)
    (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    (root / "usr/local/bin/pip").symlink_to("/usr/bin/pip3")


class Build:
    """The stages of a Dockerfile, made one after the other below a work folder."""

    def __init__(self, work: Path) -> None:
        self.stages: dict[str, Stage] = {}
        self._work = work
        self._bases: dict[str, Path] = {}

    @property
    def last(self) -> Stage:
        """The stage that is worked on."""
        return next(reversed(self.stages.values()))

    def do(self, line: str) -> None:
        """One instruction.

        Raises:
            BareError: it fails, or is not known here.
        """
        print(f"== {line}", flush=True)
        word, rest = line.split(maxsplit=1)
        action = getattr(self, f"_{word.lower()}", None)
        if action is None:
            raise BareError(f"{word} is not known here")
        action(rest)

    def _from(self, rest: str) -> None:
        image, *name = re.split(r"\s+AS\s+", rest)
        known = _IMAGE.fullmatch(image)
        if known is None:
            raise BareError(f"{image} is not known here")
        suite = known["suite"]
        if suite not in self._bases:
            self._bases[suite] = self._work / suite
            _base(suite, self._bases[suite])
        label = name[0] if name else str(len(self.stages))
        root = self._work / f"stage-{label}"
        subprocess.run(["cp", "-a", "--reflink=auto", self._bases[suite], root], check=True)
        self.stages[label] = Stage(root)

    def _run(self, rest: str) -> None:
        self.last.run("sh", "-c", rest, reaching=True)

    def _workdir(self, rest: str) -> None:
        (self.last.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        self.last.folder = rest

    def _user(self, rest: str) -> None:
        self.last.user = rest

    def _env(self, rest: str) -> None:
        name, value = rest.split("=", 1)
        earlier = self.last.variables.get(name, "")
        self.last.variables[name] = value.replace(f"${name}", earlier)

    def _entrypoint(self, rest: str) -> None:
        self.last.entry = json.loads(rest)

    def _copy(self, rest: str) -> None:
        """COPY of the context as a whole, or of one folder of another stage."""
        options = [word for word in rest.split() if word.startswith("--")]
        words = [word for word in rest.split() if word not in options]
        if len(words) != _SIDES_OF_A_COPY or len(options) > 1:
            raise BareError("COPY has one source and one target here")
        target = self.last.root / self.last.folder.lstrip("/") / words[1]
        if words[1].startswith("/"):
            target = self.last.root / words[1].lstrip("/")
        if options:
            other = self.stages[options[0].removeprefix("--from=")]
            source = other.root / words[0].lstrip("/")
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
            return
        context = ROOT / words[0]
        shutil.copytree(context, target, symlinks=True, dirs_exist_ok=True, ignore=_ignored)


def _ignored(folder: str, names: list[str]) -> set[str]:
    """What .dockerignore leaves out, of patterns of the forms `*`, `!NAME` and `**/NAME`."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    everywhere = [line.removeprefix("**/") for line in patterns if line.startswith("**/")]
    kept = {line[1:] for line in patterns if line.startswith("!")}
    found = {name for name in names if any(fnmatch(name, each) for each in everywhere)}
    if Path(folder) == ROOT and "*" in patterns:
        found |= {name for name in names if name not in kept}
    return found


def instructions(text: str) -> list[str]:
    """The Dockerfile's lines, continued ones joined, without comments."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    return [line.strip() for line in joined.splitlines() if line.strip()]


@contextmanager
def _evidence(root: Path, folder: Path) -> Iterator[None]:
    """A sample at /evidence/disk.img, mounted to read only."""
    image = unpack(SAMPLE, folder).image
    target = root / "evidence/disk.img"
    target.parent.mkdir()
    target.touch()
    subprocess.run(["mount", "--bind", image, target], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", target], check=True)
        yield
    finally:
        subprocess.run(["umount", target], check=True)


def check(stage: Stage, work: Path) -> None:
    """The program of the last stage as its user, without a network, on evidence to read only.

    Raises:
        BareError: it does not bring the sample's files back, or is not as it should be.
    """
    if stage.user == "root" or stage.run("id", "-u").strip() == "0":
        raise BareError("the program would run as root")
    if (stage.root / "src").exists():
        raise BareError("the last stage has the sources")
    print(stage.run(*stage.entry, "--version", before=OFFLINE).strip())
    stage.run("python", "-c", "import cryptography, zstandard", before=OFFLINE)
    with _evidence(stage.root, work):
        command = ("recover", "/evidence/disk.img", "-o", "/out/recovered")
        print(stage.run(*stage.entry, *command, before=OFFLINE).strip())
    lines = (stage.root / "out/recovered/manifest.jsonl").read_text().splitlines()
    grades = [json.loads(line)["grade"] for line in lines]
    if "intact" not in grades:
        raise BareError(f"no file came back intact: {grades}")


def main() -> int:
    """Build and check; the exit code is 1 when a step fails."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="ext4kit-docker-") as folder:
        build = Build(Path(folder))
        try:
            for line in instructions(text):
                build.do(line)
            check(build.last, Path(folder))
        except (BareError, subprocess.CalledProcessError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        program = build.last.root / "opt/ext4kit"
        files = (path for path in program.rglob("*") if path.is_file() and not path.is_symlink())
        size = sum(path.stat().st_size for path in files) >> 20
    print(f"all steps done; /opt/ext4kit takes {size} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
