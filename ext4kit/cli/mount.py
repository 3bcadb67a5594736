"""`ext4kit mount`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn

import click

from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.mount_points import check_mount_point
from ext4kit.cli.options import CONTEXT, CommonOptions, shared
from ext4kit.cli.telling import tell_line
from ext4kit.cli.trees import operations_of, ready_option, tell_ready
from ext4kit.mount.fuse import MountOptions, load_fuse, mount
from ext4kit.report.safe import printable_text

_EXAMPLE = """\b
Examples:
  ext4kit mount disk.img /mnt
  ext4kit mount disk.img /mnt --daemon
  ls /mnt/live /mnt/deleted /mnt/as-of/2h/etc /mnt/versions/etc/passwd
  fusermount3 -u /mnt
"""


@click.command("mount", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@shared(json=False)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--allow-other", is_flag=True,
              help="Let other users read it, with the permissions of the evidence.")  # fmt: skip
@click.option("-d", "--daemon", is_flag=True, help="Go on in the background once it is mounted.")
@ready_option
def command(
    options: CommonOptions, folder: Path, allow_other: bool, daemon: bool, ready_fd: int | None
) -> None:
    """Mount the trees of IMAGE read-only at DIR, an empty directory, until Ctrl-C.

    \b
    live/         the files as they are
    deleted/      deleted files by their last path; a second one of a name gets ~2
    as-of/TIME/   the tree at a time: 2026-03-01T18:00, 2h, tid-4711; a listing shows some commits
    versions/     each file as a directory of its versions, 1 the oldest
    unattached/   files that cannot be reached from the root
    unallocated/  free blocks with data; carved/ has contents without an inode
    slack/        what is after the end of files in their blocks, by the path of the file
    roots/        Linux roots: containers with their layers merged, images, chroots
    metadata/     what info, timeline and journal list print with --json

    Owners, modes, times, links and extended attributes are those of the evidence. Of deleted and
    earlier files user.ext4kit.grade, .reasons, .sources and .deleted tell more;
    user.ext4kit.sha256 of any file is computed when it is asked for. What is lost or damaged is an
    error when it is read, and the rest can be read. With several file systems and without --volume,
    each is in a folder volume-N. `fusermount3 -u DIR` unmounts; so do Ctrl-C and SIGTERM.

    A mount needs libfuse 3 and mfusepy: pip install 'ext4kit[mount]'.
    """  # noqa: D301 -- click reads the backspace
    load_fuse()
    check_mount_point(folder)
    with _in_background(daemon) as told, operations_of(options, [folder]) as operations:
        ready = partial(_tell_ready, options, folder, ready_fd, told)
        mount(operations, folder, MountOptions(str(options.image), allow_other, ready))


def _tell_ready(
    options: CommonOptions,
    folder: Path,
    ready_fd: int | None,
    told: Callable[[], None] | None,
) -> None:
    """Tell that it is mounted: the user, the caller, and the process in the foreground."""
    if not options.quiet:
        where = printable_text(str(folder))
        tell_line(f"note: mounted at {where}; `fusermount3 -u {where}` unmounts it")
    tell_ready(ready_fd)
    if told is not None:
        told()


@contextmanager
def _in_background(is_wanted: bool) -> Iterator[Callable[[], None] | None]:
    """Go on in another process; the present one ends when the function that is given is called.

    Args:
        is_wanted: go on in the present process otherwise, without a function.
    """
    if not is_wanted:
        yield None
        return
    ours, theirs = os.pipe()
    child = os.fork()
    if child:
        os.close(theirs)
        _follow(child, ours)
    os.close(ours)
    os.setsid()

    def ready() -> None:
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.close(null)
        os.write(theirs, b"\n")
        os.close(theirs)

    yield ready


def _follow(child: int, pipe: int) -> NoReturn:
    """Wait until a process has mounted, or has ended with an error."""
    code = 0
    if not os.read(pipe, 1):
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.stderr.flush()
    os._exit(code if code >= 0 else 1)
