"""`ext4kit rules`."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from itertools import chain
from pathlib import Path

import click

from ext4kit.cli.help import GroupedCommand
from ext4kit.cli.options import CONTEXT, CommonOptions
from ext4kit.cli.rule_files import rules_option
from ext4kit.cli.session import opened, show
from ext4kit.errors import RequestError
from ext4kit.report.rules import match_lines, rule_lines, rule_record, rule_text
from ext4kit.triage import Indicator, Rule, TriageOptions, triage

_EXAMPLE = """\b
Examples:
  ext4kit rules
  ext4kit rules setuid-place upload-script
  ext4kit rules --rules our-rules.yaml --on disk.img
  ext4kit rules --json | jq -r 'select(.attack[] == "T1505.003") | .code'
"""


@click.command("rules", cls=GroupedCommand, context_settings=CONTEXT, epilog=_EXAMPLE)
@click.argument("codes", nargs=-1, metavar="[CODE]...")
@rules_option
@click.option("--on", "image", metavar="IMAGE", type=click.Path(path_type=Path),
              help="Count the files of this image that match; list those of CODEs.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines, one record each.")
def command(
    codes: tuple[str, ...], rules: tuple[Rule, ...], image: Path | None, as_json: bool
) -> None:
    """List the rules by which `report` finds signs of tampering and intrusion.

    With CODEs, all of these rules: why they matter, harmless causes, techniques of MITRE ATT&CK,
    and what they match. With --rules, rules of your own are read, checked and added; a rule with
    the code of a known one takes its place.

    Rules are YAML files; docs/rules.md has all keys, with examples.
    """
    wanted = _wanted(rules, codes)
    options = CommonOptions(image or Path(), json=as_json)
    found = None if image is None else _found(options, rules)
    matches = None if found is None else {code: one.count for code, one in found.items()}
    count = None if matches is None else matches.get
    records = (rule_record(rule, count and count(rule.code, 0)) for rule in wanted)
    if codes and found is None:
        show(options, records, (line for rule in wanted for line in rule_text(rule)))
    elif codes and found is not None:
        files = (line for code in codes if code in found for line in match_lines(found[code]))
        show(options, records, chain(rule_lines(wanted, matches), files))
    else:
        show(options, records, rule_lines(wanted, matches))


def _wanted(rules: Sequence[Rule], codes: Sequence[str]) -> list[Rule]:
    """The rules with these codes; all without codes.

    Raises:
        RequestError: there is no rule of a code.
    """
    by_code = {rule.code: rule for rule in rules}
    for code in codes:
        if code not in by_code:
            near = "".join(f"; near: {one}" for one in get_close_matches(code, by_code, 1))
            raise RequestError(f"{code}: there is no such rule{near}; `ext4kit rules` lists all")
    return [by_code[code] for code in codes] or list(rules)


def _found(options: CommonOptions, rules: Sequence[Rule]) -> dict[str, Indicator]:
    """Code of each rule that files of an image match -> these files."""
    with opened(options) as session:
        extent = TriageOptions(verify=False, names=False, rules=rules, packages=True)
        found = triage(session.workspace, extent, session.step).suspicions
        return {one.rule.code: one for one in found}
