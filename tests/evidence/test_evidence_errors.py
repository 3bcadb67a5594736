"""What cannot be evidence is refused in one line: what, where, what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ext4kit.errors import AccessError
from ext4kit.evidence import open_evidence
from tests.environment import is_root


def _refusal(path: str | Path) -> str:
    with pytest.raises(AccessError) as caught:
        open_evidence(path)
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    return text


def test_a_missing_file(tmp_path: Path) -> None:
    assert "No such file" in _refusal(tmp_path / "nothing.img")
    assert "No such file" in _refusal(str(tmp_path / "nothing.001"))


def test_a_folder(tmp_path: Path) -> None:
    assert "directory" in _refusal(tmp_path)


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "a.img").touch()
    assert "empty" in _refusal(tmp_path / "a.img")


def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "pipe" in _refusal(tmp_path / "pipe")


def test_a_character_device() -> None:
    assert "character device" in _refusal("/dev/zero")


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.img"
    path.write_bytes(b"x")
    path.chmod(0)
    if is_root():  # root may read anything: let the system call refuse

        def refuse(*_arguments: object) -> int:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(os, "open", refuse)
    assert "Permission denied" in _refusal(path)


def test_no_file_stays_open_after_a_refusal(tmp_path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("needs /proc")
    for name, data in (("a.001", b"x"), ("a.002", b"")):
        (tmp_path / name).write_bytes(data)
    before = sorted(descriptors.iterdir())
    with pytest.raises(AccessError, match=r"a\.002"):
        open_evidence(tmp_path / "a.001")
    assert sorted(descriptors.iterdir()) == before
