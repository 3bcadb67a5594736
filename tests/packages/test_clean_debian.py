"""Systems that debootstrap makes have no difference; `dpkg --verify` judges a changed one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.packages.making import copy_tree, findings_in, image_of, kinds, needs
from tests.packages.test_dpkg_systems import overwritten, verified

SUITES = ("bookworm", "trixie")


@pytest.fixture(scope="module", params=SUITES)
def debian(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new Debian."""
    needs("debootstrap", "dpkg", "mke2fs")
    root = tmp_path_factory.mktemp("debian") / "root"
    done = subprocess.run(["debootstrap", "--variant=minbase", str(request.param), str(root)],
                          capture_output=True, text=True, check=False)  # fmt: skip
    if done.returncode:
        pytest.skip(f"debootstrap: {done.stdout.splitlines()[-1:]}")
    return root


def real(root: Path, path: str) -> str:
    """Where a listed path is, as /lib is a link to /usr/lib."""
    place = root / path.lstrip("/")
    return f"/{(place.parent.resolve() / place.name).relative_to(root.resolve())}"


@pytest.mark.slow
def test_a_new_debian_has_no_difference(debian: Path, tmp_path: Path) -> None:
    with findings_in(image_of(debian, tmp_path / "image", 900 << 20)) as found:
        assert kinds(found) == verified(debian) == set()
        assert len(found.database.packages) > 70 and found.check.hashed > 3000


@pytest.mark.slow
def test_a_changed_debian(debian: Path, tmp_path: Path) -> None:
    root = copy_tree(debian, tmp_path / "root")
    pam = next(root.glob("usr/lib/*/security/pam_unix.so"))
    overwritten(pam, b"\x7fELF\x02\x01\x01\x00evil")
    (root / "usr/bin/tac").unlink()
    (root / "etc/debconf.conf").write_text("x")
    (root / "usr/lib/evil.so").write_text("x")
    expected = {(kind, real(root, path)) for kind, path in verified(root)}
    assert len(expected) == 3
    with findings_in(image_of(root, tmp_path / "image", 900 << 20)) as found:
        assert kinds(found) == {*expected, ("foreign", "/usr/lib/evil.so")}
