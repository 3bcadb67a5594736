"""Images that others broke on purpose: every reader ends, and only with errors of our own."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import ext4kit
from ext4kit.errors import Ext4kitError
from ext4kit.recovery import find_deleted
from tests.cases import MISSING, records, unpack

PIECES = 64  # of each file: an inode may claim any size


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged")
    unpack(folder, [record["image"] for record in records()])
    return folder


@pytest.mark.skipif(not records(), reason=MISSING)
@pytest.mark.parametrize("case", records(), ids=lambda case: str(case["name"]))
def test_a_damaged_image_is_read_or_refused_in_our_own_words(
    case: dict[str, Any], images: Path
) -> None:
    try:
        with ext4kit.open(images / case["image"]) as image:
            fs = image.volume().filesystem()
            names = len(fs.tree())
            for file in find_deleted(fs, versions=True):
                content = file.content()
                for chunk in islice(content.chunks() if content else (), PIECES):
                    assert chunk.length > 0
            assert names >= 0
    except Ext4kitError as error:
        assert str(error)
        assert "\n" not in str(error)
