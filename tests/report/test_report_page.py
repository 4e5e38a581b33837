import builtins
import json
import os
import re
from html.parser import HTMLParser

import pytest
import report_runs as runs

import nestbo
from nestbo import report
from nestbo.errors import NestboError, SettingsError
from nestbo.report import page
from nestbo.report.markup import VOID, data, script, tag
from nestbo.space import Space

STAND_IN = "window.Plotly = {};"
"""Takes the place of plotly.js where its five megabytes are of no interest."""


class Page(HTMLParser):
    """The elements of a page; raises where they are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, name, attrs):
        """Remember it."""
        assert len(dict(attrs)) == len(attrs), f"an attribute of {name} is there twice"
        self.elements.append((name, dict(attrs)))
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        """It must be the innermost one that is open."""
        assert self.open.pop() == name

    def handle_data(self, text):
        """Remember it, with the element it is in."""
        self.texts.append((self.open[-1] if self.open else "", text))

    def seen(self) -> str:
        """The text that a reader sees."""
        return " ".join(text for name, text in self.texts if name not in {"script", "style"})

    def figures(self) -> dict:
        """What the scripts get."""
        return json.loads(next(text for name, text in self.texts if name == "script"))


def made(paths, title=None) -> Page:
    return Page(page.page([report.summarise(path) for path in paths], title, STAND_IN))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    runs.real(folder, budget=40)
    runs.hostile(folder / "hostile.jsonl")
    return folder


def test_the_page_is_well_formed(folder):
    """Elements are closed in order, ids are unique, and what refers to an id finds it."""
    for paths in ([folder / "run.jsonl"], [folder / "run.jsonl", folder / "hostile.jsonl", folder / "run.jsonl"]):
        found = made(paths)
        ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
        assert len(ids) == len(set(ids))
        for _, attributes in found.elements:
            for name in ("aria-controls", "aria-labelledby", "aria-describedby"):
                assert attributes.get(name) is None or attributes[name] in ids
        assert set(found.figures()) == {a["id"] for n, a in found.elements if a.get("class") == "plot"}


def test_the_page_says_what_it_should(folder):
    """A reader finds the summary, every plot, the groups, the parameters and the failures."""
    numbers = report.summarise(folder / "run.jsonl")
    seen = made([folder / "run.jsonl"], title="My report").seen()
    for words in ("My report", "Best value so far", "All evaluations", "Target dimension", "Trust-region length"):
        assert words in seen
    for words in ("Where time went", "Most influential groups", "Best parameters", "Failures", "ArithmeticError"):
        assert words in seen
    assert f"{numbers.value:.6g}" in seen
    assert "of a budget of 40" in seen
    assert f"numpy {dict(numbers.versions)['numpy']}" in seen


def test_the_figures_hold_the_numbers(folder):
    """Curves, splits and failures in the figures are those of the numbers."""
    numbers = report.summarise(folder / "run.jsonl")
    figures = made([folder / "run.jsonl"]).figures()
    assert figures["run-1-best"]["data"][0]["y"] == pytest.approx([best for _, best in numbers.best_curve], rel=1e-6)
    splits = [s.after + 0.5 for s in numbers.stages if s.kind == "split"]
    assert splits
    assert figures["run-1-dims"]["data"][1]["x"] == splits
    assert [shape["x0"] for shape in figures["run-1-dims"]["layout"]["shapes"]] == splits
    failed = next(trace for trace in figures["run-1-all"]["data"] if trace["name"] == "failed")
    assert failed["x"] == [e.number for e in numbers.evaluations if e.value is None]


def test_several_runs_have_tabs_and_a_comparison(folder):
    """One tab per run and one for all; runs of the same name are told apart."""
    found = made([folder / "run.jsonl", folder / "run.jsonl"])
    tabs = [attributes for name, attributes in found.elements if attributes.get("role") == "tab"]
    panels = {a["id"] for _, a in found.elements if a.get("role") == "tabpanel"}
    assert [tab["aria-controls"] for tab in tabs] == ["panel-compare", "panel-run-1", "panel-run-2"]
    assert panels == {tab["aria-controls"] for tab in tabs}
    names = [trace["name"] for trace in found.figures()["compare-best"]["data"]]
    assert names == ["run", "run (2)"]


def test_a_logarithmic_scale_is_offered_where_there_are_logarithms(folder):
    """Figures of positive values have a button for it; those of other values and those that are logarithmic do not."""
    found = made([folder / "run.jsonl"])
    assert min(e.value for e in report.summarise(folder / "run.jsonl").evaluations if e.value is not None) > 0.0
    assert [a["data-plot"] for _, a in found.elements if a.get("class") == "scale"] == ["run-1-best", "run-1-all"]
    # its values are 0 and -2
    assert not [a for _, a in made([folder / "hostile.jsonl"]).elements if a.get("class") == "scale"]


def test_nothing_of_a_journal_becomes_markup(folder):
    """Names and reasons that try to break out stay texts: in elements, attributes, scripts and figures."""
    text = page.page([report.summarise(folder / "hostile.jsonl")] * 2, runs.HOSTILE, STAND_IN)
    found = Page(text)
    names = [name for name, _ in found.elements]
    assert "img" not in names
    assert names.count("script") == 3
    assert text.count("<script") == text.count("</script>") == 3
    assert "<!--" not in text
    assert not any(key.startswith("on") for _, attributes in found.elements for key in attributes)
    # the texts are there, for people to read: title, function, versions, message, parameters, reason
    assert found.seen().count(runs.HOSTILE) > 8
    assert any(attributes.get("data-v") == runs.HOSTILE for _, attributes in found.elements)
    # what Plotly would take for tags is written as entities
    texts = json.dumps(found.figures())
    assert "<img" not in texts
    assert "&lt;img" in texts
    text.encode("utf-8")
    assert not re.search("[\x00-\x08\x0e-\x1f]", text)


def test_templates_hold_no_text_of_a_journal(folder):
    """In a hover template a percent sign means something, so names and reasons are never part of one."""
    figures = made([folder / "hostile.jsonl"] * 2).figures()
    templates = [trace["hovertemplate"] for figure in figures.values() for trace in figure["data"]]
    assert templates
    assert not any("onerror" in template for template in templates)


def test_scripts_are_named_by_the_policy(folder):
    """The page allows its own scripts and nothing else: no network, no handlers in attributes."""
    found = made([folder / "run.jsonl"])
    policy = next(a["content"] for _, a in found.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert script(STAND_IN)[1] in policy
    assert "unsafe-eval" not in policy
    assert not re.search(r"script-src[^;]*unsafe", policy)
    urls = [a[key] for _, a in found.elements for key in ("src", "href", "action") if a.get(key)]
    assert urls == ["#content"]


def test_data_cannot_end_its_element():
    """JSON in a script element has no character that HTML looks at, and reads back as it was."""
    value = {runs.HOSTILE: ["\u2028", "\ud800", 1.5, None]}
    text = data("a", value).text
    inner = text.removeprefix('<script type="application/json" id="a">').removesuffix("</script>")
    assert not set("<>&") & set(inner)
    assert json.loads(inner) == value


def test_attributes_are_escaped():
    """A value of an attribute cannot end it."""
    assert tag("a", title="\"'><b>").text == '<a title="&quot;&#x27;&gt;&lt;b&gt;"></a>'


def test_no_name_can_pose_as_another():
    """What would turn the direction of writing is shown as a sign that something is there."""
    assert tag("bdi", "\u202eetar\u2069").text == "<bdi>\ufffdetar\ufffd</bdi>"


def test_runs_without_values_are_shown(tmp_path):
    """No evaluation yet, and failures only: the page says so instead of failing."""
    with nestbo.Optimizer([(0, 1)] * 10, budget=5, rng=0, journal=tmp_path / "run.jsonl") as opt:
        first = made([tmp_path / "run.jsonl"])
        opt.fail(opt.ask(), "no licence")
        second = made([tmp_path / "run.jsonl"])
        both = made([tmp_path / "run.jsonl"] * 2)
    assert "No evaluation has ended yet" in first.seen()
    assert first.figures() == {}
    assert "No evaluation gave a value" in second.seen()
    assert "no licence" in second.seen()
    assert set(second.figures()) == {"run-1-all", "run-1-dims", "run-1-length", "run-1-time"}  # nothing is best
    assert "compare-best" in both.figures()


def test_senseless_times_are_shown_as_unknown(tmp_path):
    """A clock that was wrong by ages does not stand in the way of the report."""
    events = [runs.opened(Space.of([(0, 1)] * 4), 9, time=-1.7e308), runs.embedded(4, 2)]
    events += [runs.asked(0, [0.0, 0.0], -1.7e308), runs.told(0, 1.0, 1.7e308, seconds=None)]
    assert "Best value" in made([runs.save(tmp_path / "run.jsonl", events)]).seen()


def test_long_runs_are_thinned_out_and_say_so(tmp_path):
    """10,000 evaluations of 1000 inputs: the file without Plotly stays small, the extremes are drawn."""
    path = runs.long_run(tmp_path / "long.jsonl", 10_000, 1000)
    text = page.page([report.summarise(path)], None, STAND_IN)
    found = Page(text)
    assert len(text) < 2_000_000
    assert re.search(r"Shown one by one are [\d,]+ of 10,000 evaluations", found.seen())
    drawn = [trace for trace in found.figures()["run-1-all"]["data"] if trace["name"] != "failed"]
    values = [value for trace in drawn for value in trace["y"]]
    assert (min(values), max(values)) == (-7.0, 1000.0)
    assert len(values) <= 3000


def test_the_file_is_written_whole_and_the_same_each_time(folder, tmp_path):
    """The same journals give the same bytes, with Plotly inside, once."""
    plotly = pytest.importorskip("plotly.offline", reason="plotly is not installed: pip install 'nestbo[report]'")
    first = report.write([folder / "run.jsonl", folder / "hostile.jsonl"], tmp_path / "a.html")
    second = report.write([str(folder / "run.jsonl"), folder / "hostile.jsonl"], str(tmp_path / "b.html"))
    assert first.read_bytes() == second.read_bytes()
    assert first.read_text(encoding="utf-8").count(plotly.get_plotlyjs()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "b.html"]


def test_one_journal_need_not_be_in_a_list(folder, tmp_path, monkeypatch):
    """A single path is not taken for a list of letters."""
    monkeypatch.setattr(page, "_plotly", lambda: STAND_IN)
    assert report.write(str(folder / "run.jsonl"), tmp_path / "a.html").exists()


def test_a_journal_is_never_replaced(folder, tmp_path, monkeypatch):
    """A report replaces an older one and nothing else: no journal, whether it is one of those reported or another."""
    monkeypatch.setattr(page, "_plotly", lambda: STAND_IN)
    before = (folder / "run.jsonl").read_bytes()
    with pytest.raises(SettingsError, match="is no report"):
        report.write([folder / "hostile.jsonl"], folder / "run.jsonl")
    assert (folder / "run.jsonl").read_bytes() == before
    (tmp_path / "notes.html").write_text("<html>mine")
    os.mkfifo(tmp_path / "pipe")
    for other in ("notes.html", "pipe"):
        with pytest.raises(SettingsError, match="is no report"):
            report.write([folder / "run.jsonl"], tmp_path / other)
    (tmp_path / "circle.html").symlink_to(tmp_path / "circle.html")
    assert report.write([folder / "run.jsonl"], tmp_path / "circle.html").is_file()  # there was nothing behind it
    (tmp_path / "link.html").symlink_to(tmp_path / "new.html")
    for _ in range(2):  # a new one, then the older one
        report.write([folder / "run.jsonl"], tmp_path / "link.html")
    assert (tmp_path / "link.html").is_symlink()
    with pytest.raises(SettingsError, match="at least one journal"):
        report.write([], tmp_path / "a.html")
    with pytest.raises(NestboError, match="cannot be written"):
        report.write([folder / "run.jsonl"], tmp_path / "absent" / "a.html")


def test_missing_plotly_is_named(folder, tmp_path, monkeypatch):
    """Without plotly the error names the extra to install; the numbers do not need it."""
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("plotly"):
            raise ImportError("No module named 'plotly'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(NestboError, match=r"nestbo\[report\]"):
        report.write([folder / "run.jsonl"], tmp_path / "a.html")
    assert report.summarise(folder / "run.jsonl").budget == 40
