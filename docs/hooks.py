"""What the build of the documentation does beyond mkdocs.

- The examples and the changelog become pages, so that links to them lead somewhere in the site as well as in a clone.
- The build fails if a page would load anything from another machine.
"""
# ruff: noqa: INP001 - mkdocs loads it by its path

import ast
import posixpath
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
GENERATED = ("changelog.md", "examples.md")
"""Pages that are made by the build, from files outside of docs/."""
LANGUAGES = {"": "sh", ".sh": "sh", ".toml": "toml", ".py": "python"}
"""How files of examples are shown."""
LOADS = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
}
"""Elements that load something, and the attribute that says what."""
LOADING_LINKS = {"stylesheet", "preload", "modulepreload", "preconnect", "dns-prefetch", "icon", "manifest"}
"""Kinds of <link> that do."""


def changelog() -> str:
    """The page of the changelog."""
    return (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def examples() -> str:
    """The page of the examples: what each says about itself, and its text."""
    parts = ["# Examples\n\nComplete programs, to run from a clone: `python examples/demo.py`. They are tested, too.\n"]
    for path in sorted((ROOT / "examples").glob("*.py")):
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        about = (ast.get_docstring(tree) or "").split("\n\n")[0]
        rest = "".join(source.splitlines(keepends=True)[tree.body[0].end_lineno :]).strip("\n")
        parts.append(f"## {path.name} {{ #{path.stem} }}\n\n{about}\n\n```python\n{rest}\n```\n")
    for folder in sorted(path for path in (ROOT / "examples").iterdir() if path.is_dir() and path.name[0] not in "_."):
        parts.append(f"## {folder.name}/ {{ #{folder.name} }}\n")
        for path in sorted(path for path in folder.iterdir() if path.is_file()):
            language = LANGUAGES.get(path.suffix, "text")
            parts.append(f"`{path.name}`:\n\n```{language}\n{path.read_text(encoding='utf-8').strip()}\n```\n")
    return "\n".join(parts)


def relinked(markdown: str, page: str) -> str:
    """A page whose links to examples, changelog and README lead to pages of the site.

    Args:
        markdown: The page.
        page: Its path within docs/.
    """
    folder = posixpath.dirname(page)

    def instead(match: re.Match[str]) -> str:
        outside = posixpath.normpath(posixpath.join("docs", folder, match[1]))
        inside = _inside(outside, match[2] or "")
        return match[0] if inside is None else f"]({posixpath.relpath(inside[0], folder or '.')}{inside[1]})"

    return re.sub(r"\]\(((?:\.\./)+[\w./-]+)(#[\w-]+)?\)", instead, markdown)


def _inside(path: str, anchor: str) -> tuple[str, str] | None:
    """The page of the site, and the place in it, that stands for a file of the project; None for other files."""
    if path == "CHANGELOG.md":
        return "changelog.md", anchor
    if path == "README.md":
        return "index.md", ""
    if path == "examples":
        return "examples.md", ""
    if path.startswith("examples/"):
        return "examples.md", f"#{path.split('/')[1].removesuffix('.py')}"
    return None


class _Loads(HTMLParser):
    """Collects what a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One element."""
        given = {name: value or "" for name, value in attrs}
        if tag in LOADS:
            self.found += [given.get(LOADS[tag], ""), *given.get("srcset", "").split()]
        if tag == "link" and LOADING_LINKS & set(given.get("rel", "").split()):
            self.found.append(given.get("href", ""))


def external(html: str) -> list[str]:
    """What a page would load from another machine: scripts, styles, fonts and images; links to follow are none."""
    parser = _Loads()
    parser.feed(html)
    return [each for each in [*parser.found, *in_styles(html)] if re.match(r"(https?:)?//", each)]


def in_styles(css: str) -> Iterator[str]:
    """What styles refer to."""
    yield from (match[1] for match in re.finditer(r"""(?:url\(|@import\s)\s*["']?([^"')\s;]+)""", css))


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are generated."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - only a build has it

    for name, make in zip(GENERATED, (changelog, examples), strict=True):
        files.append(File.generated(config, name, content=make()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Mend the links that lead out of docs/."""
    return relinked(markdown, page.file.src_uri)


def on_post_build(config: Any) -> None:
    """Fail if anything would be loaded from elsewhere."""
    from mkdocs.exceptions import PluginError  # noqa: PLC0415 - only a build has it

    site = Path(config.site_dir)
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        text = path.read_text(encoding="utf-8")
        loads = (
            external(text) if path.suffix == ".html" else [e for e in in_styles(text) if re.match(r"(https?:)?//", e)]
        )
        if loads:
            raise PluginError(f"{path.relative_to(site)} loads {loads[0]} from elsewhere: the site must work offline")
