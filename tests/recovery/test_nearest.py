"""A path that is not there leads to those that a person means."""

from __future__ import annotations

import pytest

from ext4kit.recovery.nearest import Likeness, nearest_paths

PATHS = (
    b"/home/anna/Documents/thesis.odt", b"/home/anna/Documents/sub/x.txt", b"/etc/passwd",
    b"/home/anna/Photos/IMG_0001.JPG", b"/home/anna/Photos/IMG_0002.JPG", b"/var/log/syslog",
    b"/srv/caf\xe9/menu", b"orphan-name.doc",
)  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "likeness", "path"),
    [
        (b"/mnt/home/anna/Documents/thesis.odt", Likeness.OTHER_ROOT, PATHS[0]),
        (b"/media/usb/home/anna/Documents", Likeness.OTHER_ROOT, b"/home/anna/Documents"),
        (b"Documents/sub/x.txt", Likeness.BELOW, PATHS[1]),
        (b"~/Documents", Likeness.BELOW, b"/home/anna/Documents"),
        (b"/HOME/anna/documents/Thesis.ODT", Likeness.CASE, PATHS[0]),
        (b"/home/bob/thesis.odt", Likeness.NAME, PATHS[0]),
        (b"passwords", Likeness.SIMILAR, b"/etc/passwd"),
        (b"*THESIS*", Likeness.PART, PATHS[0]),
        (b"log", Likeness.BELOW, b"/var/log"),
        (b"/home/anna/thesis.odg", Likeness.SIMILAR, PATHS[0]),
        (b"orphan", Likeness.PART, b"orphan-name.doc"),
        (b"/home/anna/Photos/img-1.jpg", Likeness.NUMBER, PATHS[3]),
        (b"img 2", Likeness.NUMBER, PATHS[4]),
        (b"/mnt/disk/home/", Likeness.OTHER_ROOT, b"/home"),
        (b"/srv/caf\xe9/Menu", Likeness.CASE, b"/srv/caf\xe9/menu"),
    ],
)
def test_the_nearest_path_is_first(wanted: bytes, likeness: Likeness, path: bytes) -> None:
    assert nearest_paths(wanted, PATHS)[0] == (likeness, path)


def test_what_is_like_nothing_has_no_near_path() -> None:
    assert nearest_paths(b"/zzz/qqqqqqq", PATHS) == []
    assert nearest_paths(b"", PATHS) == []
    assert nearest_paths(b"/", PATHS) == []


def test_a_pattern_gives_what_fits_without_case() -> None:
    found = nearest_paths(b"*.jpg", PATHS)
    assert {one.path for one in found} == {PATHS[3], PATHS[4]}


def test_no_more_are_given_than_asked_for() -> None:
    many = [b"/a/file-%d" % n for n in range(100)]
    assert len(nearest_paths(b"file", many, most=5)) == 5
