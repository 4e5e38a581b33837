"""The documentation site: all pages are in it, nothing is loaded from elsewhere, its pictures can be drawn again."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


def script(name: str) -> ModuleType:
    """A script of docs/, which is no package, as a module."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


def entries(nav: object) -> list[str]:
    """The pages of a nav, in order."""
    if isinstance(nav, str):
        return [nav]
    return [page for each in (nav.values() if isinstance(nav, dict) else nav) for page in entries(each)]


@pytest.fixture(scope="module")
def config() -> dict:
    """The configuration of the site."""
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with the development tools")
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    """What the build does beyond mkdocs."""
    return script("hooks")


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    """The script that draws."""
    pytest.importorskip("matplotlib", reason="needs the extra bench")
    return script("pictures")


def test_every_page_is_in_the_navigation_once(config, hooks):
    """A page that is written can be found, and what is in the navigation is there."""
    pages = entries(config["nav"])
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert len(pages) == len(set(pages))
    assert set(pages) == written | set(hooks.GENERATED)


def test_the_configuration_loads_nothing_from_elsewhere(config):
    """Neither fonts nor scripts nor styles nor inventories come from another machine, and warnings are errors."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "://" not in re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
    assert config["theme"]["font"] is False
    assert config["strict"] is True
    assert {level for group in config["validation"].values() for level in group.values()} == {"warn"}


def test_the_public_names_are_in_the_reference():
    """Whatever `nestbo` exports has an entry."""
    import nestbo

    text = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.md"))
    documented = set(re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE))
    documented |= set(re.findall(r"^ +heading: (\S+)$", text, flags=re.MULTILINE))
    expected = {f"nestbo.{name}" for name in nestbo.__all__ if name != "__version__"}
    assert expected <= documented


def test_every_page_says_first_what_it_gives():
    """A page begins with a title and a sentence, not with a heading, a table or code."""
    for path in DOCS.rglob("*.md"):
        title, rest = path.read_text(encoding="utf-8").split("\n\n", 1)
        assert re.fullmatch(r"# \S.*", title), path.name
        assert re.match(r"[\w`*\[]", rest), path.name


def test_the_tables_of_the_comparison_are_what_their_command_prints(monkeypatch, capsys):
    """Every table that stands below a command on published results is its output, to the letter."""
    from nestbo.cli import main

    monkeypatch.chdir(ROOT)
    text = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    tables = text.split("```bash\nnestbo bench table docs/results/")[1:]
    assert tables
    for below in tables:
        arguments, table = below.split("\n```\n\n", 1)
        command = f"nestbo bench table docs/results/{arguments}"
        monkeypatch.setattr(sys, "argv", command.split())
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 0
        assert table.startswith(capsys.readouterr().out), command


def test_links_out_of_the_documentation_become_pages_of_it(hooks):
    """What leads to an example, the changelog or the README in a clone leads to its page in the site."""
    page = "[a](../examples/demo.py) [b](../CHANGELOG.md#x) [c](../README.md#citation) [d](speed.md) [e](../LICENSE)"
    expected = "[a](examples.md#demo) [b](changelog.md#x) [c](index.md) [d](speed.md) [e](../LICENSE)"
    assert hooks.relinked(page, "survival.md") == expected
    assert hooks.relinked("[a](../../examples/demo.py)", "how-to/noise.md") == "[a](../examples.md#demo)"
    assert hooks.relinked("[a](../examples/simulator)", "command-line.md") == "[a](examples.md#simulator)"
    assert hooks.relinked("[a](../speed.md)", "how-to/noise.md") == "[a](../speed.md)"


def test_the_page_of_examples_has_them_all(hooks):
    """Every example is on the page, without its docstring, which is the text above it."""
    text = hooks.examples()
    for path in (ROOT / "examples").glob("*.py"):
        assert f"## {path.name} {{ #{path.stem} }}" in text
    assert '"""Find the minimum' not in text
    assert "Find the minimum of a function of 500 parameters" in text


def test_what_a_page_loads_from_elsewhere_is_noticed(hooks):
    """Scripts, styles, fonts and images of other machines are found; links to follow are not."""
    harmless = '<a href="https://a.b">x</a><img src="x.svg"><link rel="canonical" href="https://a.b"><script>1</script>'
    assert hooks.external(harmless) == []
    loads = (
        '<script src="https://a/1"></script><img src="//a/2"><link rel="stylesheet" href="http://a/3">'
        "<style>@import 'https://a/4'; p { src: url(https://a/5) }</style>"
    )
    assert hooks.external(loads) == [
        *("https://a/1", "//a/2", "http://a/3"),
        *("https://a/4", "https://a/5"),
    ]


def test_docstrings_are_mended(monkeypatch):
    """Doctests become code, and attributes that are described together get an entry each."""
    # Only a build has griffe; what is tested here does not need it.
    monkeypatch.setitem(sys.modules, "griffe", SimpleNamespace(Extension=object, Object=object))
    mended = script("docstrings").mended
    assert mended("A.\n\n>>> f(1)\n[2]\n\nB.") == "A.\n\n```pycon\n>>> f(1)\n[2]\n```\n\nB."
    text = "Attributes:\n    a, b: Both\n        of them.\n    c: Alone, as ever: yes."
    assert mended(text) == "Attributes:\n    a: Both\n        of them.\n    b: See `a`.\n    c: Alone, as ever: yes."


def test_pictures_and_pages_match(pictures):
    """Every picture is drawn for both themes and shown, and every one that is shown is drawn."""
    drawn = {
        f"images/{name}-{theme.name}.svg#only-{theme.name}" for name in pictures.NAMES for theme in pictures.THEMES
    }
    shown = {
        link
        for path in DOCS.rglob("*.md")
        for link in re.findall(r"!\[[^]]+\]\(([^)]+)\)", path.read_text(encoding="utf-8"))
        if link.endswith(("#only-light", "#only-dark"))
    }
    assert shown == drawn
    files = {path.name for path in (DOCS / "images").glob("*.svg")}
    assert {Path(link.partition("#")[0]).name for link in drawn} <= files


def test_the_pictures_can_be_drawn_again(pictures, tmp_path):
    """The script makes its runs and all of its files."""
    paths = pictures.draw_all(tmp_path, plane=pictures.run_in_the_plane(), many=pictures.run_of_many(budget=40))
    assert {path.name for path in paths} == {f"{n}-{t.name}.svg" for n in pictures.NAMES for t in pictures.THEMES}
    assert all(path.read_text(encoding="utf-8").rstrip().endswith("</svg>") for path in paths)


def test_bins_are_drawn_in_one_piece(pictures):
    """In the order of the picture the inputs of each bin stand together, on every level."""
    levels = pictures.nested(24, 2, 3, seed=5)
    order = pictures.family_order(levels)
    assert [level.target_dim for level in levels] == [2, 8, 24]
    for level in levels:
        assert np.count_nonzero(np.diff(level.bin[order])) == level.target_dim - 1


def test_the_run_in_the_plane_shows_what_the_page_says(pictures):
    """It begins on a line, is split once, keeps its points, and its region only ever shrinks to an end."""
    course = pictures.run_in_the_plane()
    before = course.splits[0]
    assert len(course.splits) == 1
    assert not any(moment.design for moment in course.moments[before:])
    on_line = np.array([moment.x for moment in course.moments[:before]]) * course.state.embeddings[0].sign
    assert np.array_equal(on_line[:, 0], on_line[:, 1])
    lengths = [moment.length for _, moment in pictures.boxes(course)]
    assert lengths == sorted(lengths, reverse=True)
    assert len(lengths) > 3
    for _, moment in pictures.boxes(course):
        assert np.all(moment.low <= moment.center)
        assert np.all(moment.center <= moment.high)
