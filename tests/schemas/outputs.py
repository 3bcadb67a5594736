"""Every command run with `--json` inside this process, and the records that it printed."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from ext4kit.cli import main
from ext4kit.cli.schemas import schema_names, schema_text
from sample_images.recipes.score import read_records

FOLDER = "OUT"  # stands for a new output folder or file in a command's arguments

DEFINITIONS = str(Path(__file__).parents[1] / "fuzz/definitions")
LIST = str(Path(__file__).parents[1] / "fuzz/known-list.csv")
RULES = str(Path(__file__).parents[1] / "fuzz/some-rules.yar")

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("volumes", "IMAGE"),
    ("volumes", "IMAGE", "--scan"),
    ("hash", "IMAGE"),
    ("hash", "IMAGE", "--verify"),
    ("hash", "IMAGE", "--expect", "d41d8cd98f00b204e9800998ecf8427e"),
    ("hash", "IMAGE", "--files"),
    ("hash", "IMAGE", "--window", "5M"),
    ("info", "IMAGE", "-g"),
    ("info", "IMAGE", "--lost"),
    ("ls", "IMAGE", "-r"),
    ("ls", "IMAGE", "-a"),
    ("ls", "IMAGE", "-r", "--view", "all"),
    ("stat", "IMAGE", "/", "--view", "deleted"),
    ("stat", "IMAGE", "/", "<1>", "<7>", "<8>", "<12>", "<13>"),
    ("extract", "IMAGE", "/", "-o", FOLDER, "--verify-evidence"),
    ("extract", "IMAGE", "/", "-o", FOLDER, "--as-of", "3"),
    ("deleted", "IMAGE", "--versions", "--names"),
    ("deleted", "IMAGE", "--lost"),
    ("deleted", "IMAGE", "--known", LIST),
    ("ls", "IMAGE", "-r", "--known", LIST),
    ("ls", "IMAGE", "-r", "--view", "deleted", "--known", LIST),
    ("recover", "IMAGE", "--versions", "-o", FOLDER, "--operator", "N. N.", "--case-number", "17"),
    ("recover", "IMAGE", "--lost", "-o", FOLDER),
    ("scan", "IMAGE", "-o", FOLDER, "--part", "2/2"),
    ("explain", "IMAGE", "<12>"),
    ("explain", "IMAGE", "<13>", "--versions"),
    ("who", "IMAGE", "0-1700"),
    ("who", "IMAGE", "--byte", "99000"),
    ("verify", "IMAGE"),
    ("crosscheck", "IMAGE", "--hashes", "--patience", "5"),
    ("journal", "list", "IMAGE"),
    ("journal", "audit", "IMAGE", "--all"),
    ("journal", "replay", "IMAGE", "-o", FOLDER),
    ("journal", "history", "IMAGE", "<2>", "--entries"),
    ("journal", "history", "IMAGE", "--block", "1"),
    ("ls", "IMAGE", "-r", "--as-of", "3"),
    ("stat", "IMAGE", "<11>", "<12>", "--as-of", "3"),
    ("timeline", "IMAGE"),
    ("artifacts", "IMAGE", "--all"),
    ("rules",),
    ("rules", "--on", "IMAGE"),
    ("roots", "IMAGE"),
    ("ls", "IMAGE", "-r", "--view", "roots"),
    ("artifacts", "IMAGE", "--artifact-definitions", DEFINITIONS, "OurFiles", "--files"),
    ("packages", "IMAGE", "--all"),
    ("packages", "IMAGE", "--list"),
    ("search", "IMAGE", "--text", "the", "--regex", "[0-9]{3,}", "--limit", "200"),
    ("search", "IMAGE", "--text", "the", "-l"),
    ("search", "IMAGE", "--text", "a", "--known", LIST, "--hashes", LIST, "-o", FOLDER),
    ("search", "IMAGE", "--text", "the", "--yara", RULES, "--inside", "--limit", "200"),
    ("logs", "IMAGE", "--all"),
    ("timeline", "IMAGE", "--all-logs"),
    ("report", "IMAGE"),
    ("report", "IMAGE", "--known", LIST, "--known-bad", LIST),
    ("export", "IMAGE", "--db", FOLDER),
    ("export", "IMAGE", "--jsonl", FOLDER),
)


def records_of(
    command: tuple[str, ...], image: Path, folder: Path
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(kind, record) of what a command prints, then of its manifest, case or file of records."""
    out = folder / "out"
    stands_for = {"IMAGE": str(image), FOLDER: str(out)}
    text = said([*(stands_for.get(word, word) for word in command), "--json", "-q"])
    for line in text.splitlines():
        yield _with_kind(json.loads(line))
    if out.is_dir():
        yield from (("manifest", record) for record in read_records(out))
        yield _with_kind(json.loads((out / "case.json").read_text(encoding="utf-8")))
        shutil.rmtree(out)
    elif out.exists():
        if "--jsonl" in command:
            lines = out.read_text(encoding="utf-8").splitlines()
            yield from (_with_kind(json.loads(line)) for line in lines)
        out.unlink()


@cache
def validator(kind: str) -> Draft202012Validator:
    """Of the schema of a kind of record."""
    return Draft202012Validator(json.loads(schema_text(kind)))


def complaint(kind: str, record: dict[str, Any]) -> str:
    """What the schema of its kind does not allow in a record, or ""."""
    if kind not in schema_names():
        return f"no schema for {kind}"
    for error in validator(kind).iter_errors(record):
        found = [*error.context, error] if error.context else [error]
        words = "; ".join(f"{each.json_path}: {each.message[:200]}" for each in found[:4])
        return f"{kind}: {words}"
    return ""


def _with_kind(record: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return str(record["record"]), record


def said(arguments: list[str]) -> str:
    """Standard output of the program, whatever its exit code."""
    held = io.BytesIO()
    out = io.TextIOWrapper(held, encoding="utf-8", errors="backslashreplace")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        main.run(arguments)
        out.flush()
    return held.getvalue().decode()
