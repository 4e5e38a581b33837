"""What the README and the pages of the documentation show: it runs, it exists, and it leads somewhere."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from nestbo.cli import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def blocks(text: str, language: str) -> list[tuple[int, str]]:
    """The fenced blocks of a language: the line on which each one's content begins, and the content."""
    fenced = re.finditer(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, block.start(1)) + 1, block.group(1)) for block in fenced]


def outside_blocks(text: str) -> str:
    """The text without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def shell(text: str) -> str:
    """The lines of the shell blocks, with continued ones in one piece."""
    found = "\n".join(block for language in ("bash", "sh", "console") for _, block in blocks(text, language))
    return found.replace("\\\n", " ")


def anchors(text: str) -> set[str]:
    """The places in a page that a link can lead to: its headings, and what the reference documents."""
    headings = re.findall(r"^#+ (.*)$", outside_blocks(text), flags=re.MULTILINE)
    slugs = {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\- ]", "", heading.lower())) for heading in headings}
    return slugs | set(re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE))


def nestbo_commands(text: str) -> list[list[str]]:
    """The words after `nestbo` on the lines of shell blocks, up to a pipe, a redirection or another command."""
    lines = re.findall(r"^(?:\$ )?nestbo\b([^|<>&;\n]*)", shell(text), flags=re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


def unknown_words(words: list[str]) -> Iterator[str]:
    """What a command line has that the command does not know: a subcommand or an option."""
    command = get_command(app)
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        if words[0] not in command.commands:
            yield words[0]
            return
        command, words = command.commands[words[0]], words[1:]
    options = {
        "--help",
        *(name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)),
    }
    yield from (word for word in words if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in options)


def make_commands(text: str) -> set[str]:
    """The targets of every `make X`: on a line of a shell block, or in backquotes."""
    commands = re.findall(r"^(?:\$ )?make\b([^#\n]*)", shell(text), flags=re.MULTILINE)
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
def test_every_command_that_is_shown_exists(page):
    """`nestbo X --option` in a shell block of a page is a command and an option of it."""
    for words in nestbo_commands(page.read_text(encoding="utf-8")):
        assert not list(unknown_words(words)), f"{page.name} shows nestbo {' '.join(words)}"


@EVERY_PAGE
def test_every_link_leads_somewhere(page):
    """A relative link is to a file of the project, and to a heading of it where it names one."""
    text = outside_blocks(page.read_text(encoding="utf-8"))
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name} links to {link}, which is not there"
        if anchor and target.suffix == ".md":
            found = anchors(target.read_text(encoding="utf-8"))
            assert anchor in found, f"{page.name} links to {link}, which is no heading of it"


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


def test_commands_that_do_not_exist_are_noticed():
    """The reader of shell blocks finds commands over several lines, and says what is wrong with one."""
    lines = ["$ nestbo bench run --problem a \\", "  --out DIR  # go", "nestbo bench table DIR | less", "pip install ."]
    page = "\n".join(["```bash", *lines, "```"])
    run, table = nestbo_commands(page)
    assert run == ["bench", "run", "--problem", "a", "--out", "DIR"]
    assert table == ["bench", "table", "DIR"]
    assert not list(unknown_words(run))
    assert list(unknown_words(["bench", "rum", "--out", "DIR"])) == ["rum"]
    assert list(unknown_words(["bench", "run", "--sedes", "3", "--out=DIR"])) == ["--sedes"]


def test_places_in_a_page_are_found():
    """A heading, also with code in it, and an entry of the reference are anchors; comments in code are not."""
    page = "# Known data: `x0`\n```python\n# no heading\n```\n::: nestbo.Space\n"
    assert anchors(page) == {"known-data-x0", "nestbo.Space"}


def test_the_architecture_names_modules_that_exist():
    """A module that was renamed or removed does not live on in the description of the architecture."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:tests/)?([a-z_/]+\.py)`", text))
    exist = {path.name for folder in ("src", "tests", "docs") for path in (ROOT / folder).rglob("*.py")}
    assert len(named) > 20
    assert {Path(name).name for name in named} <= exist
