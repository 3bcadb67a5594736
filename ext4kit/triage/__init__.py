"""The summary of a file system for triage: facts collected once, for any renderer."""

from ext4kit.triage.collecting import Triage, TriageOptions, triage
from ext4kit.triage.facts import (
    ActivityStats,
    Bins,
    DeletionStats,
    DiskMap,
    JournalFacts,
    JournalState,
    MapCategory,
)
from ext4kit.triage.rules.rule import Rule, Weight
from ext4kit.triage.suspicions import Indicator, Sighting, StoryStep

__all__ = [
    "ActivityStats",
    "Bins",
    "DeletionStats",
    "DiskMap",
    "TriageOptions",
    "JournalFacts",
    "Rule",
    "Sighting",
    "StoryStep",
    "JournalState",
    "Triage",
    "Indicator",
    "MapCategory",
    "Weight",
    "triage",
]
