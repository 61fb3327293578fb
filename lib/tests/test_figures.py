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
from unrolled.teaching import figures

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def house_style():
    with mpl.rc_context():
        mpl.use("agg")
        figures.use_house_style()
        yield
    plt.close("all")


def lines_figure(n: int = 3):
    fig, ax = plt.subplots()
    for i in range(n):
        ax.plot(np.arange(5), np.arange(5) * (i + 1), marker="o", label=f"line {i}")
    ax.set(xlabel="step", ylabel="loss (nats)", title="A title")
    return fig


def root(fig) -> ET.Element:
    return ET.fromstring(figures.svg(fig))


def displayed(monkeypatch) -> list[dict]:
    bundles: list[dict] = []
    monkeypatch.setattr("IPython.display.display", lambda bundle, raw: bundles.append(bundle))
    return bundles


def test_same_figure_gives_the_same_bytes():
    fig = lines_figure()
    assert figures.svg(fig) == figures.svg(fig) == figures.svg(lines_figure())


def test_another_process_gives_the_same_bytes():
    code = (
        "import matplotlib; matplotlib.use('agg'); import matplotlib.pyplot as plt, hashlib\n"
        "from unrolled.teaching import figures; figures.use_house_style()\n"
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


def test_show_displays_labelled_html_with_a_plain_fallback_and_closes(monkeypatch):
    bundles = displayed(monkeypatch)
    fig = lines_figure()
    figures.show(fig, alt='Three "lines" & more', caption="a < b, $x < 2$")
    (bundle,) = bundles
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


def test_a_caption_is_a_text(monkeypatch):
    displayed(monkeypatch)
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
    colours = {role: pair[theme] for role, pair in figures._COLOURS.items()}
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
    np.testing.assert_allclose(figures._spread(np.array([0.0, 1.0, 7.0]), 2.0), [-0.5, 1.5, 7.0])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-100, 100), min_size=1, max_size=7), st.floats(0.1, 30))
def test_spread_keeps_order_and_distance_and_moves_nothing_that_has_room(given_, gap):
    positions = np.array(given_)
    spread = figures._spread(positions, gap)
    order = np.argsort(positions, kind="stable")
    assert (np.diff(spread[order]) >= gap - 1e-9).all()
    assert np.isclose(spread.mean(), positions.mean(), atol=1e-9)
    np.testing.assert_allclose(figures._spread(spread, gap), spread, atol=1e-9)


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

    roles = [role for role in figures._COLOURS if role not in ("grid", "page")]
    colours = np.array([mpl.colors.to_rgb(figures._COLOURS[role][page]) for role in roles])
    if sight:
        space = {"name": "sRGB1+CVD", "cvd_type": sight, "severity": 100}
        colours = np.clip(cspace_convert(colours, space, "sRGB1"), 0, 1)
    seen = cspace_convert(colours, "sRGB1", "CAM02-UCS")
    apart = {(roles[i], roles[j]): float(np.linalg.norm(seen[i] - seen[j]))
             for i in range(len(roles)) for j in range(i)}  # fmt: skip
    assert min(apart.values()) > 9, sorted(apart.items(), key=lambda item: item[1])[:3]
