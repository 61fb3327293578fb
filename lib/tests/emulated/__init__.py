"""A device "cuda" without a GPU: `pytest -p emulated`, or `import emulated` before torch.

`device.cpp` gives torch's CPU build a device with memory of its own (filled with NaN), a generator,
pinned memory, and a fallback that refuses tensors of two devices and computes on the CPU; this file
gives `torch.cuda` the answers of one GPU. `device.type == "cuda"` is true, so every branch for a
GPU runs. It shows that these branches are wired rightly, and where the host would wait. It says
nothing of a GPU's arithmetic, kernels, streams or speed.
"""

from __future__ import annotations

import collections
import ctypes
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from .build import build

# Before torch, which asks once, while it is imported, what CUDA can do.
_native = ctypes.CDLL(str(build()), mode=ctypes.RTLD_GLOBAL)
import torch  # noqa: E402

for _name in ("held", "peak"):
    getattr(_native, f"emulated_{_name}").restype = ctypes.c_int64
_Callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """A file of tests without a word of a device has no case for one, and need not be imported."""
    if collection_path.is_dir():
        return None
    text = collection_path.read_text("utf8")
    return None if "device" in text or "cuda" in text else True


class Waits:
    """Within, `found` counts by line of the library where a host would wait for a GPU."""

    def __init__(self) -> None:
        self.found: collections.Counter[str] = collections.Counter()
        self._callback = _Callback(self._note)

    def _note(self, why: bytes) -> None:
        frames = [f for f in traceback.extract_stack() if "/unrolled/" in f.filename]
        last = frames[-1] if frames else None
        where = f"{last.filename.split('/unrolled/')[-1]}:{last.lineno}" if last else "elsewhere"
        self.found[f"{where} {why.decode()}"] += 1

    def __enter__(self) -> Waits:
        _native.emulated_on_wait(self._callback)
        return self

    def __exit__(self, *_: object) -> None:
        _native.emulated_on_wait(None)


class _Nothing:
    """A stream or an event."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getattr__(self, name: str) -> Callable:
        return lambda *_, **__: None


def _warn(why: bytes) -> None:
    message = f"called a synchronizing CUDA operation: {why.decode()}"
    warnings.warn(message, stacklevel=2)


_sync_debug = {"mode": 0, "callback": _Callback(_warn)}


def _set_sync_debug_mode(mode: str | int) -> None:
    """As torch's: where a host would wait, it warns."""
    _sync_debug["mode"] = mode = {"default": 0, "warn": 1}.get(mode, mode)
    _native.emulated_on_wait(_sync_debug["callback"] if mode else None)


def _as_cudnn(kernel: Callable) -> Callable:
    """The recurrent kernel with what cuDNN refuses.

    That is a state that is not contiguous, and a backward pass in evaluation mode.
    """

    def refuse(gradient: torch.Tensor) -> None:
        raise RuntimeError("cudnn RNN backward can only be called in training mode")

    def call(data, second, third, *rest):
        # (data, batch_sizes, state, …) of a packed sequence, or (data, state, weights, …)
        packed = isinstance(second, torch.Tensor) and not isinstance(rest[0], bool)
        state, training = (third, rest[4]) if packed else (second, rest[3])
        if not data.is_cuda:
            return kernel(data, second, third, *rest)
        if not all(s.is_contiguous() for s in (state if isinstance(state, tuple) else (state,))):
            raise RuntimeError("rnn: hx is not contiguous")
        found = kernel(data, second, third, *rest)
        if not training and found[0].requires_grad:
            found[0].register_hook(refuse)
        return found

    return call


def _clone(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """torch makes no storage on CUDA without CUDA; a tensor's it does."""
    fresh = torch.empty(storage.nbytes(), dtype=torch.uint8, device=storage.device)
    return fresh.untyped_storage().copy_(storage)


def _install() -> None:
    cuda = torch.cuda
    properties = SimpleNamespace(
        name="emulated", gcnArchName="", major=9, minor=0, total_memory=2**33,
        multi_processor_count=100,
    )  # fmt: skip
    answers = {
        "is_available": True, "is_initialized": True, "device_count": 1, "current_device": 0,
        "is_bf16_supported": True, "get_device_name": "an emulated GPU",
        "get_device_capability": (9, 0), "get_device_properties": properties,
        "synchronize": None, "empty_cache": None, "set_device": None, "_lazy_init": None,
        "init": None, "is_current_stream_capturing": False, "current_stream": _Nothing(),
        "stream": _Nothing(),
    }  # fmt: skip
    for name, answer in answers.items():
        for module in (cuda, cuda.random, cuda.memory):
            if module is cuda or hasattr(module, name):
                setattr(module, name, lambda *_, answer=answer, **__: answer)
    torch.backends.cudnn.is_acceptable = lambda *_: False  # and no warning that there is none
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        setattr(torch, name, _as_cudnn(getattr(torch, name)))
    cuda.Stream = cuda.Event = _Nothing
    cuda.device = lambda *_: _Nothing()
    cuda.memory_allocated = lambda *_: _native.emulated_held()
    cuda.max_memory_allocated = lambda *_: _native.emulated_peak()
    cuda.reset_peak_memory_stats = lambda *_: _native.emulated_reset_peak()
    cuda.default_generators = (torch.Generator("cuda"),)  # the first one made is the default
    cuda.set_sync_debug_mode = _set_sync_debug_mode
    cuda.get_sync_debug_mode = lambda: _sync_debug["mode"]
    torch.UntypedStorage.clone = _clone


_install()
