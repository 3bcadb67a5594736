"""Options that commands share, and the object that holds their values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path

import click

from ext4kit.cli.values import OpenTime, byte_count, moment
from ext4kit.cli.zones import TypedZone, zone_option
from ext4kit.errors import RequestError
from ext4kit.evidence.limits import OpenLimits
from ext4kit.evidence.locator import RAW, Locator, state_of
from ext4kit.evidence.openers import FORMATS, formats
from ext4kit.opening import Image
from ext4kit.units import Moment
from ext4kit.views import VIEW_NAMES
from ext4kit.zones import UTC

_LIMITS = OpenLimits()
CONTEXT = {"help_option_names": ["-h", "--help"]}
Command = Callable[..., object]
Decorator = Callable[[Command], Command]


@dataclass(frozen=True, slots=True)
class CommonOptions:
    """The options of every command."""

    image: Path
    more: tuple[Path, ...] = ()
    images: tuple[Path, ...] = ()
    all_volumes: bool = False
    volume: str | None = None
    offset: int | None = None
    replay: bool = True
    superblock: int | None = None
    journal: Path | None = None
    json: bool = False
    quiet: bool = False
    as_of: int | Moment | OpenTime | None = None
    from_now: bool = False
    has_lost: bool = False
    lost_number: int | None = None
    view: str = VIEW_NAMES[0]
    root: str | None = None
    password_files: tuple[Path, ...] = ()
    key_files: tuple[Path, ...] = ()
    form: str | None = None
    kdf_limit: float = _LIMITS.key_seconds
    kdf_memory: int = _LIMITS.key_memory >> 20  # MiB
    unpack_limit: int | None = None
    opened: Image | None = None  # the image if it is open already; it is left open
    zone: TypedZone = UTC
    kept_scan: Path | None = None  # with an earlier scan of the unallocated space
    is_locator: bool = False  # whether the image was given as a locator

    def __post_init__(self) -> None:
        """If a locator was given for the image, take image, volume and state from it."""
        text = str(self.image)
        if "?" not in text or self.image.exists():
            return
        with suppress(RequestError):
            found = Locator.parse(text)
            given: dict[str, object] = {
                "image": Path(found.path),
                "form": found.form or None,
                "offset": found.offset,
                "volume": found.volume or None,
                "superblock": found.superblock,
                "journal": Path(found.journal) if found.journal else None,
                "as_of": found.as_of,
                "lost_number": found.lost or None,
                "replay": False if found.state == RAW else None,
                "is_locator": True,
            }
            for name, value in given.items():
                if value is not None:
                    object.__setattr__(self, name, value)

    @property
    def lost(self) -> int:
        """Number of the requested lost file system, 0 for none."""
        return self.lost_number or int(self.has_lost)

    @property
    def locator(self) -> Locator:
        """The address of the file system that the options select."""
        return Locator(
            path=str(self.image),
            form=self.form or "",
            offset=self.offset,
            volume=self.volume or "",
            superblock=self.superblock,
            journal="" if self.journal is None else str(self.journal),
            state=state_of(
                None if isinstance(self.as_of, OpenTime) else self.as_of, self.lost, self.replay
            ),
        )


def _negated(_context: click.Context, _parameter: click.Parameter, value: bool) -> bool:
    return not value


def _transaction_or_time(
    context: click.Context, option: click.Parameter, value: str | None
) -> int | Moment | OpenTime | None:
    if value is None or value.isdigit():
        return None if value is None else int(value)
    found = moment(context, option, value)
    return Moment(found) if isinstance(found, int) else found


def _volume(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """The value of `--volume`: a number, or a place, which contains `@`."""
    if value is not None and "@" not in value and not (value.isdecimal() and value.isascii()):
        raise click.BadParameter(f"{value!r} is neither a number nor a place such as gpt@1048576")
    return value


def _format(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """The value of `--format`: the name of an image format, also one of another package."""
    if value is not None and value not in FORMATS and value not in formats():
        raise click.BadParameter(f"{value!r} is not one of {', '.join(formats())}")
    return value


_PATH = click.Path(path_type=Path, readable=False)  # the error of opening it is more precise
_SEVERAL = (
    click.option("--image", "images", type=_PATH, multiple=True, metavar="IMAGE",
                 help="Also process this image; may be given several times."),
    click.option("--all-volumes", is_flag=True,
                 help="Process each ext volume; each has its own section, or an output that is "
                 "named after the volume."),
)  # fmt: skip
_CHOICES = (
    click.option("--volume", callback=_volume, metavar="N",
                 help="Number of the volume in the list of `volumes`, or its place as in "
                 "case.json (gpt@1048576)."),
    click.option("--offset", type=click.IntRange(0), metavar="BYTES",
                 help="Byte at which the file system starts; no partition table is read."),
    click.option("--no-replay", "replay", is_flag=True, callback=_negated,
                 help="Do not overlay the unreplayed journal."),
    click.option("--superblock", type=click.IntRange(0), metavar="N",
                 help="Read the superblock copy at this block."),
    click.option("--journal", type=_PATH, metavar="PATH",
                 help="Image of the external journal device."),
)  # fmt: skip
_AS_OF = (
    click.option("--as-of", callback=_transaction_or_time, metavar="WHEN",
                 help="Show the state after this transaction or at this time, as recorded in the "
                 "journal; a time is 2026-03-01T18:00, or 2h for two hours earlier."),
)  # fmt: skip
_VIEW = (
    click.option("--view", type=click.Choice(list(VIEW_NAMES)), default=VIEW_NAMES[0],
                 help="Select the tree to read: live files, deleted files, all files, versions of "
                 "files, earlier times, files that cannot be reached from the root, "
                 "unallocated blocks, or Linux roots such as containers."),
)  # fmt: skip
_ROOT = (
    click.option("--root", metavar="NAME",
                 help="Select one Linux root, such as a container, by its name in the list of "
                 "`roots`."),
)  # fmt: skip
_SCAN = (
    click.option("--scan", "kept_scan", type=_PATH, metavar="PATH",
                 help="Take the scan of the unallocated space from this file of `scan`, or from a "
                 "folder with all its parts, instead of reading that space."),
)  # fmt: skip
_TIMES = (
    click.option("--from-now", is_flag=True,
                 help="Count times such as 2h back from the clock of this computer."),
)  # fmt: skip
_LOST = (
    click.option("--lost", "has_lost", is_flag=True,
                 help="Read the file system that this one overwrote."),
    click.option("--lost-number", type=click.IntRange(1), metavar="N",
                 help="Select the Nth lost file system; 1 is the most complete one."),
)  # fmt: skip
KEY_FILES = (
    click.option("--password-file", "password_files", type=_PATH, multiple=True, metavar="FILE",
                 help="Read the passphrase for encrypted volumes from the first line of FILE."),
    click.option("--key-file", "key_files", type=_PATH, multiple=True, metavar="FILE",
                 help="Unlock encrypted volumes with the bytes of FILE."),
)  # fmt: skip
_KEYS = (
    *KEY_FILES,
    click.option("--format", "form", callback=_format, metavar="FORMAT",
                 shell_complete=lambda *_: list(FORMATS),
                 help=f"Read IMAGE in this format ({', '.join(FORMATS)}), whatever it begins"
                 " like."),
    click.option("--kdf-limit", type=click.FloatRange(0), metavar="SECONDS",
                 default=_LIMITS.key_seconds, show_default=True,
                 help="Time for deriving the keys of encrypted volumes."),
    click.option("--kdf-memory", type=click.IntRange(0), metavar="MIB",
                 default=_LIMITS.key_memory >> 20, show_default=True,
                 help="Memory for deriving a key."),
    click.option("--unpack-limit", callback=byte_count, metavar="SIZE",
                 help="Space for a decompressed image (20G); by default half of the free space."),
)  # fmt: skip
json_option = click.option("--json", is_flag=True, help="Write JSON lines to standard output.")
quiet_option = click.option(
    "-q", "--quiet", is_flag=True, help="Suppress notes, warnings and progress."
)
output_option = click.option("-o", "--output", "out", required=True, metavar="OUT", type=_PATH,
                             help="Write into this new or empty folder.")  # fmt: skip


def packed(kind: type, name: str, options: Sequence[Decorator]) -> Decorator:
    """A decorator that gives a command options, packed into one argument.

    Args:
        kind: a dataclass whose fields have the names of the options.
        name: name of the argument.
        options: the options in the order of the help.
    """
    names = [each.name for each in fields(kind)]

    def decorate(function: Command) -> Command:
        @functools.wraps(function)
        def command(*arguments: object, **values: object) -> object:
            given = {each: values.pop(each) for each in names if each in values}
            return function(*arguments, **{name: kind(**given)}, **values)

        wrapped: Command = command
        for option in reversed(options):
            wrapped = option(wrapped)
        return wrapped

    return decorate


def shared(
    choices: bool = True,
    json: bool = True,
    as_of: bool = False,
    lost: bool = False,
    view: bool = False,
    times: bool = False,
    zone: bool = True,
    several: bool = False,
    more: bool = False,
    root: bool = False,
    scan: bool = False,
) -> Decorator:
    """Give a command the shared options, packed into its argument `options`.

    Args:
        choices: offer the options that select a file system in the image.
        json: offer `--json`.
        as_of: offer `--as-of`.
        lost: offer `--lost`.
        view: offer `--view`.
        times: offer `--from-now`, which `--as-of` also implies.
        zone: offer `--tz`.
        several: offer `--image` and `--all-volumes` (`several.for_each_volume`).
        more: offer further arguments IMAGE.
        root: offer `--root`.
        scan: offer `--scan`.
    """
    offered = (
        (_SEVERAL, several),
        (_CHOICES, choices),
        (_AS_OF, as_of),
        (_LOST, lost),
        (_VIEW, view),
        (_ROOT, root),
        (_SCAN, scan),
        (_TIMES, times or as_of),
        ((zone_option,), zone),
        (_KEYS, True),
        ((json_option,), json),
    )
    options = [option for group, is_offered in offered if is_offered for option in group]
    images = [click.argument("image", type=_PATH)]
    if more:
        images.append(click.argument("more", nargs=-1, type=_PATH, metavar="[IMAGE]..."))
    return packed(CommonOptions, "options", [*images, *options, quiet_option])
