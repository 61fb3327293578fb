"""Figures as inline SVG: the same bytes each time, nothing that leaks, colours of the page."""

import re
import subprocess
import sys
import warnings
from xml.etree import ElementTree as ET

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from unrolled.training.settings import History
from unrolled_book import figures
from unrolled_book.figures.palette import COLOURS

from lib.tests.comparing import refuses

SVG = "{http://www.w3.org/2000/svg}"


pytestmark = pytest.mark.usefixtures("house_style")


def lines_figure(n: int = 3):
    fig, ax = plt.subplots()
    for i in range(n):
        ax.plot(np.arange(5), np.arange(5) * (i + 1), marker="o", label=f"line {i}")
    ax.set(xlabel="step", ylabel="loss (nats)", title="A title")
    return fig


def test_the_same_drawing_gives_the_same_bytes_also_in_another_process_without_torch():
    fig = lines_figure()
    assert figures.svg(fig) == figures.svg(fig) == figures.svg(lines_figure())
    code = (
        "import matplotlib; matplotlib.use('agg'); import matplotlib.pyplot as plt, sys\n"
        "from unrolled_book import figures; figures.use_house_style()\n"
        "fig, ax = plt.subplots(); ax.plot([2, 3, 5], marker='o')\n"
        "print(figures.svg(fig), 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf8", check=True
    )
    fig, ax = plt.subplots()
    ax.plot([2, 3, 5], marker="o")
    assert done.stdout == f"{figures.svg(fig)} False\n"


def test_each_colour_of_the_palette_is_a_variable_that_every_dark_host_sets_and_no_other_is():
    fig, ax = plt.subplots()
    ax.plot([0, 1], color="black")
    ax.plot([1, 0], color="#123456")
    for i, colour in enumerate(figures.PALETTE.values()):
        ax.plot([0, 1], [i, i], color=colour)
        ax.text(0, i, "word", color=colour)
    written = figures.svg(fig)
    for colour in set(figures.PALETTE.values()):
        uses = re.findall(rf".{{0,20}}{colour}", written)
        assert uses
        assert all(re.search(r"var\(--u-[a-z]+, #", use) for use in uses)
    assert "#000000" not in written  # black is ink
    assert "stroke: #123456" in written
    css = figures.css()
    for variable in re.findall(r"var\((--u-[a-z]+)", written + css):
        assert f"{variable}:" in css
    for host in ("html[data-theme=dark]", 'data-jp-theme-light="false"', "html[theme=dark]"):
        assert host in css


def test_identifiers_do_not_collide_between_figures_and_nothing_else_leaks_into_the_page():
    written = figures.svg(lines_figure(2)) + figures.svg(lines_figure(3))
    names = re.findall(r' id="([^"]+)"', written)
    used = set(re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', written))
    assert len(names) == len(set(names)) > 2
    assert {a or b for a, b in used} == set(names)
    assert 'id="mine-0"' in figures.svg(lines_figure(), prefix="mine")
    written = figures.svg(lines_figure())
    tree = ET.fromstring(written)
    assert not {element.tag for element in tree.iter()} & {
        SVG + "metadata", SVG + "style", SVG + "script"}  # fmt: skip
    assert written.startswith("<svg ")
    assert "matplotlib" not in written.lower()
    assert "width" not in tree.attrib  # the page decides; the viewBox keeps the shape
    assert tree.get("viewBox") == "0 0 403.2 230.4"


def test_text_stays_text_in_the_font_of_the_page_and_an_image_survives():
    fig, ax = plt.subplots()
    ax.imshow(np.eye(3))
    ax.set_title("Ünseen & <s>")
    ax.text(0, 0, "code", family="monospace")
    ax.set_xlabel("$x_i$")
    tree = ET.fromstring(figures.svg(fig))
    texts = {"".join(e.itertext()).strip(): e.get("style") or "" for e in tree.iter(SVG + "text")}
    assert "font-family" not in texts["Ünseen & <s>"]
    assert "font-size: 12px" in texts["Ünseen & <s>"]
    assert "ui-monospace, monospace" in texts["code"]
    assert "x\ni" in texts  # mathematics keeps a font with the widths it was set for
    assert "'DejaVu Sans', Verdana, sans-serif" in figures.svg(fig)
    (image,) = tree.iter(SVG + "image")
    assert image.get("href").startswith("data:image/png;base64,")


def test_show_displays_labelled_html_with_a_plain_fallback_and_closes(displayed):
    fig = lines_figure()
    assert figures.show(fig, alt='Three "lines" & more', caption="a < b, $x < 2$") is None
    (bundle,) = displayed
    assert bundle["text/plain"] == '[Figure: Three "lines" & more]\na < b, $x < 2$'
    label = 'role="img" aria-label="Three &quot;lines&quot; &amp; more"'
    assert f"<svg {label} " in bundle["text/html"]
    assert "a &lt; b" in bundle["text/html"]
    assert not plt.fignum_exists(fig.number)
    assert "figcaption>" not in figures.markup("<svg ></svg>", "no caption")


def heat(matrix, **options):
    fig, ax = plt.subplots()
    figures.heatmap(ax, matrix, **options)
    return fig, ax


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_role_is_legible_on_its_page_and_told_apart_by_every_eye(theme):
    """Distances in CAM02-UCS, where about 1 can be noticed side by side."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its source has an escape that Python warns of
        from colorspacious import cspace_convert

    roles = ["page", *(role for role in COLOURS if role not in ("grid", "page"))]
    colours = np.array([mpl.colors.to_rgb(COLOURS[role][theme]) for role in roles])
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    page, *others = linear @ [0.2126, 0.7152, 0.0722] + 0.05
    for role, other in zip(roles[1:], others, strict=True):
        assert max(page, other) / min(page, other) >= 4.5, role
    for sight in (None, "deuteranomaly", "protanomaly", "tritanomaly"):
        space = {"name": "sRGB1+CVD", "cvd_type": sight, "severity": 100} if sight else "sRGB1"
        seen = cspace_convert(np.clip(cspace_convert(colours, space, "sRGB1"), 0, 1),
                              "sRGB1", "CAM02-UCS")  # fmt: skip
        apart = np.linalg.norm(seen[:, None] - seen, axis=-1) + 99 * np.eye(len(roles))
        i, j = np.unravel_index(apart.argmin(), apart.shape)
        assert apart[i, j] > 9, (sight, roles[i], roles[j])


def test_lines_are_named_at_their_ends_in_their_colours():
    _, ax = plt.subplots()
    ax.plot([0, 1], [0.5, 0.5])
    figures.label_lines(ax)
    assert not ax.texts  # no name, nothing to write
    ax.plot([0, 1], [0, 1], label="up", color=figures.PALETTE["data"])
    ax.plot([0, 1], [1, 0], label="down", color=figures.PALETTE["test"])
    figures.label_lines(ax)
    named = {text.get_text(): (text.xy[1], text.get_color()) for text in ax.texts}
    assert named == {"up": (1, figures.PALETTE["data"]), "down": (0, figures.PALETTE["test"])}


def test_names_keep_their_order_and_distance_and_what_has_room_stays():
    ax = Figure(figsize=(1, 1), dpi=72).add_axes((0, 0, 1, 1), ylim=(0, 72))  # a unit is a point
    size = mpl.rcParams["font.size"]

    def placed(heights, gap):
        for artist in (*ax.lines, *ax.texts):
            artist.remove()
        for height in heights:
            ax.plot(0, height, label="name")
        figures.label_lines(ax, gap=gap / size)
        return np.array([text.xy[1] + text.xyann[1] for text in ax.texts])

    np.testing.assert_allclose(placed([0, 1, 7], 2), [-0.5, 1.5, 7], atol=1e-9)

    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.floats(-100, 100), min_size=1, max_size=7), st.floats(0.1, 30))
    def holds(heights, gap):
        ends = placed(heights, gap)
        assert (np.diff(ends[np.argsort(heights, kind="stable")]) >= gap - 1e-9).all()
        assert np.isclose(ends.mean(), np.mean(heights), atol=1e-9)
        np.testing.assert_allclose(placed(ends, gap), ends, atol=1e-9)

    holds()


def test_heatmap_is_centred_at_zero_stays_legible_and_runs_down_and_to_the_right():
    fig, ax = heat([[2.0, 0.0, -1.0]], limit=4.0)
    faces = ax.collections[0].get_facecolors()
    np.testing.assert_allclose(faces[:, 3], [0.5, 0.0, 0.25])
    np.testing.assert_allclose(faces[0, :3], mpl.colors.to_rgb(figures.PALETTE["accent"]))
    np.testing.assert_allclose(faces[2, :3], mpl.colors.to_rgb(figures.PALETTE["test"]))
    assert "fill: var(--u-accent, #4f46e5); fill-opacity: 0.5" in figures.svg(fig)
    for scale, annotate, darkest in ((1, ".1f", 0.5), (1, "", 1), (0, "", 0)):
        _, ax = heat([[-3.0 * scale, 3.0 * scale]], annotate=annotate)
        assert ax.collections[0].get_facecolors()[:, 3].max() == darkest
        assert [text.get_text() for text in ax.texts] == (["−3.0", "3.0"] if annotate else [])
    names = {"rows": ["a", "b"], "columns": ["x", "y", "z"]}
    _, ax = heat(np.arange(6).reshape(2, 3), **names, annotate=".0f")
    where = {text.get_text(): text.get_position() for text in ax.texts}
    assert where["5"] == (2, 1)
    assert ax.yaxis_inverted()
    assert [t.get_text() for t in ax.get_yticklabels()] == names["rows"]
    assert [t.get_text() for t in ax.get_xticklabels()] == names["columns"]


def history(n: int, every: int, *, seconds: float = 0.5, shift: float = 0.0) -> History:
    """n updates whose loss falls from n / 10 nats by 0.1 each, validated every so many."""
    done = History()
    for step in range(1, n + 1):
        loss = (n - step + 1) / 10 + shift
        done.add(step=step, train_loss=loss, lr=0.1, grad_norm=1.0, seconds=step * seconds)
        if step % every == 0:
            done.add(valid_step=step, valid_loss=loss + 0.1)
    return done


def curves(histories, **options) -> tuple[mpl.axes.Axes, list[tuple[str, np.ndarray]]]:
    """The axes, and the colour and the points of each line that is more than a name's place."""
    (ax,) = figures.training_curves(histories, **options).axes
    lines = [(line.get_color(), line.get_xydata()) for line in ax.get_lines()]
    return ax, [(colour, points) for colour, points in lines if len(points) > 1]


def key(ax) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_one_fit_shows_updates_their_mean_and_the_validation_in_their_roles_and_units():
    done = history(130, 29, seconds=0.25)
    done.train_loss = np.random.default_rng(0).normal(size=130).tolist()
    ax, lines = curves(done, unit="nats")
    train, held_out = figures.PALETTE["train"], figures.PALETTE["validation"]
    assert [colour for colour, _ in lines] == [train, train, held_out]
    updates, mean, validation = (points for _, points in lines)
    np.testing.assert_allclose(updates, [*zip(range(1, 131), done.train_loss, strict=True)])
    windows = [(i + 3, np.mean(done.train_loss[i : i + 5])) for i in range(126)]
    np.testing.assert_allclose(mean, windows, atol=1e-12)  # whole windows, at their middle
    np.testing.assert_allclose(validation, [[i, (132 - i) / 10] for i in (29, 58, 87, 116)])
    named = {text.get_text(): text.get_color() for text in ax.texts}
    assert named == {"training": train, "validation": held_out}
    assert key(ax) == ["each step", "mean of 5 steps"]
    faint, solid = ax.get_lines()[:2]
    assert faint.get_alpha() < 0.5
    assert faint.get_linewidth() < solid.get_linewidth() < ax.get_lines()[3].get_linewidth()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("step", "loss (nats)")
    ax, bits = curves(done, x="seconds")
    for (_, ours), (_, theirs) in zip(bits, lines, strict=True):
        np.testing.assert_allclose(ours, theirs * [0.25, 1 / np.log(2)], atol=1e-12)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time (seconds)", "loss (bits)")


def test_several_fits_have_a_colour_each_and_none_that_of_held_out_data():
    names = ["a", "b", "c", "d", "e"]
    ax, lines = curves({name: history(53 + i, 11, shift=i) for i, name in enumerate(names)})
    colours = [text.get_color() for text in ax.texts]
    assert [text.get_text() for text in ax.texts] == names
    assert [colour for colour, _ in lines] == [c for c in colours for _ in ("mean", "validation")]
    assert len(set(colours)) == 5
    assert figures.PALETTE["test"] not in colours
    assert key(ax) == ["validation", "training, mean of 2 steps"]


def test_fits_are_named_where_they_end_short_ones_have_no_mean_and_long_ones_are_thinned():
    ax, lines = curves({"with": history(20, 10), "without": history(20, 50)}, unit="nats")
    assert [text.xy for text in ax.texts] == [(20, 0.2), (20, 0.1)]
    assert [len(points) for _, points in lines] == [20, 2, 20]
    assert key(curves({"without": history(20, 50)})[0]) == ["training, each step"]
    ax, lines = curves(history(20, 50))  # too few for a mean: no key
    assert (ax.get_legend(), len(lines)) == (None, 1)
    ax, _ = curves(history(1, 1), unit="nats")
    ends = {text.get_text(): text.xy for text in ax.texts}
    assert ends == {"training": (1, 0.1), "validation": (1, 0.2)}
    ax, lines = curves(history(4001, 1000))
    assert max(len(points) for _, points in lines) <= 500
    assert key(ax) == ["one step in 9", "mean of 100 steps"]
    ax.figure.draw_without_rendering()
    first, second = (text.get_window_extent() for text in ax.texts)
    assert not first.overlaps(second)


test_what_no_page_can_show_is_refused = pytest.mark.filterwarnings("ignore:Glyph")(
    refuses(
        (lambda: figures.svg(plt.subplots()[1]), TypeError, "expected a matplotlib fig.*got Axes"),
        *((lambda c=c: figures.svg(heat([[1]], rows=[f"a{c}b"])[0]),
           "a text of the figure holds " + re.escape(repr(c))) for c in "\x00\x1b\ufffe"),
        *((lambda alt=alt: figures.show(lines_figure(), alt=alt), "needs alt")
          for alt in ("  ", None)),
        (lambda: figures.show(lines_figure(), alt="Lines.", caption=3), TypeError,
         "a caption is a text, got 3"),
        *((lambda x=x: heat(x), "matrix of finite numbers")
          for x in ([1.0, 2.0], [[np.nan]], [[]])),
        (lambda: heat(np.ones((2, 3)), columns=["x", "y"]), "2 names for 3"),
        *((lambda x=x, options=options: figures.training_curves(x, **options), error, message)
          for x, options, error, message in (
            (History(), {}, ValueError, "the history 'training' holds no update"),
            ({"a": history(3, 1), "b": History()}, {}, ValueError, "history 'b' holds no update"),
            ({}, {}, ValueError, "1 to 5 histories can be told apart, got 0"),
            (dict.fromkeys("abcdef", history(3, 1)), {}, ValueError, "got 6"),
            ([1.0, 2.0], {}, TypeError, "'training' must be a History, got list"),
            (history(3, 1), {"unit": "bit"}, ValueError, "bits or nats .* got 'bit' and 'step'"),
            (history(3, 1), {"x": "epochs"}, ValueError, "or seconds, got 'bits' and 'epochs'"))),
    )
)  # fmt: skip
