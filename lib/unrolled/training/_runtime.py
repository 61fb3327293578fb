"""What surrounds a training loop: random generators, Ctrl-C, the bar, compiling, moving numbers."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import torch
from torch import Tensor, nn

COMPILED = "_orig_mod"  # what torch.compile puts before the names of a model's parts


def compiled(function: Callable) -> Callable:
    """The function as one program, compiled again for each new form of its arguments.

    torch keeps eight versions for each code object and runs later ones uncompiled. So every call
    makes a code object of its own.
    """

    def of_this_fit(*arguments):
        return function(*arguments)

    of_this_fit.__code__ = of_this_fit.__code__.replace()
    return torch.compile(of_this_fit)


def uncompiled(model: nn.Module) -> nn.Module:
    """The model that torch.compile was given, or the model itself."""
    return getattr(model, COMPILED, model)


def state_dict(model: nn.Module) -> dict[str, Tensor]:
    """The model's state by the names it has without torch.compile."""
    return {_plain(name): x for name, x in model.state_dict().items()}


def load_state_dict(model: nn.Module, state: dict[str, Tensor]) -> None:
    """Load what `state_dict` gave, into the model or a compiled one."""
    model.load_state_dict({name: state[_plain(name)] for name in model.state_dict()})


def shapes(model: nn.Module) -> dict[str, str]:
    """Shape and dtype of each parameter, by the names it has without torch.compile."""
    return {_plain(n): f"{tuple(p.shape)} {p.dtype}" for n, p in model.named_parameters()}


def _plain(name: str) -> str:
    return name.replace(f"{COMPILED}.", "")


def to_floats(values: list[float | Tensor]) -> list[float]:
    """All values, those on a device by one transfer."""
    tensors = [x.detach().reshape(1) for x in values if isinstance(x, Tensor)]
    moved = iter(torch.cat(tensors).tolist() if tensors else ())
    return [next(moved) if isinstance(x, Tensor) else float(x) for x in values]


def map_tensors(function: Callable[[Tensor], Tensor], tree: object) -> object:
    """The tree of tuples, lists and dicts with function applied to each tensor."""
    if isinstance(tree, Tensor):
        return function(tree)
    if type(tree) in (tuple, list):
        return type(tree)(map_tensors(function, x) for x in tree)
    if type(tree) is dict:
        return {key: map_tensors(function, x) for key, x in tree.items()}
    return tree


def generators(device: torch.device) -> dict[str, torch.Generator]:
    """torch's default generators of the CPU and, if it is another, of the GPU."""
    if device.type != "cuda":
        return {"cpu": torch.default_generator}
    index = torch.cuda.current_device() if device.index is None else device.index
    return {"cpu": torch.default_generator, "cuda": torch.cuda.default_generators[index]}


@contextlib.contextmanager
def fork_rng(seed: int | None, device: torch.device) -> Iterator[None]:
    """Within, torch's default generators start from seed, if given; after it, all is as before."""
    before = {generator: generator.get_state() for generator in generators(device).values()}
    try:
        for generator in before if seed is not None else ():
            generator.manual_seed(seed)
        yield
    finally:
        for generator, state in before.items():
            generator.set_state(state)


@contextlib.contextmanager
def stop_on_ctrl_c() -> Iterator[list[int]]:
    """Within, Ctrl-C is appended to the list; the second one raises KeyboardInterrupt.

    Nothing changes in a thread, where no signal arrives, and where another handler is set.
    """
    pressed, before = [], signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: object) -> None:
        pressed.append(number)
        if len(pressed) == 2:
            before(number, frame)

    in_main = threading.current_thread() is threading.main_thread()
    ours = in_main and before is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, handle)
    try:
        yield pressed
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)


def progress_bar(progress: bool | None, n_steps: int) -> contextlib.AbstractContextManager:
    """A bar on the standard error, or an object with the same `update` that shows nothing."""
    if progress is None:
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        watched = sys.stderr.isatty() or hasattr(shell, "kernel")
        found = importlib.util.find_spec("tqdm") is not None
        progress = watched and found and os.environ.get("UNROLLED_STATIC") != "1"
    if not progress:
        return contextlib.nullcontext(SimpleNamespace(update=lambda n: None))
    from tqdm.auto import tqdm

    return tqdm(total=n_steps, leave=False)
