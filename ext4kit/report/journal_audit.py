"""The audit of a journal as text and as records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from itertools import takewhile
from typing import Annotated, Literal, TypedDict

import numpy as np

from ext4kit import fields
from ext4kit.audit import Audit, AuditFinding, Part, Verdict
from ext4kit.fields import Record
from ext4kit.filesystem import FileSystem
from ext4kit.journal.transactions import TransactionState
from ext4kit.report.journal_replay import replay_facts, replay_lines
from ext4kit.report.tables import table_lines

_HEADINGS = ("part", "checked", "ok", "bad", "cannot be checked", "overwritten")
_PARTS = tuple(Part)
_VERDICTS = tuple(Verdict)


def audit_lines(fs: FileSystem, result: Audit) -> Iterator[str]:
    """Findings, verdicts by part, gaps, recorded states, and the result of a recovery."""
    findings = result.findings
    for finding in findings.kept:
        yield from _finding_lines(finding)
    lost = sum(findings.counts.values()) - len(findings.kept)
    if lost:
        yield f"... and {lost:,} more findings"
    if findings.kept:
        yield ""
    counts = {part: [result.tally.of(part, verdict) for verdict in Verdict] for part in Part}
    rows = [
        (str(part), *(f"{number:,}" for number in (ok + bad, ok, bad, unchecked, overwritten)))
        for part, (ok, bad, unchecked, overwritten) in counts.items()
        if ok or bad or unchecked or overwritten
    ]
    if rows:
        yield from table_lines(_HEADINGS, rows, right={1, 2, 3, 4, 5})
        yield ""
    if result.log is not None:
        yield from _log_lines(result)
    if result.replayed is not None:
        yield from takewhile(bool, replay_lines(replay_facts(fs, result.replayed), result.replayed))
    elif result.log is not None:
        yield _line("Recovery", "impossible: the journal superblock is unusable")
    wrong = findings.wrong
    verdicts = [f"{wrong:,} finding{'s' * (wrong != 1)}"] if wrong else []
    verdicts += [] if result.log is not None else ["the journal could not be read"]
    yield _line("Verdict", "; ".join(verdicts) or "no defect found")


def _finding_lines(finding: AuditFinding) -> Iterator[str]:
    where = [] if finding.transaction is None else [f"transaction {finding.transaction}"]
    where += [f"log block {finding.log_block}", f"block {finding.fs_block}"]
    where.append(f"byte {finding.byte_offset}")
    if finding.target is not None:
        where.append(f"copy of block {finding.target}")
    yield f"{finding.severity}: {finding.code}: {', '.join(where)}"
    if finding.read or finding.expected:
        yield f"    read {finding.read or '-'}, expected {finding.expected or '-'}"
    yield f"    {finding.meaning}"


def _line(label: str, text: str) -> str:
    return f"{label + ':':<15}{text}"


def _log_lines(result: Audit) -> Iterator[str]:
    states = _states(result)
    yield _line("Transactions", ", ".join(f"{count:,} {name}" for name, count in states.items()))
    for gap in result.gaps[:10]:
        what = f"transaction {gap.before} follows {gap.after}, at log block {gap.log_block:,}"
        yield _line("Gap", what)
    if len(result.gaps) > 10:
        yield _line("", f"and {len(result.gaps) - 10:,} more gaps")


def _states(result: Audit) -> dict[str, int]:
    counts = Counter([] if result.log is None else result.log.transactions.state.tolist())
    return {str(state): counts[row] for row, state in enumerate(TransactionState) if counts[row]}


class AuditSummary(TypedDict):
    """Summary of `journal audit`."""

    record: Literal["summary"]
    sound: bool
    findings: dict[str, int]
    states: dict[str, int]
    parts: dict[str, dict[Verdict, int]]


class VerdictRecord(TypedDict):
    """The verdict on a block of the journal (`journal audit --all`)."""

    record: Literal["verdict"]
    part: Part
    log_block: fields.LogBlock
    transaction: fields.Transaction
    target: Annotated[int | None, "Home block of the copy."]
    verdict: Verdict


def audit_records(fs: FileSystem, result: Audit) -> Iterator[Record]:
    """The audit as records: findings, gaps, the replay, a summary."""
    for finding in result.findings.kept:
        yield {"record": "finding", **asdict(finding)}
    for gap in result.gaps:
        yield {"record": "gap", **asdict(gap)}
    if result.replayed is not None:
        yield {"record": "replay", **asdict(replay_facts(fs, result.replayed))}
    summary: AuditSummary = {
        "record": "summary",
        "sound": result.is_sound,
        "findings": result.findings.counts,
        "states": _states(result),
        "parts": {
            str(part): {verdict: result.tally.of(part, verdict) for verdict in Verdict}
            for part in Part
            if part in result.tally.counts
        },
    }
    yield summary


def verdict_records(result: Audit) -> Iterator[VerdictRecord]:
    """A record for each verdict on a single block, in the order of journal blocks."""
    verdicts = result.verdicts
    if verdicts is None:
        return
    rows = np.lexsort((verdicts.order, verdicts.position))
    columns = (verdicts.part, verdicts.position, verdicts.order, verdicts.target, verdicts.verdict)
    values = zip(*(column[rows].tolist() for column in columns), strict=True)
    for part, position, order, target, verdict in values:
        yield {
            "record": "verdict",
            "part": _PARTS[part],
            "log_block": position,
            "transaction": order % (1 << 32),
            "target": None if target < 0 else target,
            "verdict": _VERDICTS[verdict],
        }


def verdict_lines(result: Audit) -> Iterator[str]:
    """Verdicts on single blocks, one per line."""
    for record in verdict_records(result):
        target = "" if record["target"] is None else f" of block {record['target']}"
        where = f"log block {record['log_block']}, transaction {record['transaction']}"
        yield f"{where}: {record['part']}{target}: {record['verdict']}"
