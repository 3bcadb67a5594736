"""The complete check: runs all parts in order."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ext4kit.filesystem import FileSystem
from ext4kit.filesystem.prefetch import BackgroundCall
from ext4kit.verify.context import InodesInUse, VerifyContext
from ext4kit.verify.directories import check_directories
from ext4kit.verify.findings import Findings
from ext4kit.verify.groups import check_groups
from ext4kit.verify.inodes import check_inodes
from ext4kit.verify.links import check_links
from ext4kit.verify.others import check_others, find_orphans
from ext4kit.verify.superblocks import check_superblocks
from ext4kit.verify.usage import check_quota, check_usage
from ext4kit.verify.xattrs import check_blocks, check_values


@dataclass(frozen=True)
class Verification:
    """Result of a check.

    Attributes:
        findings: the findings.
        inodes, directories, blocks: number of inodes in use, of directories among these inodes, and
            of blocks in use.
    """

    findings: Findings
    inodes: int
    directories: int
    blocks: int

    @property
    def is_clean(self) -> bool:
        """Whether there are no findings except notes."""
        return not self.findings.wrong


def verify(fs: FileSystem) -> Verification:
    """Check all checksums and cross-references of a file system, read-only."""
    context = VerifyContext(fs)
    check_superblocks(context)
    check_groups(context)
    find_orphans(context)
    gathered = check_inodes(context)
    facts = InodesInUse.concat(gathered.facts)
    gathered.facts.clear()
    check_blocks(context)
    aside = replace(context, findings=Findings())
    usage = BackgroundCall(lambda facts: check_usage(aside, facts), facts)
    links = check_directories(context, facts, gathered.directories)
    check_links(context, facts, links)
    check_values(context, facts, gathered.values)
    check_others(context)
    check_quota(context)
    blocks = usage.wait()
    context.findings.take(aside.findings)
    directories = sum(len(piece.table) for piece in gathered.directories)
    return Verification(context.findings, len(facts.number), directories, blocks)
