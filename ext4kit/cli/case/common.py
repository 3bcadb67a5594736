"""What the commands of a case share: the option that names it, and keys for its images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ext4kit.cases.folder import CaseFolder
from ext4kit.cli.options import KEY_FILES, Command

case_option = click.option(
    "--case", "case", default=Path(), metavar="DIR", type=click.Path(path_type=Path),
    callback=lambda _context, _option, value: CaseFolder.around(value),
    help="The folder of the case; by default the one that the current folder is in.",
)  # fmt: skip


def key_options(command: Command) -> Command:
    """Give a command the options for keys."""
    for option in reversed(KEY_FILES):
        command = option(command)
    return command


def key_words(password_files: Sequence[Path], key_files: Sequence[Path]) -> list[str]:
    """The same options for the commands of the jobs, which run in folders of their own."""
    found = list[str]()
    for name, files in (("--password-file", password_files), ("--key-file", key_files)):
        for file in files:
            found += [name, str(file.absolute())]
    return found
