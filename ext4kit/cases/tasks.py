"""What can be done with each volume of a case: commands of this program, and their outputs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CaseTask:
    """A command, with outputs in the folder of its job.

    Attributes:
        name: as users type it.
        words: the command and its options.
        quick: further options for a first run that reads the journal and the inode tables alone;
            None if there is no such run.
        outputs: files that are there when it has ended well.
        stdout: file for the standard output; "" for none.
        last: kind of the record with which the standard output ends; "" for none.
        takes_custody: whether it hashes the evidence and names the operator.
        takes_scan: whether its full run scans the unallocated space, or takes a scan of it.
    """

    name: str
    words: tuple[str, ...]
    quick: tuple[str, ...] | None = None
    outputs: tuple[str, ...] = ()
    stdout: str = ""
    last: str = ""
    takes_custody: bool = False
    takes_scan: bool = False


PAGE, RECORDS, DATABASE = "report.html", "report.jsonl", "files.sqlite"
TASKS = {
    task.name: task
    for task in (
        CaseTask("report", ("report", "--json", "--html", PAGE), ("--quick",), (PAGE,), RECORDS,
                 takes_custody=True, takes_scan=True),
        CaseTask("export", ("export", "--db", DATABASE, "--hash", "sha256"),
                 ("--sources", "journal"), (DATABASE,), takes_custody=True, takes_scan=True),
        CaseTask("verify", ("verify", "--json"), stdout="verify.jsonl", last="summary"),
        CaseTask("timeline", ("timeline", "--json"), stdout="timeline.jsonl", last="summary"),
        CaseTask("recover", ("recover", "-o", "files"), outputs=("files/case.json",),
                 takes_custody=True, takes_scan=True),
    )
}  # fmt: skip
USUAL = ("report", "export", "verify")
QUICK = "-quick"  # ends the names of first runs
SCAN = "scan"  # folder of the parts of a scan, beside those of the tasks
_PART = "part.scan"


def scan_task(part: int, parts: int) -> str:
    """The name of the task that makes a part of a scan, and its folder."""
    return f"{SCAN}/{part:0{len(str(parts))}}-of-{parts}"


def is_scan(name: str) -> bool:
    """Whether a task makes a part of a scan."""
    return name.startswith(f"{SCAN}/")


def task_of(name: str) -> CaseTask:
    """The task of a job, also of a first run or a part of a scan."""
    if not is_scan(name):
        return TASKS[name.removesuffix(QUICK)]
    part, _, parts = name.removeprefix(f"{SCAN}/").partition("-of-")
    words = (SCAN, "--part", f"{int(part)}/{parts}", "-o", _PART)
    return CaseTask(name, words, outputs=(_PART,))
