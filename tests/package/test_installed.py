"""What an installation brings: the program, its types, manual pages, completion."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

from ext4kit import __version__
from ext4kit.cli.manual.__main__ import RELEASED
from tests.environment import ROOT
from tests.package.conftest import Installed

COMPLETIONS = {
    "bash": "bash-completion/completions/ext4kit",
    "zsh": "zsh/site-functions/_ext4kit",
    "fish": "fish/vendor_completions.d/ext4kit.fish",
}
# What each shell is told: load the script, then say what there is for `ext4kit recov`.
BASH = """
source {script} || exit 1
COMP_WORDS=(ext4kit recov) COMP_CWORD=1
$(complete -p ext4kit | sed 's/.*-F \\([^ ]*\\).*/\\1/') ext4kit recov ext4kit || exit 2
echo "${{COMPREPLY[@]}}"
"""
ZSH = """
fpath=({folder} $fpath)
autoload -U compinit && compinit -u -D || exit 1
[[ $_comps[ext4kit] == _ext4kit ]] || exit 2
_describe() {{ print -r -- ${{${{(P)3}}%%:*}} }}
words=(ext4kit recov) CURRENT=2
compadd() {{ }}
_ext4kit
"""
FISH = "source {script}; or exit 1; complete --do-complete 'ext4kit recov'"


def below(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.heavy
def test_pages_and_scripts_are_where_the_platform_looks(installed: Installed) -> None:
    shipped = below(ROOT / "share")
    assert {"man/man1/ext4kit-recover.1", *COMPLETIONS.values()} <= shipped.keys()
    found = below(installed.share)
    assert {name: found.get(name) for name in shipped} == shipped


@pytest.mark.heavy
def test_two_builds_of_the_wheel_have_the_same_bytes(tmp_path: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git repository")
    digests = set()
    for number in range(2):
        source = tmp_path / f"source-{number}"
        for name in filter(None, listed.stdout.decode().split("\0")):
            if not name.startswith(("sample_images/packed", "docs/")) and (ROOT / name).is_file():
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, source / name)  # with another time
        words: list[str | Path] = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
        words += ["--no-build-isolation", "--wheel-dir", tmp_path / str(number), "."]
        env = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
        subprocess.run(words, cwd=source, check=True, env=env)
        (wheel,) = (tmp_path / str(number)).iterdir()
        digests.add(hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert len(digests) == 1


@pytest.mark.heavy
def test_the_checker_is_beside_the_program(installed: Installed) -> None:
    source = ROOT / "tools/ext4check.py"
    assert (installed.share / "ext4kit/ext4check.py").read_bytes() == source.read_bytes()


def test_every_file_of_the_package_is_installed(installed: Installed) -> None:
    def named(folder: Path) -> set[str]:
        return {name for name in below(folder) if "__pycache__" not in name}

    assert named(installed.site / "ext4kit") == named(ROOT / "ext4kit")
    assert (installed.site / "ext4kit/py.typed").is_file()


def test_the_program_runs_and_says_its_version(installed: Installed, tmp_path: Path) -> None:
    done = subprocess.run(
        [installed.program, "--version"], capture_output=True, env=installed.environment,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout.decode().split() == ["ext4kit,", "version", __version__], done.stderr
    known = distributions(name="ext4kit", path=[str(installed.site)])
    assert [each.version for each in known] == [__version__]


def test_the_changelog_has_this_version_and_the_day_of_its_manual_pages() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{__version__}] - {RELEASED}\n" in changes
    assert changes.index("## [Unreleased]\n") < changes.index(f"## [{__version__}]")


@pytest.mark.skipif(not shutil.which("man") or sys.platform == "win32", reason="needs man")
def test_man_shows_a_page_without_warnings(installed: Installed) -> None:
    environment = {**os.environ, "LC_ALL": "C", "MANPAGER": "cat", "MANWIDTH": "80"}
    folder = installed.share / "man"
    done = subprocess.run(
        ["man", "-M", folder, "ext4kit-recover"], capture_output=True, text=True, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    text = re.sub(".\b", "", done.stdout)
    assert text.startswith("EXT4KIT-RECOVER(1)")
    assert "recover deleted files into a folder" in text


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("shell", "command", "script"),
    [
        ("bash", ("bash", "--norc", "-c"), BASH),
        ("zsh", ("zsh", "-f", "-c"), ZSH),
        ("fish", ("fish", "--no-config", "-c"), FISH),
    ],
    ids=["bash", "zsh", "fish"],
)
def test_a_shell_loads_its_script_and_completes(
    installed: Installed, shell: str, command: tuple[str, ...], script: str, tmp_path: Path
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    path = installed.share / COMPLETIONS[shell]
    text = script.format(script=path, folder=path.parent)
    environment = installed.environment | {"HOME": str(tmp_path)}
    done = subprocess.run([*command, text], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[:1] == ["recover"]
