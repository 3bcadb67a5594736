"""A layer for the Navigator of MITRE ATT&CK: the techniques of which an image has signs.

Source: the layer format 4.5 of the ATT&CK Navigator.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from ext4kit.triage import Indicator, Weight

_SCORES = {Weight.STRONG: 2, Weight.LOOK: 1}
_COLORS = ["#ffffff", "#ffe08a", "#e0453a"]


def navigator_layer(found: Iterable[Indicator], name: str) -> str:
    """The layer as JSON text; the score of a technique is that of its strongest sign.

    Args:
        found: the rules that matched.
        name: of the layer.
    """
    signs: dict[str, list[Indicator]] = {}
    for one in found:
        for technique in one.rule.attack:
            signs.setdefault(technique, []).append(one)
    layer = {
        "name": name,
        "versions": {"layer": "4.5", "navigator": "5.0.0"},
        "domain": "enterprise-attack",
        "description": "Techniques of which ext4kit found signs. 2: strong, 1: worth a look.",
        "techniques": [_technique(technique, signs[technique]) for technique in sorted(signs)],
        "gradient": {"colors": _COLORS, "minValue": 0, "maxValue": 2},
    }
    return json.dumps(layer, indent=2) + "\n"


def _technique(technique: str, signs: list[Indicator]) -> dict[str, object]:
    return {
        "techniqueID": technique,
        "score": max(_SCORES[one.rule.weight] for one in signs),
        "comment": "; ".join(f"{one.rule.title} ({one.count})" for one in signs),
    }
