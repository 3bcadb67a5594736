"""The page of the measured rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sample_images.signs.hacking import Scene
from sample_images.signs.reading import Sign

_HEAD = """# How good the rules of signs are

`report` finds signs of tampering and intrusion by [rules](rules.md). This page says how often they
are wrong on systems that nobody broke into, and how much they miss. `python -m sample_images.signs`
installs the systems, acts the scenes out through the kernel, and writes this page. The journal
covers the use of a system and not its installation.
"""


@dataclass(frozen=True, slots=True)
class Noticed:
    """A scene and its outcome.

    Attributes:
        failed: what the script said if it failed.
        codes: the rules that named its files.
    """

    scene: Scene
    is_noticed: bool
    failed: str
    codes: tuple[str, ...]


def page(clean: Mapping[str, Sequence[Sign]], results: Sequence[Noticed]) -> str:
    """The page as Markdown."""
    parts = [
        _HEAD,
        "## False signs\n\nSystems that were used for a while, and not broken into.\n",
        *_clean_table(clean),
        "\n## Noticed techniques\n\nScenes on copies of the web server with bookworm: the scenes of"
        " the rules, others that were written\nbefore the rules, and the steps of six break-ins."
        " The rules were then mended on these\nsame scenes and systems: on others, expect more"
        " false signs and more misses.\n",
        *_techniques(results),
        "\n## Break-ins\n",
        *_stories(results),
        "\n## Missed\n",
        *_missed(results),
    ]
    return "\n".join(parts) + "\n"


def _clean_table(clean: Mapping[str, Sequence[Sign]]) -> Iterator[str]:
    yield "| system | strong | look | rules |\n|---|---|---|---|"
    for name, signs in clean.items():
        strong = sum(sign.is_strong for sign in signs)
        codes = Counter(sign.code for sign in signs)
        told = ", ".join(f"{code} {count}" for code, count in sorted(codes.items()))
        yield f"| {name} | {strong} | {len(signs) - strong} | {told} |"


def _techniques(results: Sequence[Noticed]) -> Iterator[str]:
    kinds = (
        ("rules", [one for one in results if one.scene.code]),
        ("others", [one for one in results if not one.scene.code and not one.scene.story]),
        ("break-ins", [one for one in results if one.scene.story]),
    )
    yield "| technique | " + " | ".join(name for name, _ in kinds) + " |"
    yield "|---|" + "---|" * len(kinds)
    for attack in sorted({one.scene.attack for one in results}):
        cells = [_share(one for one in some if one.scene.attack == attack) for _, some in kinds]
        yield f"| {attack or 'none'} | " + " | ".join(cells) + " |"
    yield "| **all** | " + " | ".join(f"**{_share(some)}**" for _, some in kinds) + " |"


def _share(results: Iterable[Noticed]) -> str:
    every = list(results)
    return f"{sum(one.is_noticed for one in every)} of {len(every)}" if every else ""


def _stories(results: Sequence[Noticed]) -> Iterator[str]:
    yield "| break-in | steps noticed | by |\n|---|---|---|"
    for story in dict.fromkeys(one.scene.story for one in results if one.scene.story):
        steps = [one for one in results if one.scene.story == story]
        codes = dict.fromkeys(code for one in steps for code in one.codes)
        yield f"| {story} | {_share(steps)} | {', '.join(codes)} |"


def _missed(results: Sequence[Noticed]) -> Iterator[str]:
    missed = [one for one in results if not one.is_noticed]
    if not missed:
        yield "Nothing."
    for one in missed:
        name = ": ".join(filter(None, (one.scene.code or one.scene.story, one.scene.name)))
        failed = f" (the scene failed: {one.failed.strip()!r})" if one.failed else ""
        yield f"- {one.scene.attack} {name}, {', '.join(one.scene.at[:2])}{failed}"
