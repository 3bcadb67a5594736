"""What has the blocks in which hits stand, and what had them before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice

import numpy as np

from ext4kit.owners.answers import BlockAnswer, answers
from ext4kit.owners.earlier import EarlierOwners
from ext4kit.owners.present import BlockOwners
from ext4kit.recovery.records import FoundFiles
from ext4kit.search.hits import Hit
from ext4kit.workspace import Workspace

_AT_ONCE = 1 << 14  # hits


class HitOwners:
    """Answers whose the blocks of hits are.

    Args:
        workspace: of the file system.
        found: its deleted files, with earlier versions.
    """

    def __init__(self, workspace: Workspace, found: FoundFiles) -> None:
        self._workspace, self._found = workspace, found

    @cached_property
    def _now(self) -> BlockOwners:
        return BlockOwners.read(self._workspace)

    @cached_property
    def _before(self) -> EarlierOwners:
        return EarlierOwners(self._found)

    def of(self, hits: Iterable[Hit]) -> Iterator[tuple[Hit, tuple[BlockAnswer, ...]]]:
        """Each hit with the answer for its block.

        In the journal, the answer for the block that it is a copy of follows. A hit without a place
        in the volume has no answer.
        """
        waiting = iter(hits)
        while some := list(islice(waiting, _AT_ONCE)):
            known = self._answers({hit.block for hit in some if hit.block is not None})
            copied = {each.log.home for each in known.values() if each.log is not None}
            known |= self._answers({home for home in copied if home is not None} - known.keys())
            for hit in some:
                first = None if hit.block is None else known[hit.block]
                home = None if first is None or first.log is None else first.log.home
                both = first, None if home is None else known[home]
                yield hit, tuple(each for each in both if each is not None)

    def _answers(self, blocks: set[int]) -> dict[int, BlockAnswer]:
        numbers = np.array(sorted(blocks), np.int64)
        found = answers(self._workspace, self._now, self._before, numbers) if blocks else []
        return {each.block: each for each in found}
