"""What test modules share: devices, seeds, number types, and the library they compare with."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, settings
from unrolled.data import corpora

# A busy machine is no failure: neither a slow example nor examples that are slow to draw.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def device(request):
    return request.param


def pytest_collection_modifyitems(config, items):
    """Leave out the cases for a GPU where there is none: `make test-cuda` emulates one for them."""
    if not torch.cuda.is_available():
        out = [item for item in items if item.get_closest_marker("cuda")]
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if not item.get_closest_marker("cuda")]


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_reaches_python():
    """A test run that was started in the background ignores Ctrl-C; some tests send it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _seed_and_dtype(request):
    """Every test starts at seed 0, and computes in its module's DTYPE where there is one."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(request.module, "DTYPE", before))
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)


@pytest.fixture
def house_style():
    """The book's figures, drawn without a window and closed afterwards."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt
    from unrolled.teaching import figures

    with mpl.rc_context():
        mpl.use("agg")
        figures.use_house_style()
        yield
    plt.close("all")


@pytest.fixture
def displayed(monkeypatch) -> list[dict]:
    """What a notebook would display: a bundle of media types for each call."""
    bundles: list[dict] = []
    monkeypatch.setattr("IPython.display.display", lambda bundle, raw: bundles.append(bundle))
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


@pytest.fixture(scope="module")
def transformers():
    """The library `transformers`, kept quiet and off the network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        library = pytest.importorskip("transformers")
        library.logging.set_verbosity_error()
        yield library
