"""The program: loads commands when they are called, and handles all errors in one place."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from ext4kit import __version__
from ext4kit.cli.exits import DONE, INTERRUPTED, end_of, say
from ext4kit.cli.interrupts import INTERRUPTS
from ext4kit.cli.lazy import LazyGroup

# Name and summary of each command; its code is in the module of that name in this package.
COMMANDS = {
    "report": "Summarise an image for triage on one page.",
    "volumes": "List the partitions and volumes of an image.",
    "hash": "Compute MD5, SHA-1 and SHA-256 of the image or a volume.",
    "info": "Show the superblock, features, journal and groups.",
    "ls": "List a directory or a whole tree.",
    "stat": "Show all fields of an inode.",
    "cat": "Write the content of a file to standard output.",
    "extract": "Copy live files and trees out of the image.",
    "deleted": "List deleted files and how much of each can be recovered.",
    "recover": "Recover deleted files into a folder.",
    "scan": "Scan the unallocated space once, for --scan of other commands.",
    "versions": "List the versions of one file, and compare or write them.",
    "explain": "Explain the evidence for a deleted file, with byte offsets.",
    "who": "Tell what a block is, whose it is and whose it was.",
    "blocks": "Write unallocated blocks, slack or a file, with a map to the image.",
    "verify": "Check every checksum and cross-reference.",
    "crosscheck": "Compare the live tree as read by ext4kit and by The Sleuth Kit.",
    "journal": "List, audit, replay and search the journal.",
    "export": "Write files, events and findings for other tools.",
    "artifacts": "Count the files that ForensicArtifacts definitions name.",
    "roots": "List containers and other Linux roots, and what they changed.",
    "packages": "Compare the files of packages with their database.",
    "mount": "Mount the live, deleted and earlier files read-only.",
    "serve": "Serve the live, deleted and earlier files over WebDAV.",
    "browse": "Browse all files, past and present, in the terminal.",
    "search": "Search all bytes for texts, patterns and features.",
    "timeline": "List events and their times, from the journal.",
    "logs": "List log lines that are no longer in the logs.",
    "rules": "List, explain and try the rules of signs.",
    "case": "Examine many images, with one database for all.",
    "schema": "Print the JSON Schema of a kind of record.",
    "completion": "Print the completion script for a shell.",
}


class _Program(LazyGroup):
    """The group of all commands, with the work that is common to all of them."""

    package = "ext4kit.cli"
    summaries = COMMANDS

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; an interrupt becomes an exception for which click prints nothing.

        Raises:
            click.Abort: the command was interrupted.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise click.Abort from error
        finally:
            INTERRUPTS.is_working = False


_VERBOSE = "ext4kit.verbose"  # key in the context if `--verbose` was given


def _note_verbose(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: ARG001
    ctx.meta[_VERBOSE] = value


def _show_version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: ARG001
    """Print the version (with `--verbose`, also those of Python and the libraries) and exit.

    Raises:
        click.UsageError: `--verbose` was given without `--version`.
    """
    if not value:
        if ctx.meta[_VERBOSE]:
            ctx.fail("--verbose goes with --version")
        return
    click.echo(f"ext4kit, version {__version__}")
    if ctx.meta[_VERBOSE]:
        from ext4kit.evidence.confinement import confinement_text
        from ext4kit.versions import version_lines

        click.echo("\n".join(version_lines()))
        click.echo(f"libraries in C are confined by: {confinement_text()}")
    ctx.exit()


@click.group(
    cls=_Program,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="`ext4kit COMMAND --help` shows examples. Exit codes: 0 done; 1 the result is bad or "
    "incomplete; 2 usage; 3 the evidence cannot be opened or is not ext2/3/4; 70 an error of "
    "ext4kit itself.",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.option(
    "--verbose",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_note_verbose,
    help="With --version, also show the versions of Python and of the libraries.",
)
def program() -> None:
    """Read ext2, ext3 and ext4 evidence and recover deleted files.

    IMAGE is a raw image, the first part of a split image, a container (E01, QCOW2, VMDK,
    VHD ...) or a block device. It is opened read-only and never written.
    """
    INTERRUPTS.is_working = True


def main() -> NoReturn:
    """Run the program, then end the process with the exit code."""
    INTERRUPTS.take()
    _open_closed_streams()
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `ext4kit ls ... | head` ends quietly
    # NumPy would start threads that this program does not use.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    _leave(run(sys.argv[1:]))


def _open_closed_streams() -> None:
    """Open the null device for closed standard streams, so that no file gets their descriptors.

    For standard output it is opened read-only, so that writes fail and the failure is reported.
    """
    for descriptor, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                null = os.open(os.devnull, flags)
                if null != descriptor:
                    os.dup2(null, descriptor)
                    os.close(null)
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            with contextlib.suppress(OSError):
                stream = open(descriptor, mode, encoding="utf-8", closefd=False)  # noqa: PTH123, SIM115
                setattr(sys, name, stream)


def _leave(code: int) -> NoReturn:
    """End the process with an exit code.

    Python's own shutdown destroys all objects, which is slow, and can lose interrupts.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command.

    Returns:
        The exit code. Nothing is raised; every error is one line on stderr.
    """
    try:
        code: object = program.main(
            args=list(arguments), prog_name="ext4kit", standalone_mode=False, obj=tuple(arguments)
        )
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f" (see `{context.command_path} --help`)" if context else ""
        say(error.format_message().rstrip(".") + hint)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _interrupted()
    except Exception as error:  # noqa: BLE001 -- the one boundary
        if INTERRUPTS.came:  # the interrupt was turned into this error
            return _interrupted()
        if os.environ.get("EXT4KIT_DEBUG"):
            raise
        return end_of(error)
    if INTERRUPTS.came:  # the interrupt was lost
        return _interrupted()
    return code if isinstance(code, int) else DONE


def _interrupted() -> int:
    INTERRUPTS.say()
    return INTERRUPTED
