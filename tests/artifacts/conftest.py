"""A sample for tests that mount nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from sample_images import unpack


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sample from which a whole tree was removed."""
    return unpack("rm_rf_tree", tmp_path_factory.mktemp("sample")).image
