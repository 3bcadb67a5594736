"""The set of libraries that was tested fits what pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement

from tests.environment import ROOT
from tests.pythons.interpreters import MINORS

CONSTRAINTS = (ROOT / "constraints.txt").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def _entries() -> list[str]:
    """Each entry with its hashes, as one line."""
    lines = [line for line in CONSTRAINTS.splitlines() if not line.startswith("#")]
    return "\n".join(lines).replace("\\\n", " ").splitlines()


def _asked(extras: tuple[str, ...]) -> Iterator[Requirement]:
    """What the project and these extras ask for, extras of its own followed."""
    texts = list(PROJECT["dependencies"])
    texts += [text for extra in extras for text in PROJECT["optional-dependencies"][extra]]
    for one in map(Requirement, texts):
        if one.name == PROJECT["name"]:
            yield from _asked(tuple(sorted(one.extras)))
        else:
            yield one


@pytest.mark.parametrize("minor", MINORS)
def test_each_library_has_one_version_within_its_bounds(minor: int) -> None:
    """For each Python; the file is for all of them."""
    python = {"python_version": f"3.{minor}", "python_full_version": f"3.{minor}.0"}
    pinned: dict[str, Requirement] = {}
    for entry in _entries():
        one = Requirement(entry.split("--hash")[0])
        if one.marker is None or one.marker.evaluate(python):
            assert one.name not in pinned
            pinned[one.name] = one
    for asked in _asked(("dev",)):
        if asked.marker is None or asked.marker.evaluate(python):
            (exact,) = pinned[asked.name].specifier
            assert exact.operator == "==" and exact.version in asked.specifier, asked


def test_each_entry_has_hashes_and_no_place() -> None:
    """A place would be that of one machine."""
    assert len(_entries()) > 50
    assert all(HASH.search(entry) for entry in _entries())
    assert "://" not in CONSTRAINTS and "index-url" not in CONSTRAINTS
