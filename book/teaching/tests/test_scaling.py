"""Valleys, power laws and the law of parameters and tokens, held to cases by hand and to scipy."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from unrolled_book.scaling import Law, power_law, valley


def test_a_parabola_gives_its_own_lowest_point_from_any_sizes():
    sizes = np.array([3e3, 5e3, 1.1e4, 2.3e4, 7e4, 1.1e4])
    losses = 2.7 + 0.13 * np.log(sizes / 1.7e4) ** 2
    assert valley(sizes, losses) == pytest.approx((1.7e4, 2.7))
    # By hand: x² − x + 1 over ln N.
    assert valley([1 / np.e, 1, np.e], [3, 1, 1]) == pytest.approx((np.exp(0.5), 0.75))
    with pytest.raises(ValueError, match="opens downward"):
        valley([1, 2, 4, 8], [1, 2, 2, 1])
    with pytest.raises(ValueError, match="three sizes, got 2"):
        valley([5, 5, 7, 7], [1, 2, 3, 4])


def test_a_power_law_comes_back():
    x = np.array([3.0, 7.0, 11.0, 5e6])
    assert power_law(x, 13 * x**0.37) == pytest.approx((13, 0.37))
    with pytest.raises(ValueError, match="two different x"):
        power_law([2, 2], [3, 5])


@pytest.mark.parametrize("law", [Law(), Law(alpha=0.26, beta=0.42, A=110.0, B=8000.0)])
def test_the_best_size_is_where_a_search_finds_it(law):
    for compute in (1e17, 5.76e23):

        def at(log_n, compute=compute):
            return law.loss(np.exp(log_n), compute / (6 * np.exp(log_n)))

        found = minimize_scalar(at, bounds=(5, 40), method="bounded", options={"xatol": 1e-9})
        parameters, tokens = law.best(compute)
        assert parameters == pytest.approx(np.exp(found.x), rel=1e-4)
        assert 6 * parameters * tokens == pytest.approx(compute)
        assert law.tokens(parameters) == pytest.approx(tokens)
    ratio = law.best(1e20)[0] / law.best(1e18)[0]
    assert ratio == pytest.approx(100**law.exponent)


def test_chinchilla_s_budget_gets_about_twenty_tokens_for_each_parameter():
    """The constants as first printed give four times as many."""
    printed = Law(floor=1.69, A=406.4, alpha=0.34, B=410.7, beta=0.28)
    for law, low, high in ((Law(), 17, 22), (printed, 80, 110)):
        parameters, tokens = law.best(5.76e23)
        assert low < tokens / parameters < high
