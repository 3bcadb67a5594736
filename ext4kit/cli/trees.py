"""The tree of the views of an image, for commands that show it until they are interrupted."""

from __future__ import annotations

import contextvars
import dataclasses
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event

import click

from ext4kit.cli.interrupts import INTERRUPTS
from ext4kit.cli.options import CommonOptions
from ext4kit.cli.outputs import check_apart
from ext4kit.cli.session import Session, image_of, opened
from ext4kit.mount.operations import Operations
from ext4kit.mount.tree import MountedVolume, mount_tree

ready_option = click.option(
    "--ready-fd", type=click.IntRange(0), metavar="FD",
    help="Write a byte to this file descriptor once it is ready.",
)  # fmt: skip


@contextmanager
def operations_of(options: CommonOptions, outputs: Iterable[Path] = ()) -> Iterator[Operations]:
    """The tree of the chosen file system, or of all in the image; an interrupt ends the context.

    Args:
        options: the image.
        outputs: folders that must not be on the evidence.
    """
    stop, owner = Event(), _owner()
    with _volumes(options, outputs) as sessions:
        root = mount_tree(map(_mounted, sessions), owner, partial(_go_on, stop))
        try:
            yield Operations(root)
        except KeyboardInterrupt:
            INTERRUPTS.came = False  # the usual end
        finally:
            stop.set()


def tell_ready(ready_fd: int | None) -> None:
    """Write a byte to the descriptor of `--ready-fd`."""
    if ready_fd is not None:
        with suppress(OSError):
            os.write(ready_fd, b"\n")


def _owner() -> tuple[int, int]:
    """User and group of this process; 0 on Windows, which has none."""
    return (os.getuid(), os.getgid()) if hasattr(os, "getuid") else (0, 0)


@contextmanager
def _volumes(options: CommonOptions, outputs: Iterable[Path]) -> Iterator[list[Session]]:
    """The chosen file system, or all of the image."""
    with image_of(options) as image, ExitStack() as stack:
        held = dataclasses.replace(options, opened=image)
        found = [volume.facts.index for volume in image.volumes if volume.facts.is_ext]
        is_chosen = options.volume is not None or options.offset is not None
        each = [held]
        if len(found) > 1 and not is_chosen:
            each = [dataclasses.replace(held, volume=str(index)) for index in found]
        sessions = [stack.enter_context(opened(one)) for one in each]
        check_apart(outputs, sessions[0].evidence_files)
        yield sessions


def _mounted(session: Session) -> MountedVolume:
    """The file system of a session, opened for each part of the tree."""
    others = session.image.filesystem(session.locator)
    raw = session.image.filesystem(dataclasses.replace(session.locator, state="raw"))
    number = session.volume.facts.index
    return MountedVolume(number, session.fs, others, raw, contextvars.copy_context())


def _go_on(stop: Event, _done: int, _total: int) -> None:
    """Progress of a search, which ends with the command.

    Raises:
        InterruptedError: the command has ended.
    """
    if stop.is_set():
        raise InterruptedError
