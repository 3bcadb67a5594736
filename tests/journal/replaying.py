"""The command line called in this process, for tests that call it often."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ext4kit.cli import main


@dataclass(frozen=True, slots=True)
class Done:
    """What a command said and how it ended."""

    exit_code: int
    stdout: str
    stderr: str

    def records(self, kind: str) -> list[dict[str, Any]]:
        """The JSON records of one kind."""
        found = [json.loads(line) for line in self.stdout.splitlines()]
        return [record for record in found if record["record"] == kind]


def called(*arguments: str | Path) -> Done:
    """Run one command; an error that it did not expect fails the test."""
    written, err = io.BytesIO(), io.StringIO()
    out = io.TextIOWrapper(written, encoding="utf-8", write_through=True)
    with redirect_stdout(out), redirect_stderr(err):
        code = main.run([str(each) for each in arguments])
    done = Done(code, written.getvalue().decode(), err.getvalue())
    assert "internal error" not in done.stderr, done.stderr
    return done


def replayed(image: Path, copy: Path, *options: str | Path) -> Done:
    """Write a replayed copy."""
    return called("journal", "replay", image, "-o", copy, *options)
