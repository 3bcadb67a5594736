"""The findings of `verify` as text and as records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypedDict

from ext4kit.problems import Severity
from ext4kit.verify import CODES, Finding, Verification
from ext4kit.verify.findings import FindingFacts

_ORDER = list(Severity)


def verify_lines(result: Verification) -> Iterator[str]:
    """The findings, the number of each code, and a verdict."""
    findings = result.findings
    for finding in findings.kept:
        yield from _finding_lines(finding)
    if findings.counts:
        from ext4kit.report.tables import table_lines

        if findings.kept:
            yield ""
        worst = sorted(
            findings.counts, key=lambda code: (-_ORDER.index(CODES[code].severity), code)
        )
        rows = [(str(CODES[code].severity), code, f"{findings.counts[code]:,}") for code in worst]
        yield from table_lines(("severity", "finding", "count"), rows, right={2})
        yield ""
    yield (
        f"{result.inodes:,} inodes in use, {result.directories:,} of them directories; "
        f"{result.blocks:,} blocks in use"
    )
    wrong = findings.wrong
    yield f"{wrong:,} finding{'s' * (wrong != 1)}" if wrong else "no defect found"


def _finding_lines(finding: Finding) -> Iterator[str]:
    places = {name: getattr(finding, name) for name in ("group", "inode", "block")}
    where = [f"{name} {value}" for name, value in places.items() if value is not None]
    where += [] if finding.byte is None else [f"byte {finding.byte:,}"]
    place = f" ({', '.join(where)})" if where else ""
    yield f"{finding.severity}: {finding.code}: {finding.structure}{place}"
    if finding.read or finding.expected:
        expected = f", expected {finding.expected}" if finding.expected else ""
        yield f"    read {finding.read or '-'}{expected}"
    yield f"    {finding.meaning}"


class VerifySummary(TypedDict):
    """Summary of `verify`."""

    record: Literal["summary"]
    clean: bool
    findings: dict[str, int]
    inodes: int
    directories: int
    blocks: int


class FindingRecord(FindingFacts):
    """Finding of `verify`."""

    record: Literal["finding"]


def verify_records(result: Verification) -> Iterator[FindingRecord | VerifySummary]:
    """A record for each finding, then a summary."""
    for finding in result.findings.kept:
        yield {"record": "finding", **finding.as_record()}
    yield {
        "record": "summary",
        "clean": result.is_clean,
        "findings": result.findings.counts,
        "inodes": result.inodes,
        "directories": result.directories,
        "blocks": result.blocks,
    }
