"""`ext4kit packages`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions
from ext4kit.cli.session import Session, opened, show
from ext4kit.cli.several import for_each_volume
from ext4kit.errors import RequestError
from ext4kit.packages.against import read_outside
from ext4kit.packages.checking import check_some
from ext4kit.packages.database import PackageDatabase, read_packages
from ext4kit.packages.findings import PackageComparison
from ext4kit.packages.systems import PackagedSystem, packaged_systems, system_at, system_of
from ext4kit.report.packages import (
    difference_lines,
    difference_records,
    owner_answers,
    owner_lines,
    owner_records,
    package_list_lines,
    package_records,
)
from ext4kit.report.records import write_lines
from ext4kit.report.roots import root_heading

_EXAMPLE = """\b
Examples:
  ext4kit packages disk.img
  ext4kit packages disk.img --all --json
  ext4kit packages disk.img --owner /usr/bin/ssh --owner /usr/sbin/sshd
  ext4kit packages disk.img --root web
  ext4kit packages disk.img /mnt/old-system --list
  ext4kit packages disk.img --against clean.sha256
"""


@click.command("packages", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@for_each_volume(root=True)
@click.argument("path", required=False)
@click.option("--list", "is_list", is_flag=True, help="List the packages; no file is read.")
@click.option("--owner", "owners", multiple=True, metavar="FILE",
              help="Tell which packages own this path; may be given several times.")  # fmt: skip
@click.option("--all", "is_all", is_flag=True,
              help="Include what is normal: changed configuration, generated files; with --json,"
              " every path.")  # fmt: skip
@click.option("--quick", is_flag=True,
              help="Leave out times from the journal, and originals in deleted files.")  # fmt: skip
@click.option("--against", metavar="LIST", type=click.Path(path_type=Path, exists=True),
              help="Compare with this list in place of the system's own: lines of md5sum, sha1sum"
              " or sha256sum, of `hash --files`, or the root of a mounted reference.")  # fmt: skip
def command(
    options: CommonOptions,
    path: str | None,
    is_list: bool,
    owners: tuple[str, ...],
    is_all: bool,
    quick: bool,
    against: Path | None,
) -> None:
    """Compare the files of IMAGE with its database of packages.

    Databases of dpkg, rpm, apk and pacman are read: that of IMAGE itself, and those of the Linux
    roots in it that `roots` lists, the layers of a container merged. --root selects one of them,
    PATH any directory. Each file that a package owns is compared with the
    digest, size, mode, owner and link target that the database has. Files in system directories
    that no package owns are listed too, and lists that something else than the package manager
    changed.

    Where the journal shows the change, its transaction is given. If a deleted file or an earlier
    version has the content that the package installed, the command that recovers it is printed.

    --owner and --against apply to the system of IMAGE itself, or to the one that --root or PATH
    selects.

    The exit code is 1 if anything but configuration files differs, or if there is no database.
    """
    if path is not None and options.root is not None:
        raise RequestError("PATH and --root each select a system; give one of them")
    if is_list and (owners or against is not None):
        raise RequestError("--list reads no files; omit --owner and --against")
    with opened(options) as session:
        session.vouch_for_contents()
        outside = None if against is None else read_outside(against, session.fs.problems)
        systems = _systems(session, path, bool(owners or outside))
        if owners:
            _tell_owners(session, systems[0], owners, outside)
            return
        comparison = PackageComparison(session.workspace, quick or options.as_of is not None)
        for system in systems:
            if len(systems) > 1 and not options.json:
                write_lines([root_heading(system.root)])
            if is_list:
                database = read_packages(system.files)
                records = package_records(database, system.name)
                show(options, records, package_list_lines(database))
                continue
            with session.step("comparing packaged files") as tell:
                found = comparison.findings(system, outside, tell)
            session.is_incomplete |= not found.is_clean or not found.check.database.packages
            lines = difference_lines(found, is_all, options.image)
            show(options, difference_records(found, is_all), lines)


def _systems(session: Session, path: str | None, is_single: bool) -> list[PackagedSystem]:
    """The systems to compare: the selected one, or all that have a database of packages."""
    if path is not None:
        return [system_at(session.fs, session.target(path))]
    if session.root is not None:
        return [system_of(session.fs, session.root)]
    own = system_at(session.fs)
    if is_single or session.options.root is not None:
        return [own]
    return list(packaged_systems(session.fs, session.roots)) or [own]


def _tell_owners(
    session: Session,
    system: PackagedSystem,
    owners: tuple[str, ...],
    outside: PackageDatabase | None,
) -> None:
    files = [os.fsencode(one) for one in owners]
    database = outside or read_packages(system.files)
    answers = owner_answers(check_some(system.fs, system.node, database, files), files)
    session.is_incomplete = not all(one.packages for one in answers)
    show(session.options, owner_records(answers, system.name), owner_lines(answers))
