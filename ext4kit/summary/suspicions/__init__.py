"""What a responder should look at, by a table of rules, each with its reason; no verdicts."""

from ext4kit.summary.suspicions.rules import RULES, Rule, Trait, Weight
from ext4kit.summary.suspicions.search import Sighting, Suspicion, find_suspicions

__all__ = ["RULES", "Rule", "Sighting", "Suspicion", "Trait", "Weight", "find_suspicions"]
