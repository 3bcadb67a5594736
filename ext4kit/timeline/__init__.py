"""Events derived from the successive states of inodes and directories in the journal."""

from ext4kit.timeline.build import Timeline, build_timeline
from ext4kit.timeline.events import Event, EventKind
from ext4kit.timeline.filters import EventFilter

__all__ = ["Event", "EventFilter", "EventKind", "Timeline", "build_timeline"]
