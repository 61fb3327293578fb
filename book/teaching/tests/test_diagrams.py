"""Diagrams, graphs and tables: what they draw, that they come out again, and their refusals."""

import re

import numpy as np
import pytest
import torch
from torch import nn
from unrolled.models.autograd import Tensor, exp, topological_order
from unrolled_book import figures
from unrolled_book.figures.diagrams import Part
from unrolled_book.moving.explore import explore

from lib.tests.comparing import refuses


def texts(figure):
    return [t.get_text() for t in figure.axes[0].texts]


def test_a_matrix_shows_its_numbers_in_its_cells_its_name_and_its_shape():
    board = figures.Board(200, 120)
    grid = board.matrix(40, 40, [[1.5, -2.0, np.nan]], name="A", shape="(1, 3)", rows=["a"])
    assert texts(board.figure) == ["1.5", "−2", "a", "A", "(1, 3)"]
    assert grid.cell(0, 2).centre == (115, 50)
    assert grid.row(0).width == grid.width == 90
    assert grid.column(1).x == 70
    assert grid.top[1] < grid.y
    assert grid.bottom[1] > grid.y + grid.height
    board = figures.Board(200, 100)
    board.matrix(20, 20, [["q", "k"]], colour=[["query", "key"]])
    faces = [p.get_facecolor()[:3] for p in board.axes.patches]
    assert faces[0] != faces[1]
    board.matrix(20, 60, [[-1234567.0]], form=".0f", cell=(20, 20))
    assert board.axes.texts[-1].get_fontsize() < 5


def test_a_place_is_there_for_a_script_large_enough_and_not_drawn():
    board = figures.Board(200, 100)
    box = board.box(20, 20, "x", width=10, height=80)
    plain = figures.svg(board.figure, prefix="p")
    made = board.place(box, "a")
    assert (made.width, made.height, made.centre) == (32, 80, box.centre)
    text = figures.svg(board.figure, prefix="p")
    found = re.search(r'<g data-place="a">\s*<path d="M 9 [^>]*style="fill: none" />\s*</g>', text)
    assert found
    assert "".join(text.replace(found[0], "").split()) == "".join(plain.split())
    for part, letter in ((box, "b"), (Part(40, 20, 10, 10), "b"), (Part(150, 50, 10, 10), "a")):
        with pytest.raises(ValueError, match="overlap"):
            board.place(part, letter)
    board.place(Part(52, 20, 10, 10), "b")


def test_a_stage_draws_what_comes_later_as_empty_outlines_and_moves_nothing(monkeypatch, displayed):
    def drawn(stage):
        board = figures.Board(200, 60, stage=stage)
        first = board.box(10, 10, "one")
        with board.at(2):
            second = board.box(100, 10, "two")
            board.matrix(150, 10, [[3, 4]], cell=(10, 10))
            board.arrow(first, second, "then")
            with board.at(1):  # never earlier than what surrounds it
                board.text(150, 50, "end")
        return board.figure, second

    assert texts(drawn(1)[0]) == ["one"]
    assert texts(drawn(2)[0]) == texts(drawn(None)[0]) == ["one", "two", "3", "4", "then", "end"]
    first, *later = drawn(1)[0].axes[0].patches  # "two" and two cells; no arrow yet
    assert [p.get_facecolor()[3] for p in later] == [0, 0, 0]
    assert {p.get_edgecolor() for p in later}.isdisjoint({first.get_edgecolor()})
    assert max(p.get_zorder() for p in later) < first.get_zorder()
    assert drawn(1)[1] == drawn(2)[1]
    monkeypatch.setenv("UNROLLED_STATIC", "1")
    explore(lambda stage: drawn(stage)[0], stage=[1, 2], alt="stage {stage}")
    assert "two" in displayed[0]["text/html"]


def test_the_same_board_gives_the_same_bytes_in_the_pages_colours():
    def board():
        b = figures.Board(300, 80)
        b.path([(5, 5), (50, 5), (50, 50)], "x", colour="key")
        b.brace((5, 60), (90, 60), "window")
        b.brace((200, 10), (200, 60), "rows")
        b.number(100, 20, 3)
        b.tokens(120, 40, ["the", "cat"])
        return figures.svg(b.figure)

    assert board() == board()
    assert "var(--u-data" in board()


def test_an_arrow_leaves_and_ends_at_the_sides_that_face_each_other():
    a, b = Part(0, 0, 20, 20), Part(100, 5, 20, 20, clear=(9, 0, 0, 0))
    assert a.towards(b) == (20, 10)
    assert b.towards(a) == (91, 15)
    below = Part(0, 100, 20, 20, clear=(0, 7, 0, 0))
    assert a.towards(below) == (10, 20)
    assert below.towards(a) == (10, 93)


def test_a_computation_graph_shows_the_contributions_that_add_up():
    a = Tensor(3.0)
    square = a * a
    y = square + a
    y.backward()
    figure = figures.computation_graph(y, {a: "a", square: "a²", y: "y"})
    shown = texts(figure)
    assert shown[:9] == ["a", "3", "7", "a²", "9", "1", "y", "12", "1"]
    assert shown[9:] == ["3", "3", "1", "1"]  # two ways through a · a, then y's two parents
    still = texts(figures.computation_graph(y, {a: "a"}, gradients=False))
    assert still == ["a", "3", "·", "9", "·", "12"]
    assert "7" not in texts(figures.computation_graph(y, {a: "a"}, stage=1))


def test_a_wide_box_at_the_end_of_a_graph_lies_within_the_drawing():
    a = Tensor(3.0)
    y = a * a
    figure = figures.computation_graph(y, {a: "a", y: "a long name"}, gradients=False)
    (ax,) = figure.axes
    edges = [x for patch in ax.patches for x in patch.get_path().get_extents().intervalx]
    assert 0 < min(edges) < max(edges) < ax.get_xlim()[1]


def test_a_graph_draws_every_tensor_once_and_the_contribution_of_each_parent():
    a, b = Tensor(3.0), Tensor(5.0)
    y = a * b
    y.backward()
    assert texts(figures.computation_graph(y, {}))[-2:] == ["5", "3"]
    y = Tensor(0.5)
    for _ in range(4):
        y = exp(y * 0.1)
    figure = figures.computation_graph(y, {}, gradients=False)
    assert len(texts(figure)) == 2 * len(topological_order(y))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.proj = nn.LayerNorm(7), nn.Linear(7, 7)

    def forward(self, x):
        return x + self.proj(self.norm(x)).softmax(-1)


class Branches(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def test_a_module_is_drawn_from_what_it_does_with_its_shapes():
    figure = figures.module_graph(Residual(), torch.zeros(2, 5, 7), letters={"B": 2, "D": 7})
    shown = [t for t in texts(figure) if t]
    assert shown[::2] == ["x", "norm", "proj", "softmax", "+"]
    assert set(shown[1::2]) == {"(B, 5, D)"}
    hidden = figures.module_graph(Residual(), torch.zeros(2, 5, 7), hide=["softmax"])
    assert "softmax" not in texts(hidden)
    assert len(hidden.axes[0].patches) == 4 + 4  # boxes, arrows


SQUARE = torch.zeros(7, 7)


test_what_cannot_be_drawn_is_refused = refuses(
    (lambda b: figures.Board(900, 100), "at most 440 points wide, got 900"),
    (lambda b: b.box(0, 0, "x", colour="red"), "'red' is no colour of the book"),
    (lambda b: b.matrix(0, 0, np.zeros((2, 2, 2))), r"two axes, got shape \(2, 2, 2\)"),
    (lambda b: b.matrix(0, 0, np.zeros((2, 2)), rows=["a"]), "rows needs 2 names"),
    (lambda b: figures.computation_graph(exp(Tensor(0.0)), {}), r"call root\.backward"),
    (lambda b: figures.computation_graph(exp(Tensor([0.0, 1.0])), {}, gradients=False),
     r"draws scalars; the graph holds \(2,\)"),
    (lambda b: figures.module_graph(Branches(), SQUARE), r"torch\.fx cannot trace Branches"),
    (lambda b: figures.module_graph(Residual(), SQUARE, letters={"B": 7, "D": 7}), "same size"),
    (lambda b: figures.table([]), "at least one row"),
    (lambda b: figures.table([{"a": 1}, {"b": 1}]), r"row 1 has the columns \['b'\]"),
    (lambda b: figures.table([{"a": 1}], form={"b": ".2f"}), r"form names the columns \['b'\]"),
    of=lambda call: call(figures.Board(100, 100)),
)  # fmt: skip


def test_a_table_has_a_header_units_and_a_text_form(displayed):
    rows = [
        {"model": "Elman <1>", "weights": 3202, "error (%)": -12.911},
        {"model": "LSTM", "weights": None, "error (%)": 2.7},
    ]
    figures.table(rows, caption="Gates help.", mark=1)
    (shown,) = displayed
    assert shown["text/plain"] == (
        "Gates help.\n"
        "model      weights  error (%)\n"
        "─────────  ───────  ─────────\n"
        "Elman <1>    3,202      −12.9\n"
        "LSTM                      2.7"
    )
    page = shown["text/html"]
    assert re.findall(r'<th scope="(\w+)"', page) == ["col"] * 3 + ["row"] * 2
    assert "Elman &lt;1&gt;" in page
    assert '<tr class="u-mark"><th scope="row">LSTM' in page
    assert '<td class="u-number">3,202</td>' in page
    assert "<caption" in page


def test_a_table_takes_a_form_for_each_column_and_breaks_no_range(displayed):
    row = {"n": 1, "p": 0.123456, "lines": "95–97%", "words": "Kneser–Ney"}
    figures.table([row], form={"p": ".1%"})
    (shown,) = displayed
    assert shown["text/plain"].endswith("1  12.3%  95–97%  Kneser–Ney")
    assert "<td>95–\N{WORD JOINER}97%</td><td>Kneser–Ney</td>" in shown["text/html"]
