"""Makes the picture of the README: `PYTHONPATH=. python -m tests.browse.picture docs/browse.svg`.

It is of a packed sample, by a name of its own, so that nothing of this computer is in it.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from pathlib import Path

from ext4kit.browse.actions import FoundLine
from sample_images import unpack
from tests.browse.browsing import browsing


async def _picture(path: Path) -> None:
    async with browsing(Path("disk.img"), (110, 32)) as driver:
        await driver.found()
        await driver.go(FoundLine("", b"/mail/harbour/ledger/contract-0014.tar.gz"))
        await driver.press("space", "k")
        await driver.settled()
        text = driver.app.export_screenshot(title="ext4kit browse disk.img")
        plain = re.sub(r"@font-face \{.*?\}", "", text, flags=re.DOTALL)  # nothing from the network
        path.write_text(plain, encoding="utf-8")


def main() -> None:
    """Make it."""
    path = Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory(prefix="picture-") as folder:
        made = unpack("rm_rf_tree", Path(folder))
        made.image.rename(Path(folder) / "disk.img")
        os.chdir(folder)
        asyncio.run(_picture(path))


if __name__ == "__main__":
    main()
