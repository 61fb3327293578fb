"""Figures that move: a drawing of a few parameters, with a control for each of them.

`explore(draw, temperature=[0.5, 1.0, 2.0], …)` has two forms. In a running kernel it shows
ipywidgets and draws a state when the reader selects it. For a page of the book
(`UNROLLED_STATIC=1`) it draws every state once and displays one piece of HTML that needs nothing
else: native controls, the states as SVG, and thirty lines of script. Without script the
start state remains; on paper it is the start state too, or the one that `still` names.
"""

from __future__ import annotations

import functools
import html
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from matplotlib.figure import Figure

from unrolled_book import figures
from unrolled_book.moving.page_form import page_form
from unrolled_book.moving.states import Plan, Value, plan


def explore(
    draw: Callable[..., Figure],
    *,
    alt: str | Callable[..., str],
    caption: str = "",
    start: Mapping[str, Value] | None = None,
    still: Mapping[str, Value] | None = None,
    max_kilobytes: float = 350,
    labels: Mapping[str, str | tuple[str, Any]] | None = None,
    **axes: Iterable[Value],
) -> None:
    """Display `draw(**state)` with a control for each axis of the state.

    On a page the reader can also drag: give one marker of the drawing the name "handle",
    `ax.plot(x, y, "o", gid="handle")`, and let every axis move it. The state whose handle is
    nearest to the pointer is shown. It must be drawn in every state.

    Args:
        draw: a pure function of the axes that returns a matplotlib figure, always of the same
            size; fix the limits of its axes, or the drawing jumps between states.
        alt: what the figure shows: a function of the state, or a format string such as
            `"the distribution at temperature {temperature}"`.
        caption: the finding, for all states; `$…$` is mathematics.
        start: the first state; an axis that it leaves out starts at its first value.
        still: the state for paper and for viewers without widgets, where it is not the start, such
            as the last stage of a diagram; an axis that it leaves out is as at the start.
        max_kilobytes: the largest gzipped size of the page's form, in kilobytes of 1000 bytes.
        labels: an axis's name to show, or a pair of name and format; the format is a string
            (`"{:.1f} nats"`) or a function of the value.
        axes: the values of each parameter. Numbers get a slider; strings and booleans get choices.

    Raises:
        ValueError: for an axis without values, a start or still that is not on its axis, an axis
            that `draw` does not take or that has the name of a parameter of `explore`, frames of
            different sizes, or frames that are too heavy together.
        TypeError: if `draw` does not return a figure, or for an axis, label or caption of the wrong
            type.
        RuntimeError: if `draw` fails; the message names the state.
    """
    from IPython.display import display

    planned = plan(draw, alt, caption, start, labels, axes, still)
    live = _kernel_can_draw()
    bundle = _live(planned) if live else {"text/html": page_form(planned, max_kilobytes)}
    display(bundle | {"text/plain": _plain(planned)}, raw=True)


def _kernel_can_draw() -> bool:
    if os.environ.get("UNROLLED_STATIC", "0") not in ("", "0"):
        return False
    try:
        import ipywidgets  # noqa: F401
        from IPython import get_ipython
    except ImportError:
        return False
    return getattr(get_ipython(), "kernel", None) is not None


def _plain(plan: Plan) -> str:
    axes = "; ".join(f"{axis.label}: {', '.join(axis.texts)}" for axis in plan.axes)
    return f"[Figure that moves: {plan.alt(plan.start)}]\n[{axes}]\n{plan.caption}".strip()


def _live(plan: Plan) -> dict[str, Any]:
    """A display bundle: the widgets, and the still for viewers without widgets."""
    box, still = _widgets(plan)
    view = {"version_major": 2, "version_minor": 0, "model_id": box.model_id}
    return {"application/vnd.jupyter.widget-view+json": view, "text/html": still}


def _widgets(plan: Plan) -> tuple[Any, str]:
    """The figure with its controls as one widget, and the still as HTML."""
    import ipywidgets as widgets

    @functools.cache
    def drawn(state: tuple[int, ...]) -> str:
        return figures.markup(plan.svg(state), plan.alt(state), plan.caption)

    controls = [
        (widgets.SelectionSlider if axis.slides else widgets.ToggleButtons)(
            options=[(text, i) for i, text in enumerate(axis.texts)],
            value=axis.start,
            description=axis.label,
            style={"description_width": "initial"},
            layout={"width": "28rem" if axis.slides else "auto", "max_width": "100%"},
        )
        for axis in plan.axes
    ]
    picture = widgets.HTML(drawn(plan.start), layout={"width": "100%"})

    def update(_: Any) -> None:
        try:
            picture.value = drawn(tuple(control.value for control in controls))
        except Exception as error:  # a callback's traceback would go to a log nobody sees
            picture.value = f"<pre>{html.escape(str(error))}</pre>"

    for control in controls:
        control.observe(update, names="value")
    return widgets.VBox([picture, *controls], layout={"align_items": "center"}), drawn(plan.still)
