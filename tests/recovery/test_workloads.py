"""Files of the classic benchmarks come back as far as they are there, and nothing false is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from sample_images.recipes.workloads import LAYOUTS, WORKLOADS, judged

pytestmark = [pytest.mark.kernel, pytest.mark.slow]


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_still_there_comes_back(
    needs_kernel: None, tmp_path: Path, layout: str, workload: str
) -> None:
    result = judged(layout, workload, tmp_path)
    assert result.states > 0
    assert result.could_exact == result.could
    assert result.paths_right == result.paths
    assert not result.intact_wrong + result.live + result.unheard_of
