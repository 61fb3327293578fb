"""Figures that move: both forms show every state, and mistakes are named before they cost time."""

import gzip
import json
import re
from functools import cache
from types import SimpleNamespace

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from bs4 import BeautifulSoup
from unrolled_book import figures
from unrolled_book.moving import explore as module
from unrolled_book.moving.explore import explore
from unrolled_book.moving.page_form import page_form
from unrolled_book.moving.states import plan


def planned(draw, *, alt="a", caption="", start=None, still=None, labels=None, **axes):
    return plan(draw, alt, caption, start, labels, axes, still)


def page(draw, *, max_kilobytes=350, **options):
    """What `explore` writes when it writes a page."""
    return page_form(planned(draw, **options), max_kilobytes)


pytestmark = pytest.mark.usefixtures("house_style")
LIVE = "application/vnd.jupyter.widget-view+json"


def draw(power, word="cow"):
    fig, ax = plt.subplots(figsize=(4, 2))
    x = np.linspace(0, 1, 11)
    ax.plot(x, x**power, marker="o")
    ax.set(title=word, ylim=(0, 1))
    return fig


def empty(**state):
    """Where only what stands around the drawing is asked for."""
    return plt.figure(figsize=(2, 1))


def parsed(text: str) -> BeautifulSoup:
    return BeautifulSoup(text, "html.parser")


def identifiers(text: str) -> list[str]:
    return [tag["id"] for tag in parsed(text)(id=True)]


def data(text: str) -> dict:
    return json.loads(parsed(text).script.string)


def drawing(data: dict, frame: int) -> str:
    runs = data["frames"][frame]
    spans = zip(runs[::2], runs[1::2], strict=True)
    return "\n".join(line for a, b in spans for line in data["lines"][a:b])


OPTIONS = {
    "alt": "{word} to the power {power}", "caption": "Powers of $x < 1$ fall.",
    "start": {"power": 2.0, "word": "hay"}, "labels": {"power": ("power p", "{:.1f} units")},
    "power": np.array([0.5, 2.0]), "word": ["cow", "hay"],
}  # fmt: skip


@cache
def usual() -> str:
    return page(draw, **OPTIONS)


def test_the_page_holds_every_state_exactly_as_drawn_each_line_once_and_shows_the_start():
    found, (svg,) = data(usual()), parsed(usual())("svg")
    prefix = svg.find("clippath")["id"].rsplit("-", 1)[0]
    states = [(power, word) for power in (0.5, 2.0) for word in ("cow", "hay")]
    assert len(found["frames"]) == len(states)
    for frame, (power, word) in enumerate(states):
        assert drawing(found, frame) == figures.svg(draw(power, word), prefix=prefix)
        assert found["alts"][frame] == f"{word} to the power {power:.1f} units"
    assert figures.label(drawing(found, 3), "hay to the power 2.0 units") in usual()
    assert len(found["lines"]) < 0.5 * sum(drawing(found, k).count("\n") for k in range(4))
    assert svg["role"] == "img"


def test_the_still_is_another_drawing_that_only_paper_shows():
    options = OPTIONS | {"word": ["hay"]}
    assert page(empty, **options, still={"power": 2}) == page(empty, **options)  # it is the start
    text = page(draw, **options, still={"power": 0.5})
    on_paper, on_screen = parsed(text)("svg")
    assert on_screen["aria-label"] == "hay to the power 2.0 units"
    assert "hidden" in on_paper.find_parent("div", class_="u-still").attrs
    names = identifiers(text)
    (prefix,) = {name.rsplit("-", 1)[0] for name in names if "-still-" in name}
    still = figures.svg(draw(0.5, "hay"), prefix=prefix)
    assert figures.label(still, "hay to the power 0.5 units") in text
    assert len(names) == len(set(names))


def test_each_control_is_native_labelled_and_reads_out_its_value():
    options = OPTIONS | {"labels": {"power": ("power p", "{:.1f} <u>")}, "grid": [False, True]}
    text = page(empty, **options)
    for tag in ("div", "form", "fieldset", "legend", "label", "button", "output"):
        assert text.count(f"<{tag}") == text.count(f"</{tag}>") > 0
    html = parsed(text)
    (slider,) = html("input", type="range")
    assert (slider["min"], slider["max"], slider["value"]) == ("0", "1", "1")
    assert slider["aria-valuetext"] == html.output.string == "2.0 <u>"
    assert [tag.name for tag in html(attrs={"for": slider["id"]})] == ["label", "output"]
    assert [b["aria-label"] for b in html("button")] == ["previous power p", "next power p"]
    words, grids = (choice("input", type="radio") for choice in html("fieldset"))
    assert ["checked" in word.attrs for word in words] == [False, True]
    assert ["checked" in grid.attrs for grid in grids] == [True, False]
    assert len({choice["name"] for choice in words}) == 1
    assert words[0]["name"] != grids[0]["name"]
    assert [axis["texts"] for axis in data(text)["axes"]] == [
        ["0.5 <u>", "2.0 <u>"], ["cow", "hay"], ["no", "yes"]]  # fmt: skip


def test_a_marker_named_handle_tells_where_it_stands_in_every_state():
    def point(x, y):
        fig = plt.figure(figsize=(4, 3), layout="none")
        ax = fig.add_axes((0, 0, 1, 1), xlim=(0, 4), ylim=(0, 3))
        ax.plot([0, x], [0, y], "-")
        ax.plot(x, y, "o", gid="handle")
        return fig

    text = page(point, x=[1, 2], y=[1, 2])
    # 72 units an inch, y downward.
    assert data(text)["handles"] == [[72, 144], [72, 72], [144, 144], [144, 72]]
    assert len(parsed(text)("g", class_="u-handle")) == 1
    assert len(parsed(text)("script")) == 3  # the data, the controls, the dragging
    assert "handles" not in data(usual())
    assert len(parsed(usual())("script")) == 2


def test_the_page_asks_for_nothing_and_two_figures_on_it_share_no_name():
    names = identifiers(usual() + page(draw, power=[1]))
    assert len(names) == len(set(names)) >= 4
    html = parsed(usual())
    assert not html(src=True)
    assert not html(href=re.compile("http"))
    script = html("script")[1].string.strip()
    assert script.startswith("/*")
    assert all(line[:1] in ("/", "f", " ", "}") for line in script.splitlines())  # one block
    assert "currentScript" not in script


def test_draw_leaves_no_trace_in_figures_or_settings_also_when_it_fails():
    outside, settings_before = plt.figure(), dict(mpl.rcParams)

    def untidy(n):
        plt.figure()
        plt.rcParams.update({"font.size": 30, "lines.linewidth": 9})
        return draw(1 / n)

    tidy = page(draw, power=[0.5])
    page(untidy, n=[2])
    with pytest.raises(RuntimeError, match=r"draw\(n=0\) failed: ZeroDivisionError") as caught:
        page(untidy, n=[0])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(TypeError, match="returned NoneType"):
        page(lambda n: untidy(n) and None, n=[1])
    assert (plt.get_fignums(), dict(mpl.rcParams)) == ([outside.number], settings_before)
    assert page(draw, power=[0.5]) == tidy


def taking(name):
    """A function with a parameter of this name."""
    used: dict = {}
    exec(f"def moves({name}): return None", used)
    return used["moves"]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"power": ...}, ValueError, "at least one axis"),
        ({"power": []}, ValueError, "axis power has no values"),
        ({"power": "abc"}, TypeError, "axis power must be a list of values, got 'abc'"),
        ({"power": [None]}, TypeError, "takes numbers, texts or yes/no, got None"),
        ({"power": [1, 1]}, ValueError, "values that read alike"),
        ({"still": {"power": 7}}, ValueError, r"still power=7 is not one of \[1, 2\]"),
        ({"start": {"height": 7}}, ValueError, r"start names \['height'\], but the axes are"),
        ({"labels": {"power": 3}}, TypeError, r"a pair \(name, format\), got 3"),
        ({"height": [1]}, ValueError, r"draw\(power, .*\) cannot be called .* 'height'"),
        ({"alt": "at {height}"}, ValueError, r"alt speaks of \{height\}, but the axes are"),
        ({"alt": lambda power: None}, ValueError, "needs alt text for every state"),
        ({"caption": ["c"]}, TypeError, r"a caption is a text, got \['c'\]"),
        ({"start": [1, 2]}, TypeError, r"start is a dict by axis .*, got \[1, 2\]"),
        ({"draw": lambda power: None}, TypeError, r"draw\(power=1\) returned NoneType.*return fig"),
        ({"draw": lambda power: plt.figure(figsize=(power, 1))}, ValueError,
         r"figures of one size.*'power': 2.*144 × 72.*72 × 72"),
        *(({"draw": taking(name)}, ValueError, f"draw's parameter {name} needs a name") for name in
          ("draw", "alt", "caption", "start", "still", "max_kilobytes", "labels")),
    ],
)  # fmt: skip
def test_mistakes_are_named(changes, error, message):
    def drawn(power, word="cow", labels=("a", "b")):  # what is no axis is draw's own affair
        return empty()

    given = {"draw": drawn, "power": [1, 2]}
    assert page(**given)
    with pytest.raises(error, match=message):
        page(**{name: x for name, x in (given | changes).items() if x is not ...})


def test_a_grid_that_is_too_heavy_is_refused_soon_and_says_how_to_thin_it():
    drawn = []

    def noise(seed):
        drawn.append(seed)
        fig, ax = plt.subplots()
        ax.plot(np.random.default_rng(seed).normal(size=97))
        return fig

    message = r"10000 frames \(seed 10000\) would weigh about \d+ kB .* \(about \d+ values of seed"
    with pytest.raises(ValueError, match=message):
        page(noise, seed=range(10_000))
    assert len(drawn) == 2
    kilobytes = len(gzip.compress(page(noise, seed=[0, 1]).encode())) / 1000
    with pytest.raises(ValueError, match=rf"2 frames .* would weigh {kilobytes:.0f} kB"):
        page(noise, seed=[0, 1], max_kilobytes=kilobytes * 0.9)


@pytest.mark.parametrize(
    ("values", "label", "texts"),
    [
        ([0.1 + 0.2, -1.5], "", ["0.3", "−1.5"]),
        ([1.00001, 1.00002], "", ["1.00001", "1.00002"]),  # the digits that tell them apart
        ([1, 2], ("n", lambda n: "ab"[n - 1] * 2), ["aa", "bb"]),
        (["-1", "x"], "", ["-1", "x"]),
    ],
)
def test_a_value_reads_alike_in_its_control_and_in_the_alt_text(values, label, texts):
    found = data(page(empty, alt="{v}", labels={"v": label}, v=values))
    assert found["axes"][0]["texts"] == found["alts"] == texts


def test_draw_gets_pythons_own_numbers_and_start_finds_one_that_differs_in_the_last_bit():
    seen = []

    def watch(**state):
        seen.append(tuple(type(value) for value in state.values()))
        return empty()

    axes = {"a": np.array([0.2, 0.1 + 0.2]), "b": np.arange(1), "c": np.array(["x"])}
    text = page(watch, start={"a": 0.3}, **axes)
    assert set(seen) == {(float, int, str)}
    assert parsed(text).find("input", type="range")["value"] == "1"


widgets = pytest.importorskip("ipywidgets")


def test_live_widgets_draw_each_state_once_when_it_is_asked_for_and_show_a_failure():
    drawn = []

    def counted(**state):
        drawn.append(tuple(state.values()))
        return draw(**state)

    options = {"alt": "{word} {power}", "caption": "C.", "start": {"word": "hay"}}
    axes = {"power": [1, 2, 3], "word": ["cow", "hay"]}
    box, still = module._widgets(planned(counted, **options, **axes))
    picture, slider, choice = box.children
    assert isinstance(slider, widgets.SelectionSlider)
    assert isinstance(choice, widgets.ToggleButtons)
    assert [slider.description, choice.description] == ["power", "word"]
    assert picture.value == still == figures.markup(figures.svg(draw(1, "hay")), "hay 1", "C.")
    slider.value = 2
    assert 'aria-label="hay 3"' in picture.value
    choice.value = 0
    assert picture.value == figures.markup(figures.svg(draw(3, "cow")), "cow 3", "C.")
    slider.value = 0
    slider.value = 2
    assert drawn == [(1, "hay"), (3, "hay"), (3, "cow"), (1, "cow")]
    names = identifiers(still + picture.value)
    assert len(names) == len(set(names)) == 4
    plan = planned(lambda n: draw(1 / n), alt="at {n}", still={"n": 2}, n=[1, 2, 0])
    box, still = module._widgets(plan)
    assert ('"at 1"' in box.children[0].value, '"at 2"' in still) == (True, True)
    box.children[1].value = 2
    assert "draw(n=0) failed: ZeroDivisionError" in box.children[0].value


def test_the_page_form_is_written_without_a_kernel_or_where_it_is_asked_for(monkeypatch, displayed):
    for static, kernel in (("", object()), ("0", object()), ("1", object()), ("", None)):
        monkeypatch.setenv("UNROLLED_STATIC", static)
        monkeypatch.setattr("IPython.get_ipython", lambda k=kernel: SimpleNamespace(kernel=k))
        assert explore(empty, alt="a {power}", caption="c", power=[1, 2]) is None  # shown once
    assert [LIVE in bundle for bundle in displayed] == [True, True, False, False]
    forms = ["u-explore" in bundle["text/html"].split("\n")[0] for bundle in displayed]
    assert forms == [False, False, True, True]
    plain = {bundle["text/plain"] for bundle in displayed}
    assert plain == {"[Figure that moves: a 1]\n[power: 1, 2]\nc"}
