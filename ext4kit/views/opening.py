"""The views of a file system by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ext4kit.errors import RequestError
from ext4kit.filesystem.live_view import LiveView, unattached_folder
from ext4kit.filesystem.view import View
from ext4kit.search_sources import ALL_SOURCES, WITH_INODES, SearchSource
from ext4kit.views import VIEW_NAMES

if TYPE_CHECKING:
    from ext4kit.units import Progress
    from ext4kit.workspace import Workspace


def _deleted(
    workspace: Workspace,
    progress: Progress | None,
    sources: frozenset[SearchSource] = ALL_SOURCES,
) -> View:
    from ext4kit.views.deleted import DeletedView

    return DeletedView(workspace, sources=sources, progress=progress)


def _together(
    workspace: Workspace,
    progress: Progress | None,
    sources: frozenset[SearchSource] = ALL_SOURCES,
) -> View:
    from ext4kit.views.together import joined

    return joined(LiveView(workspace.fs), _deleted(workspace, progress, sources))


def _versions(workspace: Workspace, progress: Progress | None) -> View:
    from ext4kit.views.versions import VersionsView

    return VersionsView(workspace, _together(workspace, progress, WITH_INODES), progress)


def _moments(workspace: Workspace, _progress: Progress | None) -> View:
    from ext4kit.views.moments import MomentsView

    return MomentsView(workspace)


def _unallocated(workspace: Workspace, _progress: Progress | None) -> View:
    from ext4kit.views.unallocated import UnallocatedView

    return UnallocatedView(workspace)


def _slack(workspace: Workspace, _progress: Progress | None) -> View:
    from ext4kit.views.slack import SlackView

    return SlackView(workspace.fs)


def _roots(workspace: Workspace, _progress: Progress | None) -> View:
    from ext4kit.roots.roots_view import RootsView

    return RootsView(workspace)


_OPENERS: dict[str, Callable[[Workspace, Progress | None], View]] = {
    "live": lambda workspace, _: LiveView(workspace.fs),
    "deleted": _deleted,
    "all": _together,
    "versions": _versions,
    "as-of": _moments,
    "unattached": lambda workspace, _: View(unattached_folder(workspace.fs)),
    "unallocated": _unallocated,
    "slack": _slack,
    "roots": _roots,
}


def open_view(workspace: Workspace, name: str, progress: Progress | None = None) -> View:
    """Open a view of a file system; its data are read when they are first needed.

    Args:
        workspace: the workspace of the file system.
        name: one of `VIEW_NAMES`.
        progress: called with (done, total) while deleted files are searched.

    Raises:
        RequestError: there is no view of that name.
    """
    if name not in VIEW_NAMES:
        raise RequestError(f"no view {name!r} (there are: {', '.join(VIEW_NAMES)})")
    return _OPENERS[name](workspace, progress)
