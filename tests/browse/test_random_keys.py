"""Some seconds of random keys on damaged images."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("textual")

from tests.browse.random_keys import one  # noqa: E402
from tests.fuzz import images  # noqa: E402

pytestmark = pytest.mark.skipif(bool(images.missing()), reason=images.missing())


def test_random_keys_raise_nothing(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    seed = request.config.option.seed * 1000
    for number in range(3):
        asyncio.run(one(seed + number, 1.5, tmp_path))
