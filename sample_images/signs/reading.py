"""The signs that `report` finds in an image."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import ext4kit
from ext4kit.recovery.search_sources import JOURNAL_ONLY
from ext4kit.triage import TriageOptions, Weight, triage

_MOST = 1000


@dataclass(frozen=True, slots=True)
class Sign:
    """A place where a rule matched."""

    code: str
    is_strong: bool
    path: str


def signs_of(image: Path) -> list[Sign]:
    """All signs of an image, without the checks that have nothing to do with rules."""
    extent = TriageOptions(
        sources=JOURNAL_ONLY, verify=False, names=False, rows=_MOST, packages=True
    )
    with ext4kit.open(image) as opened:
        found = triage(opened.volume().filesystem(), extent).suspicions
    return [
        Sign(one.rule.code, one.rule.weight is Weight.STRONG, os.fsdecode(seen.path or b""))
        for one in found
        for seen in one.sightings
    ]
