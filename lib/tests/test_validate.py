"""Checks of arguments: what fits comes back, what does not is named with what was expected."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from unrolled.validate import one_of, real, whole


@pytest.mark.parametrize("value", [3, np.int64(3)])
def test_a_whole_number_comes_back_as_int(value):
    assert type(whole("n", value)) is int
    assert whole("n", value, at_least=3, at_most=3) == 3


@pytest.mark.parametrize("value", [True, 3.0, 5.5, math.nan, "3", None])
def test_what_is_no_integer_is_refused_by_name(value):
    with pytest.raises(TypeError, match="n_steps must be an integer, got "):
        whole("n_steps", value)


def test_a_whole_number_keeps_its_bounds():
    with pytest.raises(ValueError, match=r"^n must be at least 1, got 0$"):
        whole("n", 0)
    with pytest.raises(ValueError, match=r"^n must be at least 0 and at most 7, got 8$"):
        whole("n", 8, 0, 7)
    assert whole("n", -5, at_least=None) == -5


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), Fraction(2)])
def test_a_real_number_comes_back_as_float(value):
    assert type(real("x", value)) is float
    assert real("x", value, at_least=2, at_most=2) == 2


def test_what_is_no_finite_number_is_refused_by_name():
    for value in (True, "0.1", None, 1j):
        with pytest.raises(TypeError, match="lr must be a number, got "):
            real("lr", value)
    for value in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match="lr must be finite, got "):
            real("lr", value)


@pytest.mark.parametrize("value", [0, -1e-9, 0.5])  # an int against a float bound as well
def test_above_and_below_leave_the_bound_out(value):
    with pytest.raises(ValueError, match=r"^p must be above 0 and below 0.5, got "):
        real("p", value, above=0, below=0.5)


def test_an_unknown_option_is_answered_with_the_known_ones():
    assert one_of("norm", "rms", ("layer", "rms")) == "rms"
    with pytest.raises(ValueError, match=r"^norm must be one of layer, rms, got 'batch'$"):
        one_of("norm", "batch", ("layer", "rms"))
