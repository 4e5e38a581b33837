"""Docstrings as Markdown: what reads well in an editor is mended where a page would show it wrongly."""
# ruff: noqa: INP001 - mkdocstrings loads it by its path

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"^( *)>>> .*\n?(?:^ *\S.*\n?)*", flags=re.MULTILINE)
"""From a prompt to the next empty line."""
TOGETHER = re.compile(r"^    (\w+), (\w+(?:, \w+)*): (.*(?:\n {8,}.*)*)", flags=re.MULTILINE)
"""Attributes that are described together: the first, the others, the description."""


def mended(text: str) -> str:
    """A docstring with its doctests in fences, which Markdown takes for quotations, and an entry per attribute."""
    text = TOGETHER.sub(_one_by_one, text)
    return DOCTEST.sub(lambda match: f"{match[1]}```pycon\n{match[0].rstrip()}\n{match[1]}```\n", text)


def _one_by_one(match: re.Match[str]) -> str:
    """The first attribute with the description, the others with a pointer to it."""
    first, others, description = match.groups()
    return "\n".join([f"    {first}: {description}", *(f"    {name}: See `{first}`." for name in others.split(", "))])


class Mended(griffe.Extension):
    """Changes docstrings before they are parsed."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Any object that was loaded."""
        if obj.docstring is not None:
            obj.docstring.value = mended(obj.docstring.value)
