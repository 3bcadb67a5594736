"""What other files tell of one, in scenes that the kernel acts out."""

from __future__ import annotations

from pathlib import Path

import pytest

from ext4kit.triage.suspicions.inner_roots import is_root, path_inside
from tests.report.scenes import plain
from tests.triage.test_rule_scenes import signs_after

LOG = "var/log/nginx/access.log"
FILLED = f"head -c 9000 /dev/zero | tr '\\0' x > {LOG}\nsync\n"
SHOWN = b"/" + LOG.encode()


@pytest.fixture(scope="module")
def quiet_system(needs_kernel: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plain(tmp_path_factory.mktemp("neighbours"))


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("script", "is_sign"),
    [
        (f"cp {LOG} {LOG}.1\n: > {LOG}", False),
        (f"cp {LOG} {LOG}.1\ngzip {LOG}.1\n: > {LOG}", False),
        (f"head -c 8999 {LOG} > {LOG}.1\n: > {LOG}", True),
        (f"cp {LOG} tmp/copy\n: > {LOG}", True),
    ],
    ids=["copied", "packed", "copied in part", "copied elsewhere"],
)
def test_a_log_of_which_a_copy_stands_beside_it_is_no_sign(
    quiet_system: Path, tmp_path: Path, script: str, is_sign: bool
) -> None:
    found = signs_after(quiet_system, FILLED + script, tmp_path / "image")
    assert (SHOWN in found.get("log-emptied", set())) == is_sign


@pytest.mark.kernel
def test_rules_match_in_a_layer_as_in_a_root(quiet_system: Path, tmp_path: Path) -> None:
    """Also in one that was removed; setuid programs are where a package puts them."""
    layers = "var/lib/docker/overlay2"
    script = f"""
    for layer in a b; do
      mkdir -p {layers}/$layer/diff/usr/bin {layers}/$layer/diff/tmp
      cp usr/bin/su {layers}/$layer/diff/usr/bin/su
      cp usr/bin/su {layers}/$layer/diff/tmp/su
      chmod 4755 {layers}/$layer/diff/usr/bin/su {layers}/$layer/diff/tmp/su
    done
    sync
    rm -r {layers}/b
    """
    found = signs_after(quiet_system, script, tmp_path / "image")
    expected = {f"/{layers}/{layer}/diff/tmp/su".encode() for layer in "ab"}
    assert found["setuid-place"] == expected


def test_the_innermost_root_counts() -> None:
    layer = b"/var/lib/docker/overlay2/a1/diff"
    inside = layer + b"/var/lib/machines/web"
    folders = [b"/", b"/etc", layer, layer + b"/etc", b"/var/lib/docker"]
    assert list(filter(is_root, folders)) == [layer]
    assert is_root(inside)
    assert path_inside(inside + b"/etc/passwd") == b"/etc/passwd"
    assert path_inside(layer + b"/etc/passwd") == b"/etc/passwd"
    assert path_inside(layer + b"2/etc/passwd") == layer + b"2/etc/passwd"
    assert path_inside(layer) == layer
