"""Mutation testing: what share of small wrong changes to the program the tests notice."""

from __future__ import annotations

from dataclasses import dataclass

from tests.environment import ROOT

FOLDER = ROOT / "build" / "mutation"


@dataclass(frozen=True, slots=True)
class Package:
    """What is mutated together, and the tests that have to notice.

    Attributes:
        sources: files and folders of the program.
        tests: files and folders; the first ones are its own.
    """

    sources: tuple[str, ...]
    tests: tuple[str, ...]


_RECOVERY = "ext4kit/recovery"
PACKAGES = {
    "parsers": Package(
        ("ext4kit/parsers",),
        (
            "tests/parsers", "tests/evidence", "tests/journal", "tests/verify",
            "tests/recovery/lost", "tests/recovery/carving",
        ),
    ),
    "journal": Package(("ext4kit/journal",), ("tests/journal",)),
    "grading": Package(
        (
            *(f"{_RECOVERY}/{name}.py" for name in
              ("doubts", "unseen", "unrecorded", "ages", "seams", "unreadable", "columns",
               "ownership", "discarded")),
            f"{_RECOVERY}/lost/strangers.py",
            *(f"ext4kit/past/{name}.py" for name in ("breaks", "live_copy", "writes")),
        ),
        (
            "tests/past",
            *(f"tests/recovery/test_{name}.py" for name in
              ("ages", "columns", "doubts", "ownership", "seams", "traps", "path_traps",
               "undelete", "unrecorded", "unrecorded_rules", "unseen", "discarded",
               "discard_report", "discard_rules")),
            "tests/recovery/lost",
        ),
    ),
}  # fmt: skip
