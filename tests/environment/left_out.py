"""The closing block of a run: what was left out, why, and the line that brings it in."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest

from tests.environment import package_of

_UNIX = ("fcntl", "grp", "pty", "pwd", "resource", "termios")
_FETCH = "python -m sample_images.kernels --fetch 6.12"
_HINTS = {
    "slow": "make test-all",
    "heavy, of": "make test-all",
    "heavy": "make test",
    **{f"needs {name}": "Linux or macOS" for name in _UNIX},
    "needs root, ": "sudo make test",
    "needs root": f"sudo make test, or as a user: {_FETCH}",
    "needs loop": f"{_FETCH}, or a machine with loop devices",
    "needs a kernel": _FETCH,
    "e2fsprogs' cases": "python -m tests.cases fetch",
}


def absent_tool(error: BaseException | None) -> str:
    """The reason to leave a test out when a tool that it started is not here, or ""."""
    while error is not None:
        if isinstance(error, FileNotFoundError) and isinstance(error.filename, str):
            command = error.filename
            if "/" not in command and package_of(command) and shutil.which(command) is None:
                return f"needs {command}"
        error = error.__cause__ or error.__context__
    return ""


def absent_module(caught: pytest.ExceptionInfo[BaseException] | None) -> str:
    """The module of Unix alone whose absence made an import fail, or ""."""
    error = caught.value if caught else None
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name in _UNIX:
            return error.name
        error = error.__cause__ or error.__context__
    return ""


def show(reporter: pytest.TerminalReporter) -> None:
    """Write the block; nothing where nothing that could run was left out."""
    reasons = Counter(_reason(report) for report in reporter.stats.get("skipped", []))
    lacking = {reason: count for reason, count in reasons.items() if _hint(reason)}
    if not lacking:
        return
    reporter.section(f"left out: {sum(lacking.values())} tests")
    for reason, count in sorted(lacking.items(), key=lambda one: -one[1]):
        reporter.write_line(f"{count:5}  {reason}  ->  {_hint(reason)}")


def _reason(report: pytest.TestReport) -> str:
    said = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    return said.removeprefix("Skipped: ")


def _hint(reason: str) -> str:
    """The line that brings tests in; "" where a test does not apply to what it was given."""
    for start, hint in _HINTS.items():
        if reason.startswith(start):
            return hint
    if not reason.startswith("needs "):
        return ""
    commands = reason.removeprefix("needs ").split(", ")
    return f"apt-get install {' '.join(package_of(name) or name for name in commands)}"
