"""What a kernel records of what it does: tests ask here what they may expect of its images.

`python -m tests --kernel NAME` runs them in another kernel. Where one records less, a test asserts
the weaker statement that is true there; that nothing said is wrong it asserts on every kernel. The
changes and their sources are those of `ext4kit.history.writer`, which
`tests/history/test_writer.py` holds against each kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ext4kit.history import writer
from ext4kit.recovery import Grade
from sample_images.recipes.truth import running_kernel

ORPHAN_FILE = (5, 15)  # fs/ext4/orphan.c came


@dataclass(frozen=True, slots=True)
class WritingKernel:
    """A kernel that writes images.

    Attributes:
        version: as (6, 18).
    """

    version: tuple[int, int]

    @property
    def clears_entries(self) -> bool:
        """Whether it clears a removed directory entry; else name and inode number stay."""
        return self.version >= writer.CLEARS_ENTRIES

    @property
    def counts_changes(self) -> bool:
        """Whether `i_version` counts the changes of a file without a mount option."""
        return self.version >= writer.COUNTS_CHANGES

    @property
    def knows_orphan_file(self) -> bool:
        """Whether it keeps orphans in a file, if there is one, and not in a list of inodes."""
        return self.version >= ORPHAN_FILE

    @property
    def log_goes_on(self) -> bool:
        """Whether a mount goes on in the log where the unmount left it.

        Else it starts at the first block: it overwrites the transactions of the mount before, and
        nothing tells an unmount from a recovery.
        """
        return self.version >= writer.CONTINUES_LOG

    @property
    def has_fine_times(self) -> bool:
        """Whether times of changes can be finer than a clock tick."""
        return self.version >= writer.FINE_TIMES

    @property
    def best(self) -> Grade:
        """The best grade that a file of an earlier mount can have."""
        return Grade.INTACT if self.log_goes_on and self.counts_changes else Grade.CONSISTENT

    def of_whole_blocks(self, grade: Grade) -> Grade:
        """The grade that a file of an earlier mount has if its size is one of whole blocks.

        Where no changes are counted, its size may be how far writeback had come.
        """
        return grade if self.counts_changes else Grade.PARTIAL


# The clock of a user-mode kernel lags behind while its machine is busy.
_CPU = Path("/proc/cpuinfo")
IN_USER_MODE = _CPU.is_file() and "User Mode Linux" in _CPU.read_text(encoding="utf-8")
HERE = WritingKernel(running_kernel())  # it writes the images of this run
