"""The file system at earlier times: `/2026-03-01T03:00/etc/passwd`, `/2h/etc`, `/tid-4711/etc`.

Every time that the journal covers can be looked up; a listing shows only some of the commits. A
span such as `2h` is counted back from the last time recorded in the file system.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ext4kit.arrays.types import Int64s
from ext4kit.as_of import recorded_range
from ext4kit.errors import Ext4kitError, RequestError
from ext4kit.filesystem.inodes import ROOT
from ext4kit.filesystem.live_view import LiveNode
from ext4kit.filesystem.view import Folder, Node, NodeId, View
from ext4kit.times import iso, parse_moment
from ext4kit.units import Moment
from ext4kit.workspace import Workspace
from ext4kit.zones import current_zone

MOST_LISTED = 100
_TID = "tid-"


@dataclass(frozen=True)
class _Moments(Folder):
    """The root directory, in which every name of a time can be looked up."""

    workspace: Workspace = field(kw_only=True, repr=False, compare=False)

    def child(self, name: bytes) -> Node | None:
        """The file system at the time that a name stands for; None if the journal lacks it."""
        return moment_node(self.workspace, name.decode("utf-8", "replace"))


class MomentsView(View):
    """The states of the file system that the journal records, each as a directory.

    Args:
        workspace: the workspace of the present file system.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        super().__init__(_Moments(NodeId("as-of"), b"/", fill=self._listed, workspace=workspace))

    def _listed(self) -> Iterable[Node]:
        """At most `MOST_LISTED` commits, spread evenly over those whose root can be listed."""
        try:
            times = recorded_range(self._workspace).commit_times
        except RequestError:
            return
        known = np.unique(times[times >= 0])
        known = known[self._first_listed(known) :]
        count = min(len(known), MOST_LISTED)
        for time in known[np.linspace(0, len(known) - 1, count).astype(np.int64)].tolist():
            name = iso(time)
            identity = NodeId("as-of", detail=name)
            yield Folder(identity, b"/" + name.encode(), fill=partial(self._inside, name))

    def _first_listed(self, times: Int64s) -> int:
        """Row of the first time at which the root can be listed, as it can from then on.

        Before, the journal no longer has the block of its inode, or its own blocks.
        """
        return bisect(range(len(times)), False, key=lambda row: self._is_listed(int(times[row])))

    def _is_listed(self, time: int) -> bool:
        try:
            return any(True for _ in self._inside(iso(time)))
        except Ext4kitError:
            return False

    def _inside(self, name: str) -> Iterable[Node]:
        node = moment_node(self._workspace, name)
        return () if node is None else node.children()


def moment_node(workspace: Workspace, name: str) -> Node | None:
    """The root directory at a time, or as of a transaction (`tid-4711`); None if there is none."""
    try:
        if name.startswith(_TID) and name[len(_TID) :].isdigit():
            wanted: int | Moment = int(name[len(_TID) :])
        else:
            wanted = Moment(parse_moment(name, workspace.last_moment, current_zone()))
        fs = workspace.as_of(wanted).fs
    except (RequestError, ValueError, OverflowError):
        return None
    return LiveNode.of(fs, b"/" + name.encode(), ROOT, fs.inode(ROOT))
