"""HTML from Python. All that is not `Html` is escaped, so that no text of a journal becomes markup or a script."""

import hashlib
import html
import json
import re
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

VOID = frozenset({"br", "input", "meta"})
"""Elements without content."""
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What HTML cannot hold: control characters, and halves of surrogate pairs, which UTF-8 cannot hold either. And what
turns the direction of writing: a name would be read as another one."""


@dataclass(frozen=True)
class Html:
    """Text that is HTML already. Made by the functions of this module only."""

    text: str


Child = Html | str | int | None
"""What an element may contain; None is nothing."""


def escape(text: str) -> str:
    """Text as HTML, in an element or in an attribute.

    >>> escape('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return html.escape(_CONTROLS.sub("\ufffd", text), quote=True)


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Html:
    """An element.

    Args:
        name: Its name.
        *children: Its content, escaped unless it is `Html`.
        **attributes: Its attributes: `class_` is `class`, `aria_label` is `aria-label`; None and False are left out,
            True has no value.

    >>> tag("p", "a < b", tag("br"), class_="note").text
    '<p class="note">a &lt; b<br></p>'
    """
    given = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    opening = f"<{name}{given}>"
    return Html(opening if name in VOID else f"{opening}{join(*children).text}</{name}>")


def join(*children: Child) -> Html:
    """Several pieces, one after the other."""
    return Html("".join(_text(child) for child in children))


def script(source: str) -> tuple[Html, str]:
    """A script of ours or of Plotly, and what a content security policy calls it.

    Args:
        source: JavaScript. Within its strings a backslash before a slash changes nothing, but keeps the element open.
    """
    safe = source.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    digest = b64encode(hashlib.sha256(safe.encode()).digest()).decode()
    return Html(f"<script>{safe}</script>"), f"'sha256-{digest}'"


def style(source: str) -> Html:
    """A style sheet of ours."""
    return Html(f"<style>{source}</style>")


def data(identity: str, value: Any) -> Html:
    """Numbers and texts for the scripts: JSON in which nothing can end the element or begin a comment."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(f'<script type="application/json" id="{escape(identity)}">{text}</script>')


def _text(child: Child) -> str:
    if child is None:
        return ""
    return child.text if isinstance(child, Html) else escape(str(child))
