"""Collects what the rules look at, and finds the signs of a file system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ext4kit.known.files import KnownFiles
from ext4kit.recovery import DeletedFiles
from ext4kit.timeline import Timeline
from ext4kit.triage.rules.rule import Rule
from ext4kit.triage.suspicions.log_lines import removed_lines
from ext4kit.triage.suspicions.packaged import compare_packages
from ext4kit.triage.suspicions.search import Indicator, earlier_versions, find_indicators
from ext4kit.units import ProgressStep
from ext4kit.workspace import Workspace
from ext4kit.zones import UTC, Zone


@dataclass(frozen=True, slots=True)
class SignOptions:
    """Which signs to look for.

    Attributes:
        rules: the rules, from `own_rules` or `read_rules`.
        most: maximum number of sightings per rule.
        disguises: descriptions of parts of the image that can be read in two ways.
        bad: lists of known bad files.
        zone: of times in log lines that state none.
        packages: also compare packaged files with the database of packages.
    """

    rules: Sequence[Rule]
    most: int
    disguises: Sequence[str] = ()
    bad: KnownFiles | None = None
    zone: Zone = UTC
    packages: bool = True


def find_signs(
    workspace: Workspace,
    deleted: DeletedFiles,
    timeline: Timeline,
    options: SignOptions,
    step: ProgressStep,
) -> tuple[Indicator, ...]:
    """All rules that matched, strong rules first.

    Args:
        workspace: of the file system.
        deleted: its deleted files.
        timeline: its events.
        options: which signs.
        step: called with a title before each long step.
    """
    removed = removed_lines(workspace, timeline, step, options.zone)
    with step("comparing packaged files") as show:
        packaged = compare_packages(workspace, options.packages, show)
    with step("looking for signs"):
        return find_indicators(
            workspace.fs, options.rules, deleted, timeline, options.most, options.disguises,
            options.bad, removed, earlier_versions(workspace, options.rules), packaged.sightings,
            packaged.unchanged,
        )  # fmt: skip
