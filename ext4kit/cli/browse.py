"""`ext4kit browse`."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import click

from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions, shared
from ext4kit.cli.outputs import check_apart, check_places
from ext4kit.cli.session import Session, opened
from ext4kit.errors import RequestError
from ext4kit.evidence.containers.extras import extra

_PORT = 8765
_IN_BROWSER = "TEXTUAL_DRIVER"  # set by textual-serve for the program that it runs
_EXAMPLE = """\b
Examples:
  ext4kit browse disk.img
  ext4kit browse disk.img --volume 2 --case notes.jsonl
  ext4kit browse disk.img --known nsrl.db
  ext4kit browse disk.img --web
"""


@click.command("browse", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@shared(json=False)
@click.option("--case", "case", type=click.Path(path_type=Path), metavar="FILE",
              help="Add bookmarks to this file, one JSON record a line, and list those in"
              " it.")  # fmt: skip
@click.option("--known", "lists", type=click.Path(path_type=Path), multiple=True,
              metavar="FILE",
              help="List of hashes of known files, for the filters hide-known and only-known; may"
              " be given several times.")  # fmt: skip
@click.option("--web", is_flag=True, help="Show it in a browser, on this computer alone.")
@click.option("--port", type=click.IntRange(1, 65535), default=_PORT, show_default=True,
              help="Port of --web.")  # fmt: skip
def command(
    options: CommonOptions, case: Path | None, lists: tuple[Path, ...], web: bool, port: int
) -> None:
    """Browse IMAGE in the terminal: files, deleted files, earlier times, contents.

    The tree has live and deleted files together; deleted ones have the letter D. The line at the
    bottom has the transactions of the journal: [ and ] go to the state before and after. Files are
    searched by name, content and signs, marked, and written into a folder; each action shows the
    command that does the same. ? shows all keys.

    Nothing is written but what you ask for: marked files into a new folder, and bookmarks into the
    file of --case.

    It needs Textual: pip install 'ext4kit[browse]'.
    """
    with extra("browse", "textual", "browse"):
        import textual  # noqa: F401
    if web:
        _serve(port)
        return
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not (is_terminal or os.environ.get(_IN_BROWSER)):
        raise RequestError("browse needs a terminal; --web shows it in a browser")
    with opened(options, files=()) as session:
        if case is not None:
            check_apart([case], session.evidence_files)
        ended_by = _browse(session, case, lists)
    if ended_by is not None:
        raise KeyboardInterrupt


def _browse(session: Session, case: Path | None, lists: tuple[Path, ...]) -> int | None:
    """Run the program; the signal that ended it, None for none."""
    from ext4kit.browse.actions import BrowsedEvidence
    from ext4kit.browse.app import run
    from ext4kit.browse.commands import ShellCommands
    from ext4kit.browse.shell import BrowseOptions
    from ext4kit.known.opening import open_list

    volume, evidence = session.volume.facts, session.evidence_files
    facts = BrowsedEvidence(session.image.evidence, evidence, volume.index, str(session.locator))

    def check(out: Path) -> None:
        check_places(out, ())
        check_apart([out], evidence)

    first = [session.fs]  # opened already; the others are opened when they are needed

    return run(
        BrowseOptions(
            lambda: first.pop() if first else session.image.filesystem(session.locator),
            ShellCommands(str(session.options.image), _chosen(session.options)),
            facts,
            volume,
            check,
            [open_list(path) for path in lists],
            list(map(str, lists)),
            case,
        )
    )


def _chosen(options: CommonOptions) -> list[str]:
    """The options that select the file system, as they were given."""
    given: list[tuple[str, object]] = [
        ("--volume", options.volume),
        ("--offset", options.offset),
        ("--superblock", options.superblock),
        ("--journal", options.journal),
        ("--format", options.form),
        *(("--password-file", path) for path in options.password_files),
        *(("--key-file", path) for path in options.key_files),
    ]
    words = [word for name, value in given if value is not None for word in (name, str(value))]
    return words if options.replay else [*words, "--no-replay"]


def _serve(port: int) -> None:
    """Serve the same command in a browser, on the loopback."""
    from ext4kit.browse.web import serve

    words = list(click.get_current_context().find_root().obj or ())
    serve(shlex.join([sys.executable, "-m", "ext4kit", *without_web(words)]), port)


def without_web(words: list[str]) -> list[str]:
    """The words of the command, without the options of the browser."""
    found, rest = list[str](), iter(words)
    for word in rest:
        if word == "--port":
            next(rest, None)
        elif not word.startswith("--port=") and word != "--web":
            found.append(word)
    return found
