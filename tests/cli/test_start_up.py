"""The program starts without what it does not need."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from ext4kit import __version__
from tests.cli.conftest import ROOT, Run

HEAVY = ("numpy", "construct", "rich", "pytsk3")


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["bogus"]])
def test_no_library_is_loaded_before_a_command_needs_it(arguments: list[str]) -> None:
    code = (
        "import sys; from ext4kit.cli.main import run\n"
        f"run({arguments!r})\n"
        f"sys.exit(','.join(name for name in {HEAVY!r} if name in sys.modules) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_info_needs_no_partition_library() -> None:
    code = (
        "import sys; import ext4kit.cli.info, ext4kit.cli.session\n"
        "sys.exit('pytsk3' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@pytest.mark.heavy
@pytest.mark.parametrize("command", ["ls", "deleted", "recover", "search", "who", "timeline"])
def test_logs_and_triage_are_loaded_by_what_needs_them(command: str) -> None:
    code = (
        f"import sys; import ext4kit.cli.{command}\n"
        "sys.exit(','.join(one for one in ('ext4kit.logs', 'ext4kit.triage') if one in sys.modules)"
        " or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", [["info"], ["ls", "-r"], ["verify"]])
def test_a_whole_file_system_is_read_without_construct(arguments: list[str], image: Path) -> None:
    code = (
        "import sys; from ext4kit.cli.main import run\n"
        f"code = run([*{arguments!r}, {str(image)!r}])\n"
        "assert 'construct' not in sys.modules and 'rich' not in sys.modules\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_version(run: Run) -> None:
    assert run("--version").stdout.decode() == f"ext4kit, version {__version__}\n"


@pytest.mark.parametrize("arguments", [("--version", "--verbose"), ("--verbose", "--version")])
def test_versions_of_all_that_is_used(run: Run, arguments: tuple[str, str]) -> None:
    first, *rest = run(*arguments).stdout.decode().splitlines()
    assert first == f"ext4kit, version {__version__}"
    assert rest[0].startswith(f"Python {platform.python_version()} ")
    assert f"numpy {metadata.version('numpy')}" in rest
    assert {"click", "construct", "rich", "pytsk3"} <= {line.split()[0] for line in rest}


def test_verbose_alone_is_refused(run: Run) -> None:
    done = run("--verbose", "schema", "file")
    assert (done.returncode, b"--verbose goes with --version" in done.stderr) == (2, True)
