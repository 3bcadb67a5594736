"""The audit of a log: verdicts on all blocks, including stale laps, and the result of a replay."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.audit.claims import claims, find_breaks, judge_copies
from ext4kit.audit.damage import (
    PARTS_OF_KINDS,
    FindingBuilder,
    tell_breaks,
    tell_copies,
    tell_metadata,
)
from ext4kit.audit.fast_commits import tell_fast_commits
from ext4kit.audit.result import PARTS, Audit, AuditFindings, Part, VerdictCounts, Verdicts
from ext4kit.audit.rules import (
    find_gaps,
    tell_escapes,
    tell_revokes,
    tell_tags,
    tell_times,
    tell_transactions,
)
from ext4kit.audit.superblock import check_superblock, tell_refusal
from ext4kit.audit.survey import Survey, survey
from ext4kit.journal.log import Log
from ext4kit.journal.replay import replay

if TYPE_CHECKING:
    from ext4kit.filesystem import FileSystem


def audit(fs: FileSystem) -> Audit:
    """Check the log of a file system opened without a replay; a failure does not stop the check.

    Errors that prevent reading the log become problems of `fs`.
    """
    findings, tally = AuditFindings(), VerdictCounts()
    readable = check_superblock(fs, findings, tally)
    log = Log.open(readable)
    if log is None:
        return Audit(findings, tally)
    tell_refusal(log, findings)
    result = audit_log(log, findings, tally)
    as_it_is = log if readable is fs else Log.open(fs)
    return result if as_it_is is None else replace(result, replayed=replay(as_it_is, fs))


def audit_log(log: Log, findings: AuditFindings, tally: VerdictCounts) -> Audit:
    """Check a log except for its superblock; results go to `findings` and `tally`."""
    places, found = FindingBuilder(log, findings), survey(log)
    metadata = tell_metadata(places, found, tally)
    copies = judge_copies(log, found, claims(log, found))
    tell_copies(places, copies, tally)
    tell_breaks(places, found, find_breaks(log, found), tally)
    tell_tags(places, found)
    tell_escapes(places, found, copies)
    tell_revokes(places, found)
    tell_transactions(places, log.transactions, tally)
    tell_times(places, log.transactions)
    tell_fast_commits(places, tally)
    verdicts = _verdicts(log, found, metadata, copies)
    return Audit(findings, tally, log, find_gaps(found), verdicts)


def _verdicts(log: Log, found: Survey, metadata: Int64s, copies: Int64s) -> Verdicts:
    part = np.full(len(found), PARTS.index(Part.DESCRIPTOR))
    for kind, its_part in PARTS_OF_KINDS.items():
        part[found.kind == kind] = PARTS.index(its_part)
    tags = log.tags
    return Verdicts(
        part=np.concatenate([part, np.full(len(tags), PARTS.index(Part.COPY))]),
        position=np.concatenate([found.position, tags.position]),
        order=np.concatenate([found.order, tags.order]),
        target=np.concatenate([np.full(len(found), -1), tags.block]),
        verdict=np.concatenate([metadata, copies]),
    )
