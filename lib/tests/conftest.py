"""What test modules share: devices, seeds, number types, and the library they compare with."""

import signal

import pytest
import torch
from hypothesis import HealthCheck, settings

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


@pytest.fixture(scope="module")
def transformers():
    """The library `transformers`, kept quiet and off the network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        library = pytest.importorskip("transformers")
        library.logging.set_verbosity_error()
        yield library


@pytest.fixture
def exact_floats(monkeypatch):
    """`transformers` goes to single precision in places, on purpose; here x.float() is x."""
    monkeypatch.setattr(torch.Tensor, "float", lambda x: x)
