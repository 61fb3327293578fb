"""Training curves: the losses of one fit, or of several fits, as a figure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from unrolled_book.figures.palette import PALETTE
from unrolled_book.figures.plots import label_lines

if TYPE_CHECKING:  # figures alone need no torch
    from unrolled.training.settings import History

NATS = {"bits": math.log(2), "nats": 1.0}  # nats in one unit
TIMES = {"step": "step", "seconds": "time (seconds)"}
ROLES = ("accent", "gradient", "value", "train", "muted")  # "test" is for held-out data
UPDATES = {"linewidth": 0.8, "alpha": 0.4}
MEAN = {"linewidth": 1.3}
HELD_OUT = {"linewidth": 2.2, "marker": "o", "markersize": 4}
MOST_POINTS = 500  # of one line: more make the page heavier and no curve clearer


def training_curves(
    histories: History | Mapping[str, History], *, unit: str = "bits", x: str = "step"
) -> Figure:
    """The training loss of one to five fits and, if there is one, the validation loss.

    For one fit, the loss of each step is drawn faintly and its running mean on top, at the middle
    of the window. Several fits have one colour each: thin for the running mean, thick for the
    validation loss. The key says over how many steps the mean runs.

    Args:
        histories: a `History`, or several by name; the names stand at the ends of the lines.
        unit: "bits" or "nats", the unit of the mean loss of a target.
        x: "step", or "seconds" since the fit began.

    Raises:
        ValueError: for an unknown unit or x, no history or more than five, or one without a step.
        TypeError: for anything but a history.
    """
    if unit not in NATS or x not in TIMES:
        raise ValueError(f"unit is bits or nats and x step or seconds, got {unit!r} and {x!r}")
    single = not isinstance(histories, Mapping)
    runs = {"training": histories} if single else dict(histories)
    _check(runs)
    window = _round_down(min(len(history.step) for history in runs.values()) / 25)
    fig, ax = plt.subplots()
    for (name, history), role in zip(runs.items(), ("train",) if single else ROLES, strict=False):
        _draw(ax, history, name, role, window, NATS[unit], x, single)
    _key(ax, [*runs.values()], window, single)
    ax.set(xlabel=TIMES[x], ylabel=f"loss ({unit})")
    fig.draw_without_rendering()  # the layout decides how near to each other the names are
    label_lines(ax)
    return fig


def _check(runs: dict[str, History]) -> None:
    if not 1 <= len(runs) <= len(ROLES):
        raise ValueError(f"1 to {len(ROLES)} histories can be told apart, got {len(runs)}")
    for name, history in runs.items():
        if not hasattr(history, "train_loss"):
            raise TypeError(f"{name!r} must be a History, got {type(history).__name__}")
        if not history.step:
            raise ValueError(f"the history {name!r} holds no update")


def _draw(
    ax: mpl.axes.Axes,
    history: History,
    name: str,
    role: str,
    window: int,
    nats: float,
    x: str,
    single: bool,
) -> None:
    """Draw one fit; its names belong to single points, where it ends."""
    times = np.array(getattr(history, x), float)
    loss, held_out = np.array(history.train_loss) / nats, np.array(history.valid_loss) / nats
    some = slice(None, None, _one_in(loss))
    if single and window > 1:
        ax.plot(times[some], loss[some], color=PALETTE[role], **UPDATES)
    mean = [np.convolve(values, np.ones(window) / window, "valid") for values in (times, loss)]
    ax.plot(*(values[some] for values in mean), color=PALETTE[role], **MEAN)
    if single or not history.valid_loss:
        ax.plot(times[-1], mean[1][-1], color=PALETTE[role], label=name)
    if history.valid_loss:
        colour = PALETTE["validation" if single else role]
        ax.plot(
            times[np.isin(history.step, history.valid_step)], held_out, color=colour, **HELD_OUT
        )
        ax.plot(times[-1], held_out[-1], color=colour, label="validation" if single else name)


def _key(ax: mpl.axes.Axes, histories: list[History], window: int, single: bool) -> None:
    """Add a key of the kinds of lines, unless their names say it."""
    mean, kinds = f"mean of {window} steps" if window > 1 else "each step", {}
    if single and window > 1:
        one_in = _one_in(histories[0].step)
        kinds = {"each step" if one_in == 1 else f"one step in {one_in}": UPDATES, mean: MEAN}
    if not single:
        measured = any(history.valid_loss for history in histories)
        kinds = {"validation": HELD_OUT} if measured else {}
        kinds |= {f"training, {mean}": MEAN}
    colour = PALETTE["train" if single else "ink"]
    lines = [mpl.lines.Line2D([], [], color=colour, **style) for style in kinds.values()]
    if lines:
        ax.legend(lines, kinds, loc="upper right")


def _one_in(values: list | np.ndarray) -> int:
    """Draw one value in so many."""
    return math.ceil(len(values) / MOST_POINTS)


def _round_down(number: float) -> int:
    """The largest of 1, 2, 5, 10, 20, 50, … up to `number`, at least 1."""
    power = 10 ** math.floor(math.log10(max(number, 1)))
    return max(m * power for m in (1, 2, 5) if m * power <= max(number, 1))
