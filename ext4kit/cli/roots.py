"""`ext4kit roots`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from ext4kit.cli.collecting import write_collected
from ext4kit.cli.custody import Custody, custody
from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions
from ext4kit.cli.session import Session, opened, show
from ext4kit.cli.several import for_each_volume
from ext4kit.errors import RequestError
from ext4kit.output.collecting import CollectedItem
from ext4kit.report.roots import change_lines, change_record, root_lines, root_record
from ext4kit.roots import LinuxRoot, find_roots, root_named, root_view
from ext4kit.roots.changes import change_counts, changes_of

_EXAMPLE = """\b
Examples:
  ext4kit roots disk.img
  ext4kit roots disk.img web
  ext4kit roots disk.img web -o changed
  ext4kit roots disk.img web -o whole --whole
  ext4kit ls disk.img -l /web/etc --view roots
"""


@click.command("roots", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@for_each_volume(zone=False)
@click.argument("name", required=False)
@click.option("-o", "--output", "out", metavar="OUT", type=click.Path(path_type=Path),
              help="Write the files that the container added or changed into this new or empty "
              "folder.")  # fmt: skip
@click.option("--whole", is_flag=True, help="With -o, write all files of the root, its layers "
              "merged.")  # fmt: skip
@custody
def command(
    options: CommonOptions, name: str | None, out: Path | None, whole: bool, custody: Custody
) -> None:
    """List the Linux roots on IMAGE: the system, containers, images, chroots, snapshots.

    Docker, containerd, Podman and LXC are read from their records, also below home directories.
    Layers that no record names are listed too. "files" and "deleted" count what a container wrote
    into its layer and the names that it hides.

    With NAME (of a root, or the start of an id), list what that container changed: files added,
    changed, moved, replaced and deleted, then the deleted inodes of its layer. For a copy of a file
    of the image, overlayfs records the inode; it is looked up.

    `ls`, `cat` and `stat` with --view roots read the trees as the containers saw them: /NAME/PATH.
    """
    if name is None and (out is not None or whole):
        raise RequestError("-o and --whole need the NAME of a root")
    if whole and out is None:
        raise RequestError("--whole needs -o OUT")
    with opened(options, folder=out) as session:
        roots = find_roots(session.workspace)
        if name is None:
            _list(session, roots)
            return
        root = root_named(roots, name)
        with session.step("searching for deleted files") as tell:
            changes = list(changes_of(session.workspace, root, tell))
        records = (change_record(root, change) for change in changes)
        show(options, records, change_lines(root, changes))
        if out is not None:
            nodes = (one.node for one in changes if one.node is not None)
            each = _whole(session, root) if whole else map(CollectedItem, nodes)
            write_collected(session, each, out, custody)


def _list(session: Session, roots: list[LinuxRoot]) -> None:
    options = session.options
    counted = [(root, change_counts(session.fs, root)) for root in roots]
    show(options, map(root_record, counted), root_lines(counted, options.image))


def _whole(session: Session, root: LinuxRoot) -> Iterator[CollectedItem]:
    for some in root_view(session.fs, root).walk():
        yield from map(CollectedItem, some.nodes)
