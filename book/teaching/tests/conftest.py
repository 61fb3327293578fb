"""What these tests share: seeds and devices with the library's tests, and the book's own."""

from dataclasses import replace

import pytest
from unrolled.data import corpora

from lib.tests.conftest import (
    _ctrl_c_reaches_python,
    _seed_and_dtype,
    device,
    pytest_collection_modifyitems,
)

__all__ = ["_ctrl_c_reaches_python", "_seed_and_dtype", "device", "pytest_collection_modifyitems"]


@pytest.fixture
def house_style():
    """The book's figures, drawn without a window and closed afterwards."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt
    from unrolled_book import figures

    with mpl.rc_context():
        mpl.use("agg")
        figures.use_house_style()
        yield
    plt.close("all")


@pytest.fixture
def displayed(monkeypatch) -> list[dict]:
    """What a notebook would display: a bundle of media types for each call."""
    bundles: list[dict] = []

    def display(bundle, *, raw):
        assert raw, "the bundle itself would be shown as text"
        bundles.append(bundle)

    monkeypatch.setattr("IPython.display.display", display)
    return bundles


@pytest.fixture(scope="module")
def short_texts():
    """The corpora cut short, for experiments whose form is tested, not their scores."""
    load = corpora.load

    def cut(name):
        whole = load(name)
        return replace(
            whole, train=whole.train[:300_000], valid=whole.valid[:25_000], test=whole.test[:25_000]
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpora, "load", cut)
        yield
