"""What a responder should look at, by a table of rules, each with its reason; no verdicts."""

from ext4kit.triage.suspicions.rules import RULES, Rule, Trait, Weight
from ext4kit.triage.suspicions.search import Indicator, Sighting, find_indicators

__all__ = ["RULES", "Rule", "Sighting", "Indicator", "Trait", "Weight", "find_indicators"]
