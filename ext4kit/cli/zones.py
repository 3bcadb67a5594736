"""The time zone of a command: the option `--tz`, and the zone that the image uses."""

from __future__ import annotations

import click

from ext4kit.errors import Ext4kitError, RequestError
from ext4kit.filesystem import FileSystem
from ext4kit.report.times import zone_line
from ext4kit.system_zone import MOST_BYTES, local_zone, zone_of_root
from ext4kit.zones import UTC, Zone, zone_names, zone_of

IMAGE_ZONE = "image"
_LOCAL = "local"
_WORDS = ("UTC", _LOCAL, IMAGE_ZONE)
TypedZone = Zone | None  # None for the zone of the image


def _zone(context: click.Context, option: click.Parameter, value: str) -> TypedZone:
    """Callback of `--tz`."""
    if value == IMAGE_ZONE:
        return None
    try:
        return local_zone() if value == _LOCAL else zone_of(value)
    except Ext4kitError as error:
        raise click.BadParameter(str(error), context, option) from error


def _names(_context: click.Context, _option: click.Parameter, start: str) -> list[str]:
    """Completions of a zone name for a shell."""
    return [name for name in (*_WORDS, *sorted(zone_names())) if name.startswith(start)]


zone_option = click.option(
    "--tz", "zone", default=str(UTC), callback=_zone, metavar="ZONE", shell_complete=_names,
    help="Show times, and read times without an offset, in this zone: Europe/Berlin, +02:00, local"
    " (of this computer) or image (its /etc/localtime). JSON and files for programs stay in UTC.",
)  # fmt: skip


def zone_of_image(fs: FileSystem) -> Zone:
    """The zone that the system in a file system uses.

    Raises:
        RequestError: the file system does not record its zone.
    """

    def read(path: str) -> str | bytes | None:
        try:
            inode = fs.inode(fs.lookup(path))
        except RequestError:
            return None
        if inode.kind == "symlink":
            return fs.link_target(inode).decode("utf-8", "surrogateescape")
        if inode.kind != "file":
            raise RequestError(f"it is no file ({inode.kind})")
        return fs.content(inode).read(0, min(inode.size, MOST_BYTES + 1))

    instead = "; name the zone, as in --tz Europe/Berlin"
    try:
        zone = zone_of_root(read, " of the image")
    except Ext4kitError as error:
        raise RequestError(f"--tz image: {error}{instead}") from error
    if zone is None:
        text = "the root of the file system has no /etc/localtime and no /etc/timezone"
        raise RequestError(f"--tz image: {text}{instead}")
    return zone


def zone_of_lines(fs: FileSystem) -> Zone:
    """The zone of log lines that state none: that of the image, UTC where it records none."""
    try:
        return zone_of_image(fs)
    except RequestError:
        return UTC


def tell_zone() -> None:
    """Print the zone of the times that follow, unless it is UTC."""
    if line := zone_line():
        click.echo(line)
