"""A write in place is seen although the journal shows nothing of the file before it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import ext4kit
from ext4kit.recovery.search_sources import JOURNAL_ONLY
from ext4kit.triage import TriageOptions, triage
from sample_images.recipes import machine
from tests.report.scenes import acting, fresh, packaged
from tests.report.test_suspicions import found

_PAM = "usr/lib/x86_64-linux-gnu/security/pam_unix.so"
_PYTHON = "etc/python3.11/sitecustomize.py"
_OLD = 1_500_000_000


@pytest.fixture(scope="module")
def system(needs_kernel: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A system whose installation its journal does not show."""
    image = fresh(tmp_path_factory.mktemp("in-place") / "system.img")
    with acting(image) as root:
        for name in (_PAM, _PYTHON):
            packaged(root / name)
    machine.run("tune2fs", "-O", "^has_journal", image)
    machine.run("tune2fs", "-J", "size=4", image)
    return image


def written_long_ago(path: Path) -> None:
    """Write and set an old time, which a rule of times must notice."""
    path.write_bytes(b"other")
    os.utime(path, (_OLD, _OLD))


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("act", "is_sign"),
    [
        (lambda path: path.write_bytes(b"other"), True),
        (lambda path: path.chmod(0o600), False),
        (lambda path: os.setxattr(path, "user.note", b"1"), False),
        (written_long_ago, False),
    ],
)
@pytest.mark.parametrize(
    ("name", "code"), [(_PAM, "pam-module-written"), (_PYTHON, "python-start-written")]
)
def test_only_a_write_is_a_sign(
    act: Callable[[Path], object],
    is_sign: bool,
    name: str,
    code: str,
    system: Path,
    tmp_path: Path,
) -> None:
    image = tmp_path / "image"
    machine.copy_sparse(system, image)
    with acting(image) as root:
        (root / "first").touch()  # from here on the journal shows everything
        machine.sync(root)
        act(root / name)
    with ext4kit.open(image) as opened:
        extent = TriageOptions(sources=JOURNAL_ONLY, verify=False, names=False)
        signs = found(triage(opened.volume().filesystem(), extent))
    assert (signs.get(code) == {b"/" + name.encode()}) == is_sign
    assert is_sign or code not in signs
