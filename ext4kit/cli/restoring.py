"""The option that selects which metadata of an inode a written file gets."""

from __future__ import annotations

import click

from ext4kit.cli.values import named
from ext4kit.output.restoring import ALL_PARTS, DEFAULT_PARTS, RestoredPart, RestoredParts

_NONE, _ALL = "none", "all"


def _parts(context: click.Context, option: click.Parameter, value: str | None) -> RestoredParts:
    """The parts in the list, in addition to the default; `none` removes the default."""
    if value is None:
        return DEFAULT_PARTS
    words = named(context, option, value, [*RestoredPart, _ALL, _NONE])
    chosen = frozenset(RestoredPart(word) for word in words - {_ALL, _NONE})
    chosen |= ALL_PARTS if _ALL in words else frozenset()
    return chosen if _NONE in words else chosen | DEFAULT_PARTS


restore_option = click.option(
    "--restore", "parts", callback=_parts, metavar="LIST",
    help="Restore more than mode and times: owner, links, folders, xattrs, or all of these;"
    " privileges (setuid, setgid, capabilities) only by its name. none: the bytes alone.",
)  # fmt: skip
