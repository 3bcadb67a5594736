"""`ext4kit artifacts`."""

from __future__ import annotations

from pathlib import Path

import click

from ext4kit.artifacts.definitions import Catalogue, Definition
from ext4kit.artifacts.finding import (
    ArtifactCounts,
    ArtifactFile,
    count_files,
    files_of_roots,
)
from ext4kit.cli.collecting import write_collected
from ext4kit.cli.custody import Custody, custody
from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions
from ext4kit.cli.selecting import artifact_folders_option, catalogue_of, complete_artifact
from ext4kit.cli.session import opened, show
from ext4kit.cli.several import for_each_volume
from ext4kit.errors import RequestError
from ext4kit.output.collecting import CollectedItem
from ext4kit.report.artifacts import artifact_records, count_lines, file_lines
from ext4kit.report.records import write_lines
from ext4kit.report.roots import root_heading
from ext4kit.roots import LinuxRoot

_EXAMPLE = """\b
Examples:
  ext4kit artifacts disk.img
  ext4kit artifacts disk.img BashShellHistoryFile SSHAuthorizedKeysFiles --files
  ext4kit artifacts disk.img --all --json
  ext4kit artifacts disk.img LinuxAuthLogs BashShellHistoryFile -o collected
  ext4kit artifacts server.img --root web BashShellHistoryFile --files
  ext4kit artifacts disk.img --artifact-definitions our-definitions
"""


@click.command("artifacts", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@for_each_volume(zone=False, root=True)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_artifact)
@click.option("--all", "is_all", is_flag=True, help="Include definitions without files.")
@click.option("--files", "with_files", is_flag=True, help="List the files of the NAMEs.")
@click.option("-o", "--output", "out", metavar="OUT", type=click.Path(path_type=Path),
              help="Write the files into this new or empty folder.")  # fmt: skip
@artifact_folders_option
@custody
def command(
    options: CommonOptions,
    names: tuple[str, ...],
    is_all: bool,
    with_files: bool,
    out: Path | None,
    custody: Custody,
) -> None:
    """Count the files of IMAGE that definitions of ForensicArtifacts name.

    Each definition for Linux has a line: how many files exist, were deleted, and how many earlier
    versions of files there are. A group has the files of all its members. With NAMEs, only these
    definitions; other commands select their files with --artifact NAME.

    The Linux roots in IMAGE that `roots` lists follow, the layers of a container merged, each with
    its own files; --root selects one of them.

    With -o, the files of the definitions are written, each once: OUT/live, OUT/deleted and
    OUT/earlier, those of a Linux root below OUT/roots/NAME, with OUT/manifest.jsonl.

    Home directories are those of all users in /etc/passwd, also in its deleted and earlier states,
    those in /home, and /root. Paths are followed through the symlinks of the system.

    The definitions need the package artifacts: pip install 'ext4kit[artifacts]'.
    """
    if with_files and not names:
        raise RequestError("--files needs the NAME of a definition")
    catalogue = catalogue_of(click.get_current_context())
    wanted = _wanted(catalogue, names)
    with opened(options, folder=out) as session:
        is_all |= bool(names)
        items, is_kept = list[ArtifactFile](), with_files or out is not None
        workspace, roots = session.workspace, session.chosen_roots
        with session.step("searching for deleted files") as tell:
            for root, found in files_of_roots(workspace, catalogue, wanted, roots, tell):
                listed = list(found) if is_kept else []
                counts = count_files(wanted, listed if is_kept else found)
                if counts.with_files or len(roots) == 1 or root is None:
                    if len(roots) > 1 and not options.json:
                        write_lines([root_heading(root)])
                    _show(options, counts, listed if with_files else None, is_all, root)
                items += listed
        if out is not None:
            collected = (CollectedItem(one.node, None, one.root, one.path) for one in items)
            write_collected(session, collected, out, custody)


def _show(
    options: CommonOptions,
    counts: ArtifactCounts,
    listed: list[ArtifactFile] | None,
    is_all: bool,
    root: LinuxRoot | None,
) -> None:
    """Print the counts of a root, and its files if they are to be listed."""
    name = "" if root is None else root.name
    if listed is not None:
        lines = file_lines(counts, listed, options.image, name)
    else:
        lines = count_lines(counts, is_all, options.image, name)
    show(options, artifact_records(counts, listed or (), is_all, name), lines)


def _wanted(catalogue: Catalogue, names: tuple[str, ...]) -> list[Definition]:
    """The definitions with these names, each once; all for Linux without names."""
    if not names:
        return catalogue.linux
    return list({one.name: one for one in map(catalogue.find, names)}.values())
