"""The report in a real browser: a headless Chromium, which is not allowed to load anything."""

import os
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import nestbo
from nestbo import report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytest.importorskip("plotly", reason="plotly is not installed: pip install 'nestbo[report]'")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("there is no Chromium: install it, or say where it is with CHROMIUM=", allow_module_level=True)

HOSTILE = "</script><img src=x onerror=alert(1)><b>%{x}"
WIDTHS = (390, 1280)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two runs, one of them with failures and hostile texts, and their reports."""
    folder = tmp_path_factory.mktemp("report")

    def bowl(x: np.ndarray) -> float:
        return float(((x[:5] - 0.3) ** 2).sum())

    def fragile(point: dict[str, float]) -> float:
        if point["p0"] > 0.6:
            raise ArithmeticError(HOSTILE)
        return sum((value - 0.2) ** 2 for value in point.values())

    space = [nestbo.Real(f"p{i}", -1.0, 1.0) for i in range(59)] + [nestbo.Integer(HOSTILE, -3, 3)]
    nestbo.minimize(bowl, [(-1.0, 1.0)] * 300, budget=40, rng=0, journal=folder / "bowl.jsonl")
    nestbo.minimize(fragile, space, budget=30, rng=1, journal=folder / "fragile.jsonl", catch=ArithmeticError)
    (folder / "fragile.jsonl").rename(folder / "b<i>ad.jsonl")
    report.write([folder / "bowl.jsonl"], folder / "one.html")
    report.write([folder / "bowl.jsonl", folder / "b<i>ad.jsonl"], folder / "two.html")
    return folder


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as manager:
        browser = manager.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, folder):
    """Open a page; at the end, nothing must have been asked of the network and no error been reported."""
    contexts, problems = [], []

    def open_page(name: str, *, width: int = 1280, scheme: str = "light"):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        target = (folder / name).as_uri()

        def refuse(route):
            if route.request.url == target:
                route.continue_()
            else:
                problems.append(f"asked for {route.request.url}")
                route.abort()

        context.route("**/*", refuse)
        page = context.new_page()
        page.on("console", lambda message: problems.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (problems.append("a script of the journal was run"), dialog.dismiss()))
        page.set_default_timeout(10_000)
        page.goto(target)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


def plots(page) -> dict[str, int]:
    """The plots that are visible, and how many traces each has drawn."""
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll('.plot')].filter(p => p.offsetParent)
        .map(p => [p.id, p.querySelectorAll('svg .trace').length]))"""
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_every_plot_is_drawn_and_nothing_sticks_out(visit, width):
    """On a phone and on a desk all plots have traces, and the page does not scroll sideways."""
    page = visit("two.html", width=width)
    for tab, count in zip(page.get_by_role("tab").all(), (2, 5, 5), strict=True):
        tab.click()
        found = plots(page)
        assert len(found) == count
        assert all(found.values()), found
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        outside = page.evaluate(
            """() => [...document.querySelectorAll('.plot .main-svg')].filter(s => s.getBoundingClientRect().width)
            .filter(s => s.getBoundingClientRect().right > innerWidth + 1).length"""
        )
        assert outside == 0


def test_tabs_follow_clicks_and_keys(visit):
    """A click, the arrows, Home and End choose a tab, show its panel and hide the others."""
    page = visit("two.html")

    def state():
        return page.evaluate(
            """() => [document.activeElement.id, document.querySelector('[role=tab][aria-selected=true]').id,
            [...document.querySelectorAll('[role=tabpanel]')].filter(p => !p.hidden).map(p => p.id).join()]"""
        )

    assert state()[1:] == ["tab-compare", "panel-compare"]
    page.get_by_role("tab").nth(1).click()
    assert state() == ["tab-run-1", "tab-run-1", "panel-run-1"]
    for key, where in (("ArrowRight", "run-2"), ("ArrowRight", "compare"), ("ArrowLeft", "run-2"), ("Home", "compare")):
        page.keyboard.press(key)
        assert state() == [f"tab-{where}", f"tab-{where}", f"panel-{where}"]
    page.keyboard.press("End")
    assert state()[1] == "tab-run-2"
    # one stop for the whole list, then the panel
    page.keyboard.press("Tab")
    assert state()[0] == "panel-run-2"


def test_hovering_shows_a_label(visit):
    """The pointer on a plot brings up a label with the number of the evaluation and its value."""
    page = visit("one.html")
    assert len(plots(page)) == 5
    assert all(plots(page).values())
    box = page.locator("#run-1-best .nsewdrag").first.bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"])
    label = page.locator("#run-1-best .hoverlayer .hovertext")
    label.wait_for()
    assert "after evaluation" in label.first.text_content()


def test_the_scale_can_be_logarithmic(visit):
    """The button of a plot makes its axis logarithmic and back again."""
    page = visit("one.html")
    button = page.locator("[data-plot=run-1-best]")
    kind = "document.getElementById('run-1-best')._fullLayout.yaxis.type"
    for pressed, expected in (("false", "linear"), ("true", "log"), ("false", "linear")):
        assert (button.get_attribute("aria-pressed"), page.evaluate(kind)) == (pressed, expected)
        button.click()


def test_hostile_texts_are_shown_as_they_are(visit):
    """Labels of plots show names and reasons letter by letter; nothing of them becomes an element."""
    page = visit("two.html")
    legend = page.locator("#compare-best .legendtext").nth(1)
    assert legend.text_content() == "b<i>ad"
    assert legend.locator("*").count() == 0
    page.get_by_role("tab").nth(2).click()
    assert page.locator("img, body i, #panel-run-2 b").count() == 0
    assert page.get_by_role("row").filter(has_text=HOSTILE).count() > 0
    page.locator("#run-2-all").scroll_into_view_if_needed()
    place = page.evaluate(
        """() => { const plot = document.getElementById('run-2-all');
        const trace = plot.data.findIndex(t => t.name === 'failed');
        Plotly.Fx.hover(plot, [{curveNumber: trace, pointNumber: 0}], ['xy2']); return trace; }"""
    )
    assert place >= 0
    label = page.locator("#run-2-all .hoverlayer .hovertext")
    label.wait_for()
    assert HOSTILE in label.first.text_content()


def background(page) -> tuple[str, str]:
    """The colour of the page, and of the line in the first plot."""
    return page.evaluate(
        """() => [getComputedStyle(document.body).backgroundColor,
        getComputedStyle(document.querySelector('.plot .scatterlayer .js-line')).stroke]"""
    )


def test_dark_and_light(visit):
    """The page follows the system; the button changes it, and the plots change with it. Both can be read."""
    page, night = visit("one.html"), visit("one.html", scheme="dark")
    day, dark = background(page), background(night)
    check_contrast(page)
    check_contrast(night)
    assert all(a != b for a, b in zip(day, dark, strict=True))
    button = page.get_by_role("button", name="Dark theme")
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    assert background(page) == dark
    assert button.get_attribute("aria-pressed") == "true"
    night.get_by_role("button", name="Dark theme").click()
    assert background(night) == day


def test_the_table_of_parameters_can_be_searched_and_sorted(visit):
    """At first the most relevant are shown; one can search, sort by each column and show all."""
    page = visit("one.html")
    rows = page.locator("table.parameters tbody tr:visible")
    assert rows.count() == 20
    page.get_by_role("button", name="Show all 300").click()
    assert rows.count() == 300
    page.get_by_label("Search").fill("x29")
    assert sorted(rows.locator("th").all_text_contents()) == sorted(["x29", *(f"x29{i}" for i in range(10))])
    page.get_by_label("Search").fill("")
    for name, column, numeric in (("Value", 1, True), ("Parameter", 0, False)):
        page.get_by_role("button", name=name, exact=True).click()
        cells = page.locator("table.parameters tbody tr")
        found = cells.evaluate_all(f"rows => rows.map(row => row.cells[{column}].dataset.v)")
        expected = sorted(found, key=float if numeric else lambda text: int(text[1:]))
        assert found == expected
        page.get_by_role("button", name=name, exact=True).click()
        assert cells.evaluate_all(f"rows => rows.map(row => row.cells[{column}].dataset.v)")[0] == expected[-1]


def test_without_scripts_the_tables_are_there(browser, folder):
    """Where JavaScript is off, all runs and all parameters are shown one below the other."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((folder / "two.html").as_uri())
    assert page.locator("[role=tabpanel]:visible").count() == 3
    assert page.locator("table.parameters tbody tr:visible").count() == 360
    context.close()


def test_everything_has_a_name_and_an_order(visit):
    """Landmarks, headings without gaps, names of plots, tables and buttons: what a screen reader goes by."""
    page = visit("two.html")
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.locator("main").count() == page.locator("h1").count() == page.locator("header").count() == 1
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map(h => Number(h.tagName[1]))")
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('button, input, [role=img], [role=region]')].filter(e =>
        !e.closest('.plot *') && !(e.ariaLabel || e.textContent.trim() || (e.labels && e.labels.length))).length"""
    )
    assert unnamed == 0


def check_contrast(page) -> None:
    """Texts differ enough from what is behind them (WCAG AA: 4.5 to 1, lines 3 to 1)."""
    colours = page.evaluate(
        """() => { const s = getComputedStyle(document.documentElement);
        return Object.fromEntries(['page','card','note','text','muted','fail','accent']
        .map(n => [n, s.getPropertyValue('--' + n).trim()])); }"""
    )
    for text, back in (("text", "page"), ("text", "note"), ("muted", "page"), ("muted", "card"), ("fail", "card")):
        assert contrast(colours[text], colours[back]) >= 4.5, (text, back)
    assert contrast(colours["accent"], colours["card"]) >= 3.0


def contrast(one: str, other: str) -> float:
    """The contrast of two colours #rrggbb."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
