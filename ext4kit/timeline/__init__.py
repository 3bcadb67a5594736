"""Events worked out from the successive states of inodes and directories."""

from ext4kit.timeline.building import Timeline, build_timeline
from ext4kit.timeline.events import Event, Kind
from ext4kit.timeline.filters import Filter

__all__ = ["Event", "Filter", "Kind", "Timeline", "build_timeline"]
