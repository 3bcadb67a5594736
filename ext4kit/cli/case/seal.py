"""`ext4kit case seal`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import click

from ext4kit.cases.folder import CaseFolder
from ext4kit.cases.sealing import SUMS, write_sums
from ext4kit.cli.case.common import case_option
from ext4kit.cli.options import CONTEXT, quiet_option
from ext4kit.cli.progress import progress
from ext4kit.cli.telling import tell_line
from ext4kit.errors import OutputError, RequestError, UnsupportedError
from ext4kit.output.lock import locked

_EXAMPLE = """\b
Examples:
  ext4kit case seal
  ext4kit case seal --ssh-key ~/.ssh/id_ed25519
  ext4kit case seal --minisign-key examiner.key
  sha256sum --check --quiet SHA256SUMS
"""
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
NAMESPACE = "file"  # what a signature of ssh-keygen is for


@click.command("seal", context_settings=CONTEXT, epilog=_EXAMPLE)
@case_option
@click.option("--ssh-key", type=_FILE, metavar="FILE",
              help="Sign it with this SSH key, by ssh-keygen.")  # fmt: skip
@click.option("--minisign-key", type=_FILE, metavar="FILE",
              help="Sign it with this key, by minisign.")  # fmt: skip
@quiet_option
def command(case: CaseFolder, ssh_key: Path | None, minisign_key: Path | None, quiet: bool) -> None:
    """Write the SHA-256 of every file of the case into SHA256SUMS, and sign it.

    `sha256sum --check` compares the files with it. A signature is made by ssh-keygen
    (SHA256SUMS.sig, namespace "file") or minisign (SHA256SUMS.minisig). A later run of the case
    changes files: seal it again then.
    """
    if ssh_key and minisign_key:
        raise RequestError("choose one of --ssh-key and --minisign-key")
    with locked(case.path):
        with progress(quiet, "hashing the case") as show:
            count = write_sums(case.path, show)
        if ssh_key is not None:
            _sign("ssh-keygen", "-Y", "sign", "-f", str(ssh_key.absolute()), "-n", NAMESPACE, SUMS,
                  folder=case.path)  # fmt: skip
        if minisign_key is not None:
            _sign("minisign", "-S", "-s", str(minisign_key.absolute()), "-m", SUMS,
                  folder=case.path)  # fmt: skip
    if not quiet:
        tell_line(f"written: {case.path / SUMS}, {count:,} files")


def _sign(program: str, *words: str, folder: Path) -> None:
    """Let a program sign; it asks for a passphrase on the terminal if it needs one.

    Raises:
        UnsupportedError: it is not installed.
        OutputError: it failed.
    """
    if shutil.which(program) is None:
        raise UnsupportedError(f"a signature needs the program {program}; install it, or sign"
                               f" {SUMS} with another one")  # fmt: skip
    if subprocess.run([program, *words], cwd=folder, check=False).returncode:
        raise OutputError(f"{folder / SUMS}: {program} did not sign it")
