"""Finite differences against derivatives known by hand and by torch."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from unrolled.models.gradcheck import gradcheck, numerical_jacobian


@given(st.integers(0, 2**32 - 1), st.sampled_from([(), (5,), (2, 3)]), st.sampled_from([(), (7,)]))
@settings(max_examples=20, deadline=None)
def test_shape_is_out_then_in_and_values_are_torchs(seed, shape_in, shape_out):
    rng = np.random.default_rng(seed)
    x, mixing = rng.normal(size=shape_in), rng.normal(size=(*shape_out, *shape_in))

    def f(x):
        axes = tuple(range(len(shape_out), len(shape_out) + len(shape_in)))
        return (np.tanh(x) * mixing).sum(axes)

    def f_torch(x):
        return torch.tensordot(torch.as_tensor(mixing), torch.tanh(x), len(shape_in))

    J = numerical_jacobian(f, x)
    assert J.shape == (*shape_out, *shape_in)
    theirs = torch.autograd.functional.jacobian(f_torch, torch.as_tensor(x))
    assert_allclose(J, theirs.numpy(), atol=1e-8)
    assert gradcheck(f, x, theirs.numpy())


def test_the_step_that_was_really_taken_divides_the_difference():
    x = np.array([1e6 / 3])  # here x + 1e-6 is rounded by up to 3e-11: 3e-5 of the step
    assert_allclose(numerical_jacobian(lambda x: 1.0 * x, x), [[1]], rtol=1e-12)


def test_x_stays_as_it_is_even_when_f_writes_on_it_and_a_buffer_may_be_reused():
    x, buffer = np.array([2.0, 3.0]), np.empty(2)

    def f(x):
        x *= x
        np.multiply(x, 1.0, out=buffer)
        return buffer

    assert_allclose(numerical_jacobian(f, x), np.diag([4, 6]), rtol=1e-8, atol=1e-8)
    assert gradcheck(lambda x: f(x).sum(), x, np.array([4.0, 6.0]))
    assert_array_equal(x, [2, 3])


def test_the_report_names_the_worst_entry():
    x = np.arange(6.0).reshape(2, 3)
    grad = 2 * x
    grad[0, 1] += 0.001
    grad[1, 2] = 7.0  # 10 would be right
    report = gradcheck(lambda x: (x**2).sum(), x, grad)
    assert not report
    assert not report.agrees
    assert report.index == (1, 2)
    assert report.got == 7
    assert report.expected == pytest.approx(10, rel=1e-9)
    assert report.numerical.shape == (2, 3)
    assert str(report).startswith("Report(agrees=False, index=(1, 2), got=7.0, expected=9.99999999")


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e8])
def test_an_entry_off_by_a_part_in_a_hundred_thousand_is_seen_at_every_scale(scale):
    x = np.array([0.5, 1.5])
    grad = 2 * scale * x
    assert gradcheck(lambda x: scale * (x**2).sum(), x, grad)
    wrong = grad * [1, 1 + (1e-3 if scale < 1 else 1e-5)]
    assert not gradcheck(lambda x: scale * (x**2).sum(), x, wrong)


@pytest.mark.parametrize(
    ("f", "x", "right", "wrong", "options"),
    [
        # a small wrong entry beside a huge right one
        (lambda x: x @ [1e4, 1e-2], np.zeros(2), np.array([1e4, 1e-2]), [1, -1], {}),
        # numbers near 10⁹ lie 10⁻⁷ apart, so a difference over 10⁻⁶ is right to a tenth
        (lambda x: 1e9 + x.sum(), np.zeros(2), np.ones(2), [1, 99], {}),
        # from 1 to 3 the cube rises by 26; its slope in the middle is 12
        (lambda x: x**3, 2.0, 13.0, 12 / 13, {"eps": 1.0}),
    ],
)
def test_what_is_right_agrees_and_what_is_wrong_does_not(f, x, right, wrong, options):
    assert gradcheck(f, x, right, **options)
    assert not gradcheck(f, x, right * np.array(wrong), **options)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_never_agrees(bad):
    report = gradcheck(lambda x: (x**2).sum(), np.ones(3), np.array([2, bad, 2]))
    assert not report
    assert report.index == (1,)
    assert not gradcheck(lambda x: (x * np.nan).sum(), np.ones(3), np.full(3, np.nan))


def test_a_scalar_has_index_nothing_and_equal_reports_are_equal():
    report = gradcheck(lambda x: x**3, np.float64(2), 12.0)
    assert report
    assert report.index == ()
    first, again = (gradcheck(lambda x: np.exp(x).sum(), np.zeros(3), np.ones(3)) for _ in "12")
    assert first == again
    assert not gradcheck(lambda x: x**3, 2.0, 11.0)


THREE = np.ones(3)
DTYPES = [np.array([1, 2]), [1, 2], 3, np.ones(2, dtype=np.float32)]


@pytest.mark.parametrize(
    ("f", "x", "grad", "error", "message"),
    [
        *[(np.sum, x, None, TypeError, f"float64 array, got {np.asarray(x).dtype}")
          for x in DTYPES],
        *[(np.sum, THREE, np.ones(shape), ValueError, re.escape(f"{shape}, expected (3,)"))
          for shape in [(3, 1), (3, 3), (1,), ()]],
        (np.sum, np.ones((0, 3)), np.ones((0, 3)), ValueError, "nothing to check"),
        (np.sum, THREE, THREE + 0j, TypeError, "the derivative must hold real numbers"),
        (np.sum, np.array([1.0, 1e17]), None, ValueError, r"at \(1,\): a step of 1e-06 is lost"),
        (lambda x: None, THREE, None, TypeError, r"f\(x\) is None: is a `return` missing"),
        (lambda x: 1j * x, THREE, None, TypeError, r"f\(x\) must hold real numbers"),
    ],
)  # fmt: skip
def test_what_cannot_be_checked_is_refused(f, x, grad, error, message):
    with pytest.raises(error, match=message):
        gradcheck(f, x, x if grad is None else grad)
    if grad is None:
        with pytest.raises(error, match=message):
            numerical_jacobian(f, x)
