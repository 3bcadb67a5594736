"""Rules of signs as lines and as records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, TypedDict

from ext4kit.report.phrases import count_text
from ext4kit.report.safe import printable_text, shown
from ext4kit.report.tables import table_lines
from ext4kit.triage import Indicator
from ext4kit.triage.rules.rule import Rule, Weight

MATCHES_LISTED = 50
_TECHNIQUES = "https://attack.mitre.org/techniques/"


class RuleRecord(TypedDict):
    """A rule of signs (`rules`)."""

    record: Literal["rule"]
    code: Annotated[str, "Name of the rule, as in `sign`."]
    family: Annotated[str, "Name of the file that has it."]
    weight: Weight
    title: str
    why: Annotated[str, "Why a match matters."]
    innocent: Annotated[list[str], "Harmless causes of a match."]
    attack: Annotated[list[str], "Techniques of MITRE ATT&CK."]
    references: Annotated[list[str], "Pages about it."]
    look: Annotated[list[str], "What it looks at."]
    paths: Annotated[list[str], "Patterns of paths that match."]
    unless: Annotated[list[str], "Patterns of paths that do not match."]
    conditions: Annotated[list[str], "Further conditions."]
    matches: Annotated[int | None, ("minimum", 0), "Files of the image that match (--on IMAGE)."]


def rule_record(rule: Rule, matches: int | None) -> RuleRecord:
    """A rule as a record.

    Args:
        rule: the rule.
        matches: number of files of an image that match it; None if none was asked.
    """
    return {
        "record": "rule",
        "code": rule.code,
        "family": rule.family,
        "weight": rule.weight,
        "title": rule.title,
        "why": rule.why,
        "innocent": list(rule.innocent),
        "attack": list(rule.attack),
        "references": list(rule.references),
        "look": sorted(rule.look),
        "paths": list(rule.paths),
        "unless": list(rule.unless),
        "conditions": conditions_of(rule),
        "matches": matches,
    }


def conditions_of(rule: Rule) -> list[str]:
    """The conditions of a rule besides the path, each as a text."""
    found = [f"{kind} event" for kind in rule.events]
    found += [f"hint {kind.code}" for kind in rule.hints]
    found += sorted(rule.needs) + [f"not {trait}" for trait in sorted(rule.lacks)]
    if rule.mentions:
        texts = (text.decode("utf-8", "backslashreplace") for text in rule.mentions)
        found.append(f"content mentions one of {', '.join(texts)}")
    for what, pattern in (
        ("name", rule.name),
        ("content", rule.content),
        ("no content", rule.without),
        ("an added line", rule.added),
        ("start of a comment", rule.comments),
        *((f"attribute {name}", value) for name, value in rule.attributes),
    ):
        if pattern is not None:
            found.append(f"{what} matches {pattern.pattern.decode('utf-8', 'backslashreplace')}")
    return found


def rule_lines(rules: Sequence[Rule], matches: Mapping[str, int] | None) -> Iterator[str]:
    """A table of rules, strong ones first in each family."""
    headings = ["weight", "code", "attack", "title"]
    order = sorted(rules, key=lambda rule: (rule.family, rule.weight != Weight.STRONG))
    rows = [
        [rule.weight.value, rule.code, ", ".join(rule.attack), printable_text(rule.title)]
        for rule in order
    ]
    if matches is not None:
        headings.insert(0, "matches")
        for rule, row in zip(order, rows, strict=True):
            row.insert(0, f"{matches.get(rule.code, 0):,}")
    right = {0} if matches is not None else set()
    yield from table_lines(headings, [tuple(row) for row in rows], right=right)
    yield ""
    strong = sum(rule.weight is Weight.STRONG for rule in rules)
    yield f"{count_text(len(rules), 'rule')}, {strong} strong; `ext4kit rules CODE` explains one"


def match_lines(found: Indicator) -> Iterator[str]:
    """The files that match a rule, with what of them matches."""
    yield ""
    yield f"{found.rule.code}:"
    for seen in found.sightings[:MATCHES_LISTED]:
        path = "(path unknown)" if seen.path is None else shown(seen.path) or "/"
        note = f"  [{printable_text(seen.note)}]" if seen.note else ""
        yield f"  {', '.join(seen.seen)}  {path}{note}"
    if found.count > MATCHES_LISTED:
        yield f"  {found.count - MATCHES_LISTED:,} more: `ext4kit report IMAGE --json`"


def rule_text(rule: Rule) -> Iterator[str]:
    """All of a rule in lines."""
    yield f"{rule.code}: {printable_text(rule.title)} ({rule.weight}, family {rule.family})"
    yield f"  why: {printable_text(rule.why)}"
    for label, texts in (
        ("harmless", rule.innocent),
        ("technique", [f"{one}  {_TECHNIQUES}{one.replace('.', '/')}/" for one in rule.attack]),
        ("page", rule.references),
        ("looks at", sorted(rule.look)),
        ("path", rule.paths),
        ("unless", rule.unless),
        ("condition", conditions_of(rule)),
    ):
        yield from (f"  {label}: {printable_text(text)}" for text in texts)
