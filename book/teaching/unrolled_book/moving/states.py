"""The states of a figure that moves: its axes, their values, and the text for each state."""

from __future__ import annotations

import inspect
import itertools
import math
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from unrolled_book import figures

Value = bool | int | float | str
# explore's own parameters
_TAKEN = ("draw", "alt", "caption", "start", "still", "max_kilobytes", "labels")


@dataclass(frozen=True)
class Axis:
    """One parameter: its values, their texts, and the indices it starts at and has on paper."""

    name: str
    label: str
    values: tuple[Value, ...]
    texts: tuple[str, ...]
    start: int
    still: int

    @property
    def slides(self) -> bool:
        return not any(isinstance(value, (bool, str)) for value in self.values)


@dataclass(frozen=True)
class Plan:
    """What to draw, and for which states. A state is a tuple with one index for each axis."""

    draw: Callable[..., Figure]
    alt_form: str | Callable[..., str]
    caption: str
    axes: tuple[Axis, ...]

    @property
    def start(self) -> tuple[int, ...]:
        return tuple(axis.start for axis in self.axes)

    @property
    def still(self) -> tuple[int, ...]:
        """The state for paper."""
        return tuple(axis.still for axis in self.axes)

    def states(self) -> list[tuple[int, ...]]:
        return list(itertools.product(*(range(len(axis.values)) for axis in self.axes)))

    def values(self, state: tuple[int, ...]) -> dict[str, Value]:
        return {axis.name: axis.values[i] for axis, i in zip(self.axes, state, strict=True)}

    def svg(self, state: tuple[int, ...], prefix: str | None = None) -> str:
        values = self.values(state)
        shown = ", ".join(f"{name}={value!r}" for name, value in values.items())
        with _without_a_trace():
            try:
                fig = self.draw(**values)
            except Exception as error:
                raise RuntimeError(f"draw({shown}) failed: {error!r}") from error
            if not isinstance(fig, Figure):
                raise TypeError(
                    f"draw({shown}) returned {type(fig).__name__}; it must return a matplotlib"
                    " figure (does it end with `return fig`?)"
                )
            drawing = figures.svg(fig, prefix=prefix)
        plt.close(fig)
        return drawing

    def alt(self, state: tuple[int, ...]) -> str:
        values = self.values(state)
        if callable(self.alt_form):
            text = self.alt_form(**values)
        else:
            texts = {axis.name: axis.texts[i] for axis, i in zip(self.axes, state, strict=True)}
            text = _Alt(texts).format(self.alt_form, **values)
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"explore needs alt text for every state; for {values} it is {text!r}")
        return text


@contextmanager
def _without_a_trace() -> Iterator[None]:
    """Close the figures opened inside and restore rcParams, also after an error."""
    before = plt.get_fignums()
    try:
        with mpl.rc_context():
            yield
    finally:
        for number in set(plt.get_fignums()).difference(before):
            plt.close(number)


class _Alt(string.Formatter):
    """Format strings in which a bare `{name}` becomes the control's text."""

    def __init__(self, texts: Mapping[str, str]):
        self.texts = texts

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, str]:
        if field_name not in kwargs:
            raise ValueError(f"alt speaks of {{{field_name}}}, but the axes are {list(kwargs)}")
        return (field_name, kwargs[field_name]), field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        name, number = value
        return format(number, format_spec) if format_spec else self.texts[name]


def plan(
    draw: Callable[..., Figure],
    alt: str | Callable[..., str],
    caption: str,
    start: Mapping[str, Value] | None,
    labels: Mapping[str, str | tuple[str, Any]] | None,
    axes: Mapping[str, Iterable[Value]],
    still: Mapping[str, Value] | None = None,
) -> Plan:
    """Check the arguments of `explore` before anything is drawn."""
    _check_names(draw, start=start, still=still, labels=labels)
    start, still, labels = dict(start or {}), dict(still or {}), dict(labels or {})
    if not axes:
        raise ValueError("explore needs at least one axis, such as temperature=[0.5, 1.0, 2.0]")
    for what, given in (("start", start), ("still", still), ("labels", labels)):
        if unknown := [name for name in given if name not in axes]:
            raise ValueError(f"{what} names {unknown}, but the axes are {list(axes)}")
    try:
        inspect.signature(draw).bind(**axes)
    except TypeError as error:
        raise ValueError(
            f"draw{inspect.signature(draw)} cannot be called with the axes {list(axes)}: {error}"
        ) from None
    built = (
        _axis(name, values, start, still, labels.get(name, "")) for name, values in axes.items()
    )
    return Plan(draw, alt, caption, tuple(built))


def _check_names(draw: Callable[..., Figure], **mappings: Any) -> None:
    for parameter in inspect.signature(draw).parameters.values():
        if parameter.name in _TAKEN and parameter.default is parameter.empty:
            raise ValueError(f"draw's parameter {parameter.name} needs a name explore does not use")
    for name, given in mappings.items():
        if not isinstance(given, Mapping | None):
            raise TypeError(f"{name} is a dict by axis (no axis can be named so), got {given!r}")


def _axis(
    name: str, given: Iterable[Value], start: Mapping, still: Mapping, label: str | tuple
) -> Axis:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"axis {name} must be a list of values, got {given!r}")
    # Numpy's scalars become Python's, so that draw, alt and read-outs see 0.5, not np.float64(0.5).
    values = tuple(value.item() if hasattr(value, "item") else value for value in given)
    if not values:
        raise ValueError(f"axis {name} has no values")
    if wrong := [value for value in values if not isinstance(value, Value)]:
        raise TypeError(f"axis {name} takes numbers, texts or yes/no, got {wrong[0]!r}")
    if not isinstance(label, str) and not (isinstance(label, tuple) and len(label) == 2):
        raise TypeError(f"the label of {name} is a name or a pair (name, format), got {label!r}")
    label, form = (label, None) if isinstance(label, str) else label
    texts = _texts(values, form)
    if len(set(texts)) < len(texts):
        raise ValueError(f"axis {name} has values that read alike: {list(texts)}")
    first = _index(values, "start", name, start) if name in start else 0
    on_paper = _index(values, "still", name, still) if name in still else first
    return Axis(name, label or name.replace("_", " "), values, texts, first, on_paper)


def _index(values: tuple[Value, ...], what: str, name: str, state: Mapping[str, Value]) -> int:
    """Where the state's value stands among the axis's values."""
    for i, value in enumerate(values):
        if _same(value, state[name]):
            return i
    raise ValueError(f"{what} {name}={state[name]!r} is not one of {list(values)}")


def _same(a: Value, b: Value) -> bool:
    numbers = isinstance(a, (int, float)) and isinstance(b, (int, float))
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) if numbers else a == b


def _texts(values: tuple[Value, ...], form: str | Callable[[Any], str] | None) -> tuple[str, ...]:
    """The values as texts: by the given form, else as short as possible without being equal."""
    if form is not None:
        return tuple((form if callable(form) else form.format)(value) for value in values)
    if all(isinstance(value, bool) for value in values):
        return tuple("yes" if value else "no" for value in values)
    short = tuple(f"{v:.4g}" if isinstance(v, float) else str(v) for v in values)
    texts = short if len(set(short)) == len(set(values)) else tuple(str(v) for v in values)
    return tuple(
        t.replace("-", "−") if not isinstance(v, str) else t
        for v, t in zip(values, texts, strict=True)
    )
