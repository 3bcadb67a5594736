"""Several images or all volumes of an image: the command runs once for each volume.

Each run is complete: it opens its volume, reports its problems, and has its own output folder or
output files, named after the image and the volume. A failed run does not stop the others.
"""

from __future__ import annotations

import functools
import glob
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ext4kit.cli.exits import DONE, INCOMPLETE, end_of
from ext4kit.cli.interrupts import INTERRUPTS
from ext4kit.cli.options import Command, CommonOptions, Decorator, shared
from ext4kit.cli.outputs import check_places
from ext4kit.cli.session import chosen_volume, image_of
from ext4kit.cli.telling import tell_line
from ext4kit.errors import RequestError
from ext4kit.evidence import Volume
from ext4kit.opening import Image
from ext4kit.output.names import image_name
from ext4kit.report.records import section
from ext4kit.report.safe import printable_text

if TYPE_CHECKING:
    from ext4kit.export import Target

Values = Mapping[str, object]
End = Callable[[Values, list[Any], list[str]], None]
_LEFT = "ext4kit.several"  # key in the context of a command that runs several times
_FOLDER, _FILES = "out", ("html", "navigator")  # arguments that name outputs, beside `Target`


def for_each_volume(
    lost: bool = False, more: bool = False, times: bool = False, zone: bool = True,
    root: bool = False, scan: bool = False,
    end: End = lambda _values, _left, _failed: None,
) -> Decorator:  # fmt: skip
    """Give a command the shared options, and run it for each selected image and volume.

    Args:
        lost: offer `--lost`.
        more: offer further arguments IMAGE.
        times: offer `--from-now`.
        zone: offer `--tz`.
        root: offer `--root`.
        scan: offer `--scan`.
        end: called at the end of several runs, with the values of the command, what the runs left
            in `left_for_end`, and the names of images and volumes that could not be read.
    """
    options = shared(
        lost=lost, several=True, more=more, times=times, zone=zone, root=root, scan=scan
    )
    return lambda command: options(_each_volume(command, end))


def _each_volume(command: Command, end: End) -> Command:

    @functools.wraps(command)
    def run(*arguments: object, options: CommonOptions, **values: object) -> object:
        images = (options.image, *options.more, *options.images)
        if len(images) == 1 and not options.all_volumes:
            return command(*arguments, options=options, **values)
        _check_options(options)
        names = _names(images)
        _check_outputs(values, names)
        one = functools.partial(_run, functools.partial(command, *arguments), values)
        left = click.get_current_context().meta[_LEFT] = list[Any]()
        worst, failed = DONE, list[str]()
        for image, name in zip(images, names, strict=True):
            wanted = replace(options, image=image, images=(), more=(), all_volumes=False)
            work = functools.partial(_each, one, wanted, options.all_volumes, name)
            code = _code_of(work)
            if code > INCOMPLETE:
                failed.append(name)
            worst = max(worst, code)
        end(values, left, failed)
        if worst != DONE:
            raise click.exceptions.Exit(worst)
        return None

    return run


def _check_options(options: CommonOptions) -> None:
    """Refuse options of one volume.

    Raises:
        RequestError: there is one.
    """
    if options.is_locator:
        raise RequestError(f"{options.locator} names one file system; give no further image")
    if options.kept_scan is not None:
        raise RequestError("--scan is of one volume; give no further image or --all-volumes")
    if options.all_volumes and (options.volume is not None or options.offset is not None):
        raise RequestError("--all-volumes cannot be combined with --volume or --offset")


def left_for_end() -> list[Any] | None:
    """What the runs for several images or volumes leave for the end; None for the only run."""
    left: list[Any] | None = click.get_current_context().meta.get(_LEFT)
    return left


def _names(images: tuple[Path, ...]) -> list[str]:
    """A name for each image: the file name, with a number if an earlier image has the same name."""
    names: list[str] = []
    for image in images:
        names.append(image_name(image, names))
    return names


def _each(
    one: Callable[[CommonOptions, str], int], options: CommonOptions, is_all: bool, name: str
) -> int:
    """Run the command on one image, which stays open for all runs; return the highest exit code."""
    worst = DONE
    with image_of(options) as image:
        held = replace(options, opened=image)
        for volume in _volumes(image, held) if is_all else [chosen_volume(image, held).facts]:
            run = functools.partial(
                one, replace(held, volume=str(volume.index)), f"{name}-volume-{volume.index}"
            )
            worst = max(worst, _code_of(run))
    return worst


def _volumes(image: Image, options: CommonOptions) -> list[Volume]:
    """All ext volumes; other volumes are reported, except those that only contain volumes."""
    every = [volume.facts for volume in image.volumes]
    found = [volume for volume in every if volume.is_ext]
    if not found:
        return [chosen_volume(image, options).facts]  # its error lists the volumes
    parents = {volume.parent for volume in every}
    others = [
        f"{volume.index} ({volume.kind})"
        for volume in every
        if not volume.is_ext and volume.index not in parents
    ]
    if others and not options.quiet:
        text = f"not ext2, ext3 or ext4, and left out: volume {', '.join(others)}"
        tell_line(f"note: {printable_text(str(options.image))}: {text}")
    return found


def _run(command: Command, values: Values, options: CommonOptions, name: str) -> int:
    """Run the command once and return its exit code."""
    _head(options)
    with section(str(options.image), int(options.volume or 0)):
        command(options=options, **{key: _placed(key, each, name) for key, each in values.items()})
    return DONE


def _head(options: CommonOptions) -> None:
    """Print a line that names the image and volume that follow, on both streams if useful."""
    text = f"== {printable_text(str(options.image))}, volume {options.volume} =="
    if not options.json:
        click.echo(text)
    if not options.quiet and not (sys.stdout.isatty() and sys.stderr.isatty()):
        tell_line(text)


def _code_of(work: Callable[[], int]) -> int:
    """The exit code of a run; an error that ends it is printed as at the program's end."""
    try:
        return work()
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        raise
    except Exception as error:
        if INTERRUPTS.came or os.environ.get("EXT4KIT_DEBUG"):
            raise
        return end_of(error)


def _placed(key: str, value: object, name: str) -> object:
    """The output of one run, derived from the output argument of the command."""
    if isinstance(value, Path) and key == _FOLDER:
        return value / name
    if (path := _file_of(key, value)) is None:
        return value
    placed = _beside(path, name)
    return replace(value, path=placed) if isinstance(value, _target()) else placed


def _beside(path: Path, name: str) -> Path:
    """`case.html` -> `case-disk.img-volume-1.html`."""
    return path.with_name(f"{path.stem}-{name}{path.suffix}")


def _file_of(key: str, value: object) -> Path | None:
    """The output file that an argument names; None if it does not name one."""
    if isinstance(value, _target()):
        return value.path
    return value if isinstance(value, Path) and key in _FILES else None


def _target() -> type[Target]:
    from ext4kit.export import Target  # loads slowly

    return Target


def _check_outputs(values: Values, names: list[str]) -> None:
    """Reject existing outputs before an image is read, while its volumes are not yet known.

    Raises:
        RequestError: an output exists, or is standard output.
        OutputError: an output cannot be written.
    """
    for key, value in values.items():
        path = _file_of(key, value)
        if isinstance(value, _target()) and path is None:
            raise RequestError("only one volume can be written to standard output; name a file")
        if isinstance(value, Path) and key == _FOLDER and not values.get("dry_run"):
            check_places(value, (), bool(values.get("resume")))
        for name in names if path is not None else ():
            assert path is not None
            start = glob.escape(f"{path.stem}-{name}-volume-")
            there = path.parent.glob(f"{start}[0-9]*{glob.escape(path.suffix)}")
            check_places(None, [*there, _beside(path, f"{name}-volume-1")])
        if path is not None:
            check_places(None, [path])  # for what is of all of them
