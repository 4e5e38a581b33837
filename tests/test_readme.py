"""What the README and the pages of the documentation show: it runs, it exists, and it leads somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def blocks(text: str, language: str) -> list[tuple[int, str]]:
    """The fenced blocks of a language: the line on which each one's content begins, and the content."""
    fenced = re.finditer(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, block.start(1)) + 1, block.group(1)) for block in fenced]


def outside_blocks(text: str) -> str:
    """The text without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def make_commands(text: str) -> set[str]:
    """The targets of every `make X`: on a line of a shell block, or in backquotes."""
    shell = "\n".join(block for language in ("bash", "sh", "console") for _, block in blocks(text, language))
    commands = re.findall(r"^(?:\$ )?make\b([^#\n]*)", shell, flags=re.MULTILINE)
    commands += re.findall(r"`make\b([^`\n]*)`", outside_blocks(text))
    return {word for command in commands for word in command.split() if "=" not in word}


def targets() -> set[str]:
    """The targets of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    lines = re.findall(r"^([a-z][a-z -]*):(?!=)", makefile, flags=re.MULTILINE)
    return {word for line in lines for word in line.split()}


@EVERY_PAGE
def test_the_code_on_a_page_runs(page, tmp_path, monkeypatch):
    """Somebody who pastes the Python blocks of a page one after the other sees no error and no warning."""
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": page.stem}
    for line, source in blocks(page.read_text(encoding="utf-8"), "python"):
        # As many empty lines before it as on the page: an error points to the line there.
        exec(compile("\n" * (line - 1) + source, page, "exec"), namespace)  # noqa: S102 - our own page


@EVERY_PAGE
def test_every_make_target_that_is_mentioned_exists(page):
    """`make X` on a page is a target of the Makefile."""
    assert make_commands(page.read_text(encoding="utf-8")) <= targets()


@EVERY_PAGE
def test_every_link_leads_somewhere(page):
    """A relative link is to a file of the project, one within the page is to a heading of it."""
    text = outside_blocks(page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        if path and "://" not in path:
            assert (page.parent / path).exists(), f"{page.name} links to {link}, which is not there"
        elif not path:
            assert anchor in anchors, f"{page.name} links to {link}, which is no heading of it"


def test_the_readme_shows_the_two_commands_and_code():
    """The README has Python to run and names the demo and the tests: the tests above look at something."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(blocks(text, "python")) >= 5
    assert make_commands(text) >= {"demo", "test"}
    assert targets() >= {"demo", "test", "lint"}


def test_blocks_and_commands_are_found_where_they_are():
    """The reader of pages finds blocks with their lines, and commands with arguments and comments beside them."""
    shell = "```bash\nmake demo  # makes it\nmake test WORKERS=8\n```\n"
    page = f"text\n```python\na = 1\n```\n\n{shell}run `make lint` to make sure\n"
    assert blocks(page, "python") == [(3, "a = 1\n")]
    assert make_commands(page) == {"demo", "test", "lint"}


def test_the_architecture_names_modules_that_exist():
    """A module that was renamed or removed does not live on in the description of the architecture."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:tests/)?([a-z_/]+\.py)`", text))
    exist = {path.name for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py")}
    assert len(named) > 20
    assert {Path(name).name for name in named} <= exist
