"""Finds indicators by rules; each has a reason, but no verdict."""

from ext4kit.triage.suspicions.search import Indicator
from ext4kit.triage.suspicions.sighting import RemovedLines, Sighting
from ext4kit.triage.suspicions.signs import SignOptions, find_signs
from ext4kit.triage.suspicions.story import StoryStep

__all__ = ["Indicator", "RemovedLines", "SignOptions", "Sighting", "StoryStep", "find_signs"]
