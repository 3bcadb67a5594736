"""Contents in free blocks without any inode, which lists in the tree give a name, or must not."""

from __future__ import annotations

import hashlib
import subprocess
from typing import Any

import pytest

from sample_images.recipes.documents import document
from sample_images.recipes.score import read_records
from tests.conftest import Cli

BLOCK, FIRST, APART = 4096, 1200, 8  # bytes; the first block of contents; blocks between two
INFO = "var/lib/dpkg/info/x.md5sums"
GIVEN = {
    "once": b"usr/share/doc/x/README",
    "twice": b"usr/share/doc/x/NEWS",
    "again": b"usr/share/doc/x/NEWS",
}
NOT_GIVEN = ("living", "upwards", "names", "short", "unlisted")


def content(what: str) -> bytes:
    if what == "short":
        return b"pip\n"
    return document(f"{'twice' if what == 'again' else what}.txt", 3000)


@pytest.fixture(scope="module")
def records(ext4kit: Cli, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What came of the content of each kind, by kind."""
    top = tmp_path_factory.mktemp("listed")
    tree, image, out = top / "tree", top / "disk.img", top / "out"
    (tree / INFO).parent.mkdir(parents=True)
    lines = [(content(what), path.decode()) for what, path in GIVEN.items() if what != "again"]
    lines += [(content("living"), "etc/living.txt"), (content("upwards"), "../../etc/evil")]
    lines += [(content("names"), "usr/a.txt"), (content("names"), "usr/b.txt")]
    lines += [(content("short"), "usr/INSTALLER")]
    listed = (f"{hashlib.md5(data).hexdigest()}  {path}\n" for data, path in lines)
    (tree / INFO).write_text("".join(listed))
    (tree / "srv/chroot/etc").mkdir(parents=True)
    (tree / "srv/chroot/etc/living.txt").write_bytes(b"another version\n")
    options = ["-q", "-t", "ext4", "-b", str(BLOCK), "-O", "^has_journal", "-d", str(tree)]
    subprocess.run(["mke2fs", *options, str(image), "8M"], check=True, capture_output=True)
    kinds = [*GIVEN, *NOT_GIVEN]
    with image.open("r+b") as disk:
        for at, what in enumerate(kinds):
            disk.seek((FIRST + at * APART) * BLOCK)
            disk.write(content(what))
    done = ext4kit("recover", image, "-o", out)
    assert done.returncode == 0, done.stderr
    found = {}
    for one in read_records(out):
        what = kinds[(one["first_block"] - FIRST) // APART]
        assert (out / one["output"]).read_bytes() == content(what)
        found[what] = one
    assert list(found) == kinds
    return found


def test_a_content_gets_the_name_of_its_list_and_no_path(
    records: dict[str, dict[str, Any]],
) -> None:
    for what, path in GIVEN.items():
        one = records[what]
        assert (one["name"], one["path"]) == (path.rpartition(b"/")[2].decode(), None)
        assert (one["grade"], one["inode"], one["reasons"]) == ("carved", None, [])
        assert one["sources"]["name"] == "inferred from its digest"
        said = f"MD5 of the content in /{INFO}, for {path.decode()}"
        assert one["sources"]["digest"] == said


def test_contents_are_below_inferred_and_each_has_its_place(
    records: dict[str, dict[str, Any]],
) -> None:
    places = [records[what]["output"] for what in GIVEN]
    again = f"inferred/usr/share/doc/x/NEWS~block-{records['again']['first_block']}"
    assert places == ["inferred/usr/share/doc/x/README", "inferred/usr/share/doc/x/NEWS", again]


@pytest.mark.parametrize("what", NOT_GIVEN)
def test_a_doubtful_name_is_not_given(records: dict[str, dict[str, Any]], what: str) -> None:
    one = records[what]
    assert one["name"] is None
    assert one["output"].startswith("carved/")
    assert "digest" not in one["sources"]
