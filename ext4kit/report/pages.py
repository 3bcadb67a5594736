"""HTML pages that need no other file and execute nothing from the evidence.

Names are made printable first, and the template engine escapes every text. A content security
policy lists the hashes of the page's own script and style; the browser runs and loads nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ext4kit.report.safe import printable_text
from ext4kit.report.tables import human_size
from ext4kit.report.times import time_text
from ext4kit.zones import current_zone


def html_pieces(
    template: str, styles: Sequence[str], script: str = "", **values: object
) -> Iterator[str]:
    """The text of a page, piece by piece.

    Args:
        template: name of the page's template.
        styles: names of the page's style sheets.
        script: name of the page's script, "" for none.
        values: values for the template.
    """
    loader = PackageLoader("ext4kit.report", "template")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip  # a name without a value is an error
    environment.filters |= {"size": human_size, "when": time_text, "shown": printable_text}
    style = "".join(loader.get_source(environment, name)[0] for name in styles)
    code = loader.get_source(environment, script)[0] if script else ""
    policy = "default-src 'none'; "
    if code:
        policy += f"script-src {_hash(code)}; "
    yield from environment.get_template(template).generate(
        policy=f"{policy}style-src {_hash(style)}; base-uri 'none'; form-action 'none'",
        zone=str(current_zone()),
        script=Markup(code),  # noqa: S704 -- the page's own
        style=Markup(style),  # noqa: S704 -- the page's own
        **values,
    )


def _hash(text: str) -> str:
    """The hash of a text as a source expression of a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
