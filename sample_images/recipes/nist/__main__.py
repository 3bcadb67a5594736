"""`python -m sample_images.recipes.nist`: make NIST's cases, judge them, write the page."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from sample_images.recipes.machine import MachineError, missing_for_kernel
from sample_images.recipes.nist.case import KINDS, make
from sample_images.recipes.nist.cases import CASES
from sample_images.recipes.nist.page import Verdicts, page
from sample_images.recipes.nist.verdict import Verdict, judge


def main() -> int:
    """Make and judge cases; 1 when something is wrong."""
    options = _parser().parse_args()
    if options.page and options.cases:
        _parser().error("--page needs all cases")
    if reason := missing_for_kernel():
        print(f"error: NIST's cases: {reason}", file=sys.stderr)
        return 3
    try:
        verdicts = _judged(options)
    except MachineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    if options.page:
        options.page.write_text(page(verdicts, os.uname().release.split("-")[0]))
    return int(any(verdict.is_bad for verdict in verdicts.values()))


def _judged(options: argparse.Namespace) -> Verdicts:
    verdicts: Verdicts = {}
    for name in options.cases or CASES:
        for kind in KINDS:
            verdicts[name, kind] = verdict = _one(name, kind, options)
            print(f"{name:<14}{kind}  {_line(verdict)}", flush=True)
            for finding in verdict.wrong + (verdict.findings if options.verbose else []):
                print(f"    {finding}", flush=True)
    return verdicts


def _one(name: str, kind: str, options: argparse.Namespace) -> Verdict:
    if options.keep:
        return judge(make(CASES[name], kind, options.keep))
    with tempfile.TemporaryDirectory(prefix="nist-") as folder:
        return judge(make(CASES[name], kind, Path(folder)))


def _line(verdict: Verdict) -> str:
    grades = ", ".join(f"{count} {grade or 'no record'}" for grade, count in verdict.grades.items())
    return (
        f"{verdict.exact} of {verdict.possible} exact, {verdict.contents} of {verdict.files} "
        f"contents; {grades}; {verdict.carved} carved; {len(verdict.wrong)} WRONG; "
        f"CR-04 {dict(verdict.outside)}, mixed {dict(verdict.mixed)}; "
        f"listed {verdict.listed} of {verdict.live}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nist", description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], metavar="CASE")
    parser.add_argument("--page", type=Path, help="write the results here, as Markdown")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where images and truths stay")
    parser.add_argument("--verbose", action="store_true", help="what was not exact, and why")
    return parser


if __name__ == "__main__":
    sys.exit(main())
