"""What a responder has to know of a file system first: facts collected once, for any renderer."""

from ext4kit.summary.collecting import Extent, Summary, summarize
from ext4kit.summary.facts import (
    Activity,
    Bins,
    Deletions,
    DiskMap,
    Health,
    Identity,
    LogFacts,
    Standing,
    Use,
)
from ext4kit.summary.suspicions import RULES, Rule, Sighting, Suspicion, Weight

__all__ = [
    "RULES",
    "Activity",
    "Bins",
    "Deletions",
    "DiskMap",
    "Extent",
    "Health",
    "Identity",
    "LogFacts",
    "Rule",
    "Sighting",
    "Standing",
    "Summary",
    "Suspicion",
    "Use",
    "Weight",
    "summarize",
]
