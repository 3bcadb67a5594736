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
            "tests/lost", "tests/carving", "tests/filetypes",
        ),
    ),
    "journal": Package(("ext4kit/journal",), ("tests/journal",)),
    "grading": Package(
        (
            f"{_RECOVERY}/grading",
            *(f"{_RECOVERY}/{name}.py" for name in
              ("attribution", "block_uses", "content", "discarded", "journal_content", "losses")),
            *(f"ext4kit/history/{name}.py" for name in ("journal_gaps", "live_copy", "writes")),
        ),
        (
            "tests/history", "tests/recovery/grading",
            *(f"tests/recovery/test_{name}.py" for name in
              ("attribution", "block_uses", "traps", "path_traps", "undelete", "unrecorded",
               "discarded", "discard_report", "discard_rules")),
            "tests/lost",
        ),
    ),
}  # fmt: skip
