"""The unallocated space as files, one for each run of unallocated blocks with data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ext4kit.filesystem.block_maps import Runs
from ext4kit.filesystem.blocks import BlockReader
from ext4kit.filesystem.content import Content
from ext4kit.filesystem.view import Folder, Node, NodeId, View
from ext4kit.workspace import Workspace


@dataclass(frozen=True)
class RunNode(Node):
    """Consecutive unallocated blocks.

    Attributes:
        blocks: reader of the blocks.
        first: the first block.
        count: number of blocks.
    """

    blocks: BlockReader = field(kw_only=True, repr=False, compare=False)
    first: int = field(kw_only=True)
    count: int = field(kw_only=True)

    @property
    def size(self) -> int:
        """Bytes."""
        return self.count * self.blocks.block_size

    def content(self) -> Content:
        """The bytes of the blocks."""
        return Content(self.blocks, self.size, Runs.consecutive(self.first, self.count))


class UnallocatedView(View):
    """`/block-FIRST-LAST` for each run of unallocated blocks.

    Args:
        workspace: the workspace of the file system.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        super().__init__(Folder(NodeId("unallocated"), b"/", fill=self._runs))

    def _runs(self) -> Iterable[Node]:
        from ext4kit.unallocated.space import UnallocatedSpace

        space = UnallocatedSpace(self._workspace.history())
        runs = space.runs_with_data
        for first, count in zip(runs.start.tolist(), runs.length.tolist(), strict=True):
            path = b"/block-%d-%d" % (first, first + count - 1)
            identity = NodeId("unallocated", detail=path[1:].decode())
            yield RunNode(identity, path, blocks=space.blocks, first=first, count=count)
