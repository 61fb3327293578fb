"""Figures that move: both forms show every state, and mistakes are named before they cost time."""

from __future__ import annotations

import gzip
import json
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled_book import figures
from unrolled_book.moving import explore as module
from unrolled_book.moving.explore import explore
from unrolled_book.moving.page_form import _table, page_form
from unrolled_book.moving.states import plan

VOID = {"input", "path", "use", "rect", "image", "line", "br", "meta"}


def page(draw, *, alt, caption="", start=None, still=None, max_kilobytes=350, labels=None, **axes):
    """What `explore` writes when it writes a page."""
    return page_form(plan(draw, alt, caption, start, labels, axes, still), max_kilobytes)


pytestmark = pytest.mark.usefixtures("house_style")


def draw(power, word="cow", grid=False):
    fig, ax = plt.subplots(figsize=(4, 2))
    x = np.linspace(0, 1, 11)
    ax.plot(x, x**power, marker="o")
    ax.set(title=word, ylim=(0, 1))
    ax.grid(grid)
    return fig


class Page(HTMLParser):
    """What a browser finds in the page form; fails on tags that do not match."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict]] = []
        self.scripts: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)

    def all(self, tag: str, **wanted: str) -> list[dict]:
        wanted = {key.rstrip("_"): value for key, value in wanted.items()}
        return [a for t, a in self.elements if t == tag and wanted.items() <= a.items()]

    @property
    def table(self) -> dict:
        return json.loads(self.scripts[0])

    def drawing(self, frame: int) -> str:
        table = self.table
        runs = table["frames"][frame]
        pieces = [table["lines"][a:b] for a, b in zip(runs[::2], runs[1::2], strict=True)]
        return "\n".join(line for piece in pieces for line in piece)


OPTIONS = {
    "alt": "{word} to the power {power}",
    "caption": "Powers of $x < 1$ fall.",
    "start": {"power": 2.0, "word": "hay"},
    "labels": {"power": ("power p", "{:.1f} units")},
    "power": np.array([0.5, 1.0, 2.0]),
    "word": ["cow", "hay"],
}


def test_the_page_holds_every_state_exactly_as_drawn():
    html = Page(page(draw, **OPTIONS))
    (prefix,) = {a["id"].rsplit("-", 1)[0] for t, a in html.elements if t == "clippath"}
    states = [(power, word) for power in (0.5, 1.0, 2.0) for word in ("cow", "hay")]
    assert len(html.table["frames"]) == len(states)
    for frame, (power, word) in enumerate(states):
        assert html.drawing(frame) == figures.svg(draw(power, word), prefix=prefix)
        assert html.table["alts"][frame] == f"{word} to the power {power:.1f} units"


def test_the_start_state_stands_in_the_page_itself():
    text = page(draw, **OPTIONS)
    html = Page(text)
    still = html.drawing(5)
    assert figures.label(still, "hay to the power 2.0 units") in text
    (svg,) = html.all("svg")
    assert svg["role"] == "img"


def test_the_still_is_another_drawing_that_only_paper_shows():
    text = page(draw, **OPTIONS, still={"power": 0.5})
    html = Page(text)
    on_paper, on_screen = html.all("svg")
    assert on_paper["aria-label"] == "hay to the power 0.5 units"
    assert on_screen["aria-label"] == "hay to the power 2.0 units"
    assert "hidden" in html.all("div", class_="u-still")[0]
    (prefix,) = {i.rsplit("-", 1)[0] for i in re.findall(r' id="(u\w+-still-[^"]*)"', text)}
    drawing = figures.svg(draw(0.5, "hay"), prefix=prefix)
    assert figures.label(drawing, on_paper["aria-label"]) in text
    identifiers = [a["id"] for _, a in html.elements if "id" in a]
    assert len(identifiers) == len(set(identifiers))


def test_a_still_that_is_the_start_changes_nothing():
    assert page(draw, **OPTIONS, still={"word": "hay"}) == page(draw, **OPTIONS)


def test_each_control_is_native_labelled_and_reads_out_its_value():
    html = Page(page(draw, **OPTIONS, grid=[False, True]))
    (slider,) = html.all("input", type="range")
    assert (slider["min"], slider["max"], slider["value"]) == ("0", "2", "2")
    assert slider["aria-valuetext"] == "2.0 units"
    assert html.all("label", for_=slider["id"])
    assert html.all("output", for_=slider["id"])
    assert {b["aria-label"] for b in html.all("button")} == {"previous power p", "next power p"}
    assert len(html.all("fieldset")) == len(html.all("legend")) == 2
    words, grids = (html.all("input", name=name) for name in sorted({
        a["name"] for a in html.all("input", type="radio")}))  # fmt: skip
    assert [("checked" in word) for word in words] == [False, True]
    assert [("checked" in grid) for grid in grids] == [True, False]
    assert [axis["texts"] for axis in html.table["axes"]] == [
        ["0.5 units", "1.0 units", "2.0 units"], ["cow", "hay"], ["no", "yes"]]  # fmt: skip


def test_a_marker_named_handle_tells_where_it_stands_in_every_state():
    def point(x, y):
        fig = plt.figure(figsize=(4, 3), layout="none")
        ax = fig.add_axes((0, 0, 1, 1), xlim=(0, 4), ylim=(0, 3))
        ax.plot([0, x], [0, y], "-")
        ax.plot(x, y, "o", gid="handle")
        return fig

    html = Page(page(point, alt="at {x}, {y}", x=[1, 2], y=[1, 2]))
    # 72 units an inch, y downward.
    assert html.table["handles"] == [[72, 144], [72, 72], [144, 144], [144, 72]]
    assert len(html.all("g", class_="u-handle")) == 1
    assert len(html.scripts) == 3  # the data, the controls, the dragging
    plain = Page(page(draw, **OPTIONS))
    assert "handles" not in plain.table
    assert len(plain.scripts) == 2


def test_two_figures_on_a_page_share_no_identifier():
    both = page(draw, alt="a", power=[1, 2]) + page(draw, alt="a", power=[1, 3])
    names = [a["id"] for _, a in Page(both).elements if "id" in a]
    assert len(names) == len(set(names)) >= 4


def test_the_page_asks_for_nothing_and_names_nothing_global():
    text = page(draw, **OPTIONS)
    html = Page(text)
    assert not any("src" in a or "http" in str(a.get("href")) for _, a in html.elements)
    script = html.scripts[1].strip()
    assert script.startswith("/*")
    assert all(line[:1] in ("/", "f", " ", "}") for line in script.splitlines())  # one block
    assert "currentScript" not in script


def test_what_would_end_a_script_early_is_escaped():
    text = page(draw, alt="</script><!-- {power}", power=[1, 2])
    assert Page(text).table["alts"] == ["</script><!-- 1", "</script><!-- 2"]
    assert text.count("</script>") == 2


def test_the_page_is_the_same_on_every_run():
    assert page(draw, **OPTIONS) == page(draw, **OPTIONS)


def test_twenty_frames_of_bars_are_light():
    def bars(t, k):
        fig, ax = plt.subplots()
        p = np.exp(-np.arange(8) / t) * (np.arange(8) < k)
        ax.bar(range(8), p / p.sum())
        return fig

    text = page(bars, alt="{t} {k}", t=[0.2, 0.5, 1, 2, 4], k=[1, 3, 5, 7])
    assert len(gzip.compress(text.encode())) < 10_000


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=11), min_size=1, max_size=5))
def test_table_of_lines_gives_back_every_drawing(lines):
    drawings = ["\n".join(drawing) for drawing in lines]
    table, runs = _table(drawings)
    for drawing, run in zip(lines, runs, strict=True):
        spans = zip(run[::2], run[1::2], strict=True)
        assert [line for a, b in spans for line in table[a:b]] == drawing
    assert runs[0] == [0, len(lines[0])]


def test_figures_are_closed():
    page(draw, alt="a", power=[1, 2])
    assert not plt.get_fignums()


def test_draw_leaves_no_trace_in_figures_or_settings_also_when_it_fails():
    outside = plt.figure()
    settings_before = dict(mpl.rcParams)

    def untidy(n):
        plt.figure()
        plt.rcParams["font.size"] = 30
        plt.rcParams["lines.linewidth"] = 9
        return draw(1 / n)

    tidy = page(draw, alt="a", power=[1.0, 0.5])
    page(untidy, alt="a", n=[1, 2])
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        page(untidy, alt="a", n=[1, 0])
    with pytest.raises(TypeError, match="returned NoneType"):
        page(lambda n: untidy(n) and None, alt="a", n=[1])
    assert plt.get_fignums() == [outside.number]
    assert dict(mpl.rcParams) == settings_before
    assert page(draw, alt="a", power=[1.0, 0.5]) == tidy


# --- mistakes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"power": []}, ValueError, "axis power has no values"),
        ({"power": 3}, TypeError, "axis power must be a list of values, got 3"),
        ({"power": "abc"}, TypeError, "axis power must be a list of values, got 'abc'"),
        ({"power": [None]}, TypeError, "takes numbers, texts or yes/no, got None"),
        ({"power": [1, 1]}, ValueError, "values that read alike"),
        ({"start": {"power": 7}}, ValueError, r"power=7 is not one of \[1, 2\]"),
        ({"still": {"power": 7}}, ValueError, r"still power=7 is not one of \[1, 2\]"),
        ({"start": {"height": 7}}, ValueError, r"start names \['height'\], but the axes are"),
        ({"labels": {"height": "h"}}, ValueError, r"labels names \['height'\]"),
        ({"labels": {"power": 3}}, TypeError, r"a pair \(name, format\), got 3"),
        ({"height": [1]}, ValueError, r"draw\(power, .*\) cannot be called .* 'height'"),
        ({"alt": "at {height}"}, ValueError, r"alt speaks of \{height\}, but the axes are"),
        ({"alt": " "}, ValueError, "needs alt text for every state"),
        ({"alt": lambda power: None}, ValueError, "needs alt text for every state"),
        ({"caption": ["c"]}, TypeError, r"a caption is a text, got \['c'\]"),
        ({"start": [1, 2]}, TypeError, r"start is a dict by axis .*, got \[1, 2\]"),
        ({"labels": ["p"]}, TypeError, r"labels is a dict by axis .*, got \['p'\]"),
    ],
)
def test_mistakes_are_named(changes, error, message):
    with pytest.raises(error, match=message):
        page(draw, **({"alt": "a", "power": [1, 2]} | changes))


def test_no_axes_at_all():
    with pytest.raises(ValueError, match="at least one axis"):
        page(draw, alt="a")


def test_missing_axis_is_named():
    with pytest.raises(ValueError, match="missing a required argument: 'power'"):
        page(draw, alt="a", word=["cow"])


@pytest.mark.parametrize(
    "name", ["draw", "alt", "caption", "start", "still", "max_kilobytes", "labels"]
)
def test_an_axis_with_the_name_of_a_parameter_of_explore_is_refused(name):
    used: dict = {}
    exec(f"def moves({name}): return None", used)
    with pytest.raises(ValueError, match=f"draw's parameter {name} needs a name"):
        page(used["moves"], **{"alt": "a", "power": [1, 2]})


def test_a_parameter_of_that_name_that_is_no_axis_is_draws_own_affair():
    def labelled(power, labels=("a", "b")):
        return draw(power, word=labels[0])

    assert page(labelled, alt="a", power=[1, 2])


def test_draw_must_return_a_figure():
    with pytest.raises(TypeError, match=r"draw\(n=3\) returned NoneType.*return fig"):
        page(lambda n: None, alt="a", n=[3])


def test_a_failing_draw_names_the_state():
    with pytest.raises(RuntimeError, match=r"draw\(n=0\) failed: ZeroDivisionError") as caught:
        page(lambda n: draw(1 / n), alt="a", n=[1, 0])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_frames_of_different_sizes_are_refused():
    with pytest.raises(ValueError, match=r"figures of one size.*'n': 3.*216 × 72.*144 × 72"):
        page(lambda n: plt.figure(figsize=(n, 1)), alt="a", n=[2, 3])


def noise(seed):
    fig, ax = plt.subplots()
    ax.plot(np.random.default_rng(seed).normal(size=97))
    return fig


def test_a_heavy_grid_is_refused_after_a_few_frames_and_says_how_to_thin_it():
    drawn = []

    def counted(seed):
        drawn.append(seed)
        assert len(drawn) < 17
        return noise(seed)

    message = r"10000 frames \(seed 10000\) would weigh about \d+ kB .* \(about \d+ values of seed"
    with pytest.raises(ValueError, match=message):
        page(counted, alt="a", seed=range(10_000))
    assert len(drawn) == 2


def test_a_grid_over_the_limit_is_refused_with_its_exact_weight():
    text = page(noise, alt="{seed}", seed=range(5))
    kilobytes = len(gzip.compress(text.encode())) / 1000
    with pytest.raises(ValueError, match=rf"5 frames .* would weigh {kilobytes:.0f} kB"):
        page(noise, alt="{seed}", seed=range(5), max_kilobytes=kilobytes * 0.9)


# --- how values read --------------------------------------------------------------------------


def texts(values, label=""):
    html = Page(page(lambda v: draw(1), alt="{v}", labels={"v": label}, v=values))
    return html.table["axes"][0]["texts"], html.table["alts"]


def test_a_bare_name_in_alt_reads_as_the_control_does():
    read, alts = texts([0.1 + 0.2, -1.5])
    assert read == alts == ["0.3", "−1.5"]


def test_values_that_are_close_get_the_digits_that_tell_them_apart():
    assert texts([1.00001, 1.00002])[0] == ["1.00001", "1.00002"]


def test_a_function_can_format():
    assert texts([1, 2], ("n", lambda n: "ab"[n - 1] * 2))[0] == ["aa", "bb"]


def test_draw_gets_plain_python_values():
    seen = []

    def watch(a, b, c):
        seen.append((type(a), type(b), type(c)))
        return draw(1)

    page(watch, alt="a", a=np.array([1.0]), b=np.arange(1), c=np.array(["x"]))
    assert seen == [(float, int, str)]


def test_start_finds_a_float_that_differs_in_the_last_bit():
    text = page(draw, alt="{power}", start={"power": 0.3}, power=[0.2, 0.1 + 0.2])
    assert Page(text).all("input", value="1", type="range")


# --- the live form ----------------------------------------------------------------------------

widgets = pytest.importorskip("ipywidgets")


def live():
    drawn = []

    def counted(**state):
        drawn.append(state)
        return draw(**state)

    plan = module.plan(
        counted, "{word} {power}", "Caption.", {"word": "hay"}, None,
        {"power": [1, 2, 3], "word": ["cow", "hay"]})  # fmt: skip
    box, still = module._widgets(plan)
    return box.children[0], list(box.children[1:]), still, drawn


def test_live_widgets_draw_on_demand_and_remember():
    picture, (slider, choice), still, drawn = live()
    assert isinstance(slider, widgets.SelectionSlider)
    assert isinstance(choice, widgets.ToggleButtons)
    assert [slider.description, choice.description] == ["power", "word"]
    assert picture.value == still
    assert 'aria-label="hay 1"' in still
    slider.value = 2
    assert 'aria-label="hay 3"' in picture.value
    choice.value = 0
    assert 'aria-label="cow 3"' in picture.value
    slider.value = 0
    slider.value = 2
    assert drawn == [
        {"power": p, "word": w} for p, w in [(1, "hay"), (3, "hay"), (3, "cow"), (1, "cow")]
    ]


def test_live_form_leaves_the_still_for_viewers_without_widgets():
    plan = module.plan(draw, "{power}", "", None, None, {"power": [1, 2]}, {"power": 2})
    box, still = module._widgets(plan)
    assert 'aria-label="2"' in still
    assert 'aria-label="1"' in box.children[0].value


def test_live_picture_is_the_figure_of_the_state():
    picture, (slider, _), _, _ = live()
    slider.value = 1
    assert figures.markup(figures.svg(draw(2, "hay")), "hay 2", "Caption.") == picture.value


def test_live_figures_in_one_notebook_share_no_identifier():
    names = []
    for power in (1, 2):
        plan = module.plan(draw, "a", "", None, None, {"power": [power]})
        names += [a["id"] for _, a in Page(module._widgets(plan)[1]).elements if "id" in a]
    assert len(names) == len(set(names)) == 4


def test_live_failure_is_shown_in_the_picture():
    plan = module.plan(lambda n: draw(1 / n), "a", "", None, None, {"n": [1, 0]})
    box, _ = module._widgets(plan)
    box.children[1].value = 1
    assert "draw(n=0) failed: ZeroDivisionError" in box.children[0].value


@pytest.mark.parametrize(
    ("static", "kernel", "is_live"),
    [("", object(), True), ("0", object(), True), ("1", object(), False), ("", None, False)],
)
def test_form_follows_environment_and_kernel(monkeypatch, displayed, static, kernel, is_live):
    monkeypatch.setenv("UNROLLED_STATIC", static)
    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(kernel=kernel))
    explore(draw, alt="a {power}", caption="c", power=[1, 2])
    (bundle,) = displayed
    assert ("application/vnd.jupyter.widget-view+json" in bundle) == is_live
    assert ("u-explore" in bundle["text/html"].split("\n")[0]) != is_live
    assert bundle["text/plain"] == "[Figure that moves: a 1]\n[power: 1, 2]\nc"


@pytest.mark.parametrize("static", ["1", "0"], ids=["page", "live"])
def test_in_a_notebook(monkeypatch, static):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    monkeypatch.setenv("UNROLLED_STATIC", static)
    cells = (
        "import matplotlib.pyplot as plt\nfrom unrolled_book import figures\n"
        "from unrolled_book.moving.explore import explore\nfigures.use_house_style()",
        "fig, ax = plt.subplots()\nax.plot([1, 2])\nfigures.show(fig, alt='A line.')",
        "def draw(n):\n    fig, ax = plt.subplots()\n    ax.plot([n])\n    return fig\n"
        "explore(draw, alt='{n}', n=[1, 2])",
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    client = nbclient.NotebookClient(notebook, timeout=600, startup_timeout=600)
    client.execute()
    shown, moved = ([dict(output) for output in cell.outputs] for cell in notebook.cells[1:])
    assert [output["output_type"] for output in shown + moved] == ["display_data"] * 2
    assert "<svg" in shown[0]["data"]["text/html"]
    assert ("application/vnd.jupyter.widget-view+json" in moved[0]["data"]) == (static == "0")
