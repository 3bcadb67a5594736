"""Finds indicators by a table of rules; each has a reason, but no verdict."""

from ext4kit.triage.suspicions.rules import RULES, Rule, Trait, Weight
from ext4kit.triage.suspicions.search import Indicator, Sighting, find_indicators
from ext4kit.triage.suspicions.story import StoryStep

__all__ = [
    "RULES",
    "Rule",
    "Sighting",
    "Indicator",
    "StoryStep",
    "Trait",
    "Weight",
    "find_indicators",
]
