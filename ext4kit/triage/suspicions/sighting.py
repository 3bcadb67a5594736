"""Places where a rule matched."""

from __future__ import annotations

from dataclasses import dataclass

from ext4kit.logs import LogLine, Removal
from ext4kit.recovery import DeletedFile, Grade
from ext4kit.timeline import Event
from ext4kit.triage.suspicions.story import Story, StoryStep

IMAGE = "image"  # in `Sighting.seen`: the sighting is about the image and not about a file
LINES = "lines removed"  # likewise: it is about lines of a log


@dataclass(frozen=True, slots=True)
class RemovedLines:
    """Lines that were removed from a log at once.

    Attributes:
        count: number of these lines.
        removal: the proof; None for records that were filled with zeros.
        first: the first ones; limited in number, none of records that are zeros.
        is_certain: whether harmless causes are rare: records of zeros, and lines between others of
            a log that programs only append to.
    """

    count: int
    removal: Removal | None
    first: tuple[LogLine, ...]
    is_certain: bool = True

    @property
    def text(self) -> str:
        """The number of lines and the proof; "" without a proof."""
        if self.removal is None:
            return ""
        after, before = (
            "-" if each is None else str(each.transaction)
            for each in (self.removal.after, self.removal.before)
        )
        return f"{self.count} lines {self.removal.how} between transactions {after} and {before}"


@dataclass(slots=True)
class Sighting:
    """A sighting: a file, or the image, that matches a rule.

    Attributes:
        path: path of the file; None if unknown.
        when: time of the newest matching event, of the deletion, or of the last change (ctime), ns.
        seen: evidence for the file, in order: "there", "deleted", kinds of events. IMAGE for a
            sighting that is not about a file.
        size, mode: size and mode of the file; None if unknown.
        grade: grade of a deleted file.
        note: further details, plain text.
        event: the newest event that matched the rule.
        made: creation time in the inode, ns; None if unknown.
        ended: the deletion, as a step of the story; None for a live file.
        story: what happened to the file, in order of time; only for the newest sightings of a rule.
        lines: the lines that were removed from the file; None for other rules.
        uid: owner of the file; None if unknown.
    """

    path: bytes | None
    inode: int | None
    generation: int | None
    when: int | None
    seen: list[str]
    size: int | None = None
    mode: int | None = None
    grade: Grade | None = None
    note: str = ""
    event: Event | None = None
    made: int | None = None
    ended: StoryStep | None = None
    story: Story = ()
    lines: RemovedLines | None = None
    uid: int | None = None


def deleted_sighting(path: bytes | None, file: DeletedFile, note: str) -> Sighting:
    """The sighting of a deleted file, or of an earlier version of a file."""
    if file.superseded:
        return Sighting(
            path, file.number, file.generation, file.mtime, ["earlier version"], file.size,
            file.mode, file.grade, note, uid=file.uid,
        )  # fmt: skip
    missing = file.deleted_between[1]
    return Sighting(
        path, file.number, file.generation, file.deletion_time, ["deleted"], file.size, file.mode,
        file.grade, note, made=None if file.inode is None else file.inode.crtime,
        ended=StoryStep("deleted", file.dtime, None if missing is None else missing.time),
        uid=file.uid,
    )  # fmt: skip
