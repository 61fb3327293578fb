"""Figures as inline SVG: the same bytes each time, nothing that leaks, colours of the page."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.training.settings import History
from unrolled_book import figures
from unrolled_book.figures.palette import COLOURS
from unrolled_book.figures.plots import _spread

SVG = "{http://www.w3.org/2000/svg}"


pytestmark = pytest.mark.usefixtures("house_style")


def lines_figure(n: int = 3):
    fig, ax = plt.subplots()
    for i in range(n):
        ax.plot(np.arange(5), np.arange(5) * (i + 1), marker="o", label=f"line {i}")
    ax.set(xlabel="step", ylabel="loss (nats)", title="A title")
    return fig


def root(fig) -> ET.Element:
    return ET.fromstring(figures.svg(fig))


def test_same_figure_gives_the_same_bytes():
    fig = lines_figure()
    assert figures.svg(fig) == figures.svg(fig) == figures.svg(lines_figure())


def test_another_process_gives_the_same_bytes():
    code = (
        "import matplotlib; matplotlib.use('agg'); import matplotlib.pyplot as plt, hashlib\n"
        "from unrolled_book import figures; figures.use_house_style()\n"
        "fig, ax = plt.subplots(); ax.plot([2, 3, 5], marker='o')\n"
        "print(hashlib.sha256(figures.svg(fig).encode()).hexdigest())"
    )
    command = [sys.executable, "-c", code]
    first, second = (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)
    )
    assert first == second
    assert len(first.strip()) == 64


def test_every_palette_colour_is_a_variable_with_itself_as_fallback():
    fig, ax = plt.subplots()
    for i, colour in enumerate(figures.PALETTE.values()):
        ax.plot([0, 1], [i, i], color=colour)
        ax.text(0, i, "word", color=colour)
    written = figures.svg(fig)
    for colour in set(figures.PALETTE.values()):
        uses = re.findall(rf".{{0,20}}{colour}", written)
        assert uses
        assert all(re.search(r"var\(--u-[a-z]+, #", use) for use in uses)


def test_black_is_written_as_ink_and_other_colours_are_left_alone():
    fig, ax = plt.subplots()
    ax.plot([0, 1], color="black")
    ax.plot([1, 0], color="#123456")
    written = figures.svg(fig)
    assert "#000000" not in written
    assert "stroke: #123456" in written


def test_identifiers_are_used_and_do_not_collide_between_figures():
    written = figures.svg(lines_figure(2)) + figures.svg(lines_figure(3))
    names = re.findall(r' id="([^"]+)"', written)
    used = set(re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', written))
    assert len(names) == len(set(names)) > 2
    assert {a or b for a, b in used} == set(names)


def test_prefix_can_be_given():
    assert 'id="mine-0"' in figures.svg(lines_figure(), prefix="mine")


def test_nothing_leaks_into_the_page():
    tree = root(lines_figure())
    tags = {element.tag for element in tree.iter()}
    assert not tags & {SVG + "metadata", SVG + "style", SVG + "script"}
    written = figures.svg(lines_figure())
    assert written.startswith("<svg ")
    assert "matplotlib" not in written.lower()
    assert "width" not in tree.attrib  # the page decides; the viewBox keeps the shape
    assert tree.get("viewBox") == "0 0 403.2 230.4"


def test_text_stays_text_in_the_font_of_the_page():
    fig, ax = plt.subplots()
    ax.set_title("Ünseen & <s>")
    ax.text(0, 0, "code", family="monospace")
    ax.set_xlabel("$x_i$")
    texts = {
        "".join(e.itertext()).strip(): e.get("style") or "" for e in root(fig).iter(SVG + "text")
    }
    assert "font-family" not in texts["Ünseen & <s>"]
    assert "font-size: 12px" in texts["Ünseen & <s>"]
    assert "ui-monospace, monospace" in texts["code"]
    assert "x\ni" in texts  # mathematics keeps a font with the widths it was set for
    assert "'DejaVu Sans', Verdana, sans-serif" in figures.svg(fig)


def test_an_image_inside_survives():
    fig, ax = plt.subplots()
    ax.imshow(np.eye(3))
    (image,) = root(fig).iter(SVG + "image")
    assert image.get("href").startswith("data:image/png;base64,")


def test_svg_wants_a_figure():
    _, ax = plt.subplots()
    with pytest.raises(TypeError, match="expected a matplotlib figure, got Axes"):
        figures.svg(ax)


def test_show_displays_labelled_html_with_a_plain_fallback_and_closes(displayed):
    fig = lines_figure()
    figures.show(fig, alt='Three "lines" & more', caption="a < b, $x < 2$")
    (bundle,) = displayed
    assert bundle["text/plain"] == '[Figure: Three "lines" & more]\na < b, $x < 2$'
    found: dict[str, list[dict]] = {}

    class Parser(HTMLParser):
        def handle_starttag(self, tag, attrs):
            found.setdefault(tag, []).append(dict(attrs))

    Parser().feed(bundle["text/html"])
    assert found["svg"][0]["role"] == "img"
    assert found["svg"][0]["aria-label"] == 'Three "lines" & more'
    assert "a &lt; b" in bundle["text/html"]
    assert not plt.fignum_exists(fig.number)


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("character", ["\x00", "\x1b", "\ufffe"])
def test_a_text_that_no_svg_can_hold_is_refused(character):
    fig, ax = plt.subplots()
    ax.set_title(f"a{character}b")
    with pytest.raises(ValueError, match="a text of the figure holds") as caught:
        figures.svg(fig)
    assert repr(character) in str(caught.value)


def test_a_caption_is_a_text(displayed):
    with pytest.raises(TypeError, match="a caption is a text, got 3"):
        figures.show(lines_figure(), alt="Lines.", caption=3)


def test_no_caption_no_figcaption():
    assert "figcaption>" not in figures.markup("<svg ></svg>", "alt")


@pytest.mark.parametrize("alt", ["", "  ", None])
def test_show_demands_alternative_text(alt):
    with pytest.raises(ValueError, match="needs alt"):
        figures.show(lines_figure(), alt=alt)


def test_css_gives_each_variable_its_dark_colour_on_every_host():
    written = figures.css()
    used = set(re.findall(r"var\((--u-[a-z]+)", figures.svg(lines_figure(5)) + written))
    for variable in used:
        assert f"{variable}:" in written
    for host in ("html[data-theme=dark]", 'data-jp-theme-light="false"', "html[theme=dark]"):
        assert host in written


def luminance(colour: str) -> float:
    rgb = np.array(mpl.colors.to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_role_is_legible_on_its_page(theme):
    colours = {role: pair[theme] for role, pair in COLOURS.items()}
    page = luminance(colours.pop("page"))
    del colours["grid"]  # furniture
    for role, colour in colours.items():
        low, high = sorted((page, luminance(colour)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, role


def test_lines_are_named_at_their_ends_in_their_colours():
    _, ax = plt.subplots()
    ax.plot([0, 1], [0, 1], label="up", color=figures.PALETTE["data"])
    ax.plot([0, 1], [1, 0], label="down", color=figures.PALETTE["test"])
    ax.plot([0, 1], [0.5, 0.5])
    figures.label_lines(ax)
    named = {text.get_text(): (text.xy[1], text.get_color()) for text in ax.texts}
    assert named == {"up": (1, figures.PALETTE["data"]), "down": (0, figures.PALETTE["test"])}


def test_no_lines_no_names():
    _, ax = plt.subplots()
    figures.label_lines(ax)
    assert not ax.texts


def test_spread_worked_by_hand():
    # The first two are pushed 2 apart around their middle, 0.5; the third is far enough.
    np.testing.assert_allclose(_spread(np.array([0.0, 1.0, 7.0]), 2.0), [-0.5, 1.5, 7.0])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-100, 100), min_size=1, max_size=7), st.floats(0.1, 30))
def test_spread_keeps_order_and_distance_and_moves_nothing_that_has_room(given_, gap):
    positions = np.array(given_)
    spread = _spread(positions, gap)
    order = np.argsort(positions, kind="stable")
    assert (np.diff(spread[order]) >= gap - 1e-9).all()
    assert np.isclose(spread.mean(), positions.mean(), atol=1e-9)
    np.testing.assert_allclose(_spread(spread, gap), spread, atol=1e-9)


def heat(matrix, **options):
    fig, ax = plt.subplots()
    figures.heatmap(ax, matrix, **options)
    return fig, ax


def test_heatmap_is_centred_at_zero_in_two_colours():
    fig, ax = heat([[2.0, 0.0, -1.0]], limit=4.0)
    faces = ax.collections[0].get_facecolors()
    np.testing.assert_allclose(faces[:, 3], [0.5, 0.0, 0.25])
    np.testing.assert_allclose(faces[0, :3], mpl.colors.to_rgb(figures.PALETTE["accent"]))
    np.testing.assert_allclose(faces[2, :3], mpl.colors.to_rgb(figures.PALETTE["test"]))
    assert "fill: var(--u-accent, #4f46e5); fill-opacity: 0.5" in figures.svg(fig)


def test_heatmap_rows_run_down_and_columns_right():
    _, ax = heat(
        np.arange(6).reshape(2, 3), rows=["a", "b"], columns=["x", "y", "z"], annotate=".0f"
    )
    where = {text.get_text(): text.get_position() for text in ax.texts}
    assert where["5"] == (2, 1)
    assert ax.yaxis_inverted()
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["x", "y", "z"]


def test_annotated_cells_stay_light_enough_for_ink():
    _, ax = heat([[-3.0, 3.0]], annotate=".1f")
    assert ax.collections[0].get_facecolors()[:, 3].max() == 0.5
    assert [text.get_text() for text in ax.texts] == ["−3.0", "3.0"]


def test_heatmap_of_zeros_is_empty_page():
    _, ax = heat(np.zeros((2, 3)))
    assert not ax.collections[0].get_facecolors()[:, 3].any()


@pytest.mark.parametrize("matrix", [[1.0, 2.0], [[np.nan]], [[]], [[1.0, np.inf]]])
def test_heatmap_refuses_what_is_no_finite_matrix(matrix):
    with pytest.raises(ValueError, match="matrix of finite numbers"):
        heat(matrix)


def test_heatmap_refuses_names_that_do_not_fit():
    with pytest.raises(ValueError, match="2 names for 3"):
        heat(np.ones((2, 3)), columns=["x", "y"])


@pytest.mark.parametrize("page", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("sight", [None, "deuteranomaly", "protanomaly", "tritanomaly"])
def test_roles_are_told_apart_by_every_eye(page, sight):
    """Distances in CAM02-UCS, where about 1 can be noticed side by side."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its source has an escape that Python warns of
        from colorspacious import cspace_convert

    roles = [role for role in COLOURS if role not in ("grid", "page")]
    colours = np.array([mpl.colors.to_rgb(COLOURS[role][page]) for role in roles])
    if sight:
        space = {"name": "sRGB1+CVD", "cvd_type": sight, "severity": 100}
        colours = np.clip(cspace_convert(colours, space, "sRGB1"), 0, 1)
    seen = cspace_convert(colours, "sRGB1", "CAM02-UCS")
    apart = {(roles[i], roles[j]): float(np.linalg.norm(seen[i] - seen[j]))
             for i in range(len(roles)) for j in range(i)}  # fmt: skip
    assert min(apart.values()) > 9, sorted(apart.items(), key=lambda item: item[1])[:3]


def history(n: int, every: int, *, seconds: float = 0.5, shift: float = 0.0) -> History:
    """n updates whose loss falls from n / 10 nats by 0.1 each, validated every so many."""
    done = History()
    for step in range(1, n + 1):
        done.add(step, (n - step + 1) / 10 + shift, 0.1, 1.0, step * seconds)
        if step % every == 0:
            done.valid_step.append(step)
            done.valid_loss.append((n - step + 2) / 10 + shift)
    return done


def curves(histories, **options) -> tuple[mpl.axes.Axes, list[tuple[str, np.ndarray]]]:
    """The axes, and the colour and the points of each line that is more than a name's place."""
    (ax,) = figures.training_curves(histories, **options).axes
    lines = [(line.get_color(), line.get_xydata()) for line in ax.get_lines()]
    return ax, [(colour, points) for colour, points in lines if len(points) > 1]


def test_one_fit_shows_updates_their_mean_and_the_validation_in_their_roles():
    ax, lines = curves(history(53, 11), unit="nats")
    train, held_out = figures.PALETTE["train"], figures.PALETTE["validation"]
    assert [colour for colour, _ in lines] == [train, train, held_out]
    updates, mean, validation = (points for _, points in lines)
    np.testing.assert_allclose(updates, [[i, (54 - i) / 10] for i in range(1, 54)])
    np.testing.assert_allclose(mean, [[i + 0.5, (53.5 - i) / 10] for i in range(1, 53)])  # of 2
    np.testing.assert_allclose(validation, [[i, (55 - i) / 10] for i in (11, 22, 33, 44)])
    assert {text.get_text(): text.get_color() for text in ax.texts} == {
        "training": train,
        "validation": held_out,
    }
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "each step",
        "mean of 2 steps",
    ]
    faint, solid = ax.get_lines()[:2]
    assert faint.get_alpha() < 0.5
    assert faint.get_linewidth() < solid.get_linewidth() < ax.get_lines()[3].get_linewidth()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("step", "loss (nats)")


def test_bits_are_nats_over_the_logarithm_of_two_and_seconds_are_those_of_the_updates():
    _, nats = curves(history(53, 11), unit="nats")
    ax, bits = curves(history(53, 11, seconds=0.25), x="seconds")
    for (_, ours), (_, theirs) in zip(bits, nats, strict=True):
        np.testing.assert_allclose(ours, theirs * [0.25, 1 / np.log(2)])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time (seconds)", "loss (bits)")


def test_the_running_mean_is_of_whole_windows_only():
    done = history(130, 200)
    rng = np.random.default_rng(0)
    done.train_loss = rng.normal(size=130).tolist()
    ax, (_, (_, mean)) = curves(done, unit="nats")
    expected = [np.mean(done.train_loss[i : i + 5]) for i in range(126)]
    np.testing.assert_allclose(mean[:, 1], expected, atol=1e-12)
    np.testing.assert_allclose(mean[:, 0], np.arange(3, 129))  # the middle of 1 … 5, and so on
    assert ax.get_legend().get_texts()[1].get_text() == "mean of 5 steps"


def test_several_fits_have_a_colour_each_and_none_that_of_held_out_data():
    names = ["a", "b", "c", "d", "e"]
    runs = {name: history(53 + i, 11, shift=i) for i, name in enumerate(names)}
    ax, lines = curves(runs)
    colours = [text.get_color() for text in ax.texts]
    assert [text.get_text() for text in ax.texts] == names
    assert [colour for colour, _ in lines] == [c for c in colours for _ in ("mean", "validation")]
    assert len(set(colours)) == 5
    assert figures.PALETTE["test"] not in colours
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "validation",
        "training, mean of 2 steps",
    ]


def test_fits_without_validation_are_named_at_their_training_loss():
    ax, lines = curves({"with": history(20, 10), "without": history(20, 50)}, unit="nats")
    assert [text.xy for text in ax.texts] == [(20, 0.2), (20, 0.1)]
    assert [len(points) for _, points in lines] == [20, 2, 20]
    (key,) = curves({"without": history(20, 50)})[0].get_legend().get_texts()
    assert key.get_text() == "training, each step"
    ax, lines = curves(history(20, 50))  # too few for a mean: no key
    assert ax.get_legend() is None
    assert len(lines) == 1


def test_a_long_fit_is_thinned_and_the_key_says_so():
    ax, lines = curves(history(4001, 1000))
    assert max(len(points) for _, points in lines) <= 500
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "one step in 9",
        "mean of 100 steps",
    ]
    assert len(figures.svg(ax.figure)) < 50_000


def test_one_update_is_enough_to_be_drawn():
    ax, _ = curves(history(1, 1), unit="nats")
    assert {text.get_text(): text.xy for text in ax.texts} == {
        "training": (1, 0.1),
        "validation": (1, 0.2),
    }


def test_names_at_the_ends_keep_their_distance_in_the_final_layout():
    fig = figures.training_curves(history(100, 10))
    fig.draw_without_rendering()
    boxes = [text.get_window_extent() for text in fig.axes[0].texts]
    assert not boxes[0].overlaps(boxes[1])


@pytest.mark.parametrize(
    ("histories", "options", "error", "message"),
    [
        (History(), {}, ValueError, "the history 'training' holds no update"),
        ({"a": history(3, 1), "b": History()}, {}, ValueError, "history 'b' holds no update"),
        ({}, {}, ValueError, "1 to 5 histories can be told apart, got 0"),
        (dict.fromkeys("abcdef", history(3, 1)), {}, ValueError, "got 6"),
        ({"a": [1.0]}, {}, TypeError, "'a' must be a History, got list"),
        ([1.0, 2.0], {}, TypeError, "'training' must be a History, got list"),
        (history(3, 1), {"unit": "bit"}, ValueError, "bits or nats .* got 'bit' and 'step'"),
        (history(3, 1), {"x": "epochs"}, ValueError, "step or seconds, got 'bits' and 'epochs'"),
    ],
)
def test_what_is_no_training_is_refused(histories, options, error, message):
    with pytest.raises(error, match=message):
        figures.training_curves(histories, **options)
    assert not plt.get_fignums()


def test_figures_load_no_torch():
    code = "import sys; from unrolled_book import figures; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
