"""`python -m ext4kit`."""

from __future__ import annotations

from ext4kit.cli.main import main

if __name__ == "__main__":
    main()
