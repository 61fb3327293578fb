"""Chapter 23: peak memory and operations of one training step of GPT-2, counted and not measured.

A step of 124 million parameters, T = 1024, B = 32, in bfloat16, on fake tensors of a GPU: they have
shapes, types and lifetimes, and no numbers. `rows` has `fit` with its loss in chunks, as it is by
default there, and with all logits at once; and nanoGPT's model in the loop of its train.py, if the
variable NANOGPT names the folder of a model.py. Without a GPU the fakes need the emulated one of
the library's tests, which a process of its own loads. Half a minute.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn import functional as F
from torch.utils import _foreach_utils, flop_counter
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import preset
from unrolled.training.batch_iterator import Batch
from unrolled.training.fit import FitConfig, Trainer, cross_entropy, next_token_loss, per_target
from unrolled.training.losses import Loss

B, T, V = 32, 1024, 50_304  # V filled up to a multiple of 64
ROUNDED_TO = 512  # bytes: what torch hands out on a GPU is a multiple
# What makes or names a tensor, and computes nothing.
NO_WORK = {
    "detach", "empty", "empty_like", "empty_strided", "new_empty_strided", "_unsafe_view",
    "lift_fresh", "device", "_record_function_enter_new", "_record_function_exit",
}  # fmt: skip

Step = Callable[[], None]


class Count(TorchDispatchMode):
    """Within, counts `operations`, their `flops`, and the bytes on the GPU: `live` and `peak`."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = self.flops = self.live = self.peak = 0
        self.known: dict[int, weakref.ref] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        packet = func.overloadpacket
        is_made_of_others = "linear_cross_entropy" in func.name()
        if is_made_of_others:
            from torch.nn.modules import linear_cross_entropy  # from torch 2.13 on

            with self:
                getattr(linear_cross_entropy, packet.__name__)._init_fn(*args, **kwargs)
        found = func(*args, **kwargs)
        computes = not func.is_view and packet.__name__ not in NO_WORK
        self.operations += computes and not is_made_of_others
        if packet is torch.ops.aten.addmm_:
            packet = torch.ops.aten.addmm
        if packet in flop_counter.flop_registry:
            self.flops += flop_counter.flop_registry[packet](*args, **kwargs, out_val=found)
        self.hold(found)
        return found

    def hold(self, tree: object) -> None:
        """Count the storages of the tree's tensors, each until it is freed."""
        for x in tree_leaves(tree):
            if isinstance(x, Tensor) and x.is_cuda:
                storage = x.untyped_storage()
                key, size = storage._cdata, -(-storage.nbytes() // ROUNDED_TO) * ROUNDED_TO
                if key not in self.known:
                    self.known[key] = weakref.ref(storage, lambda _, k=key, n=size: self.free(k, n))
                    self.live += size
                    self.peak = max(self.peak, self.live)

    def free(self, key: int, size: int) -> None:
        del self.known[key]
        self.live -= size


@contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """Within, torch takes for fake tensors the kernels that it takes for a GPU's own."""

    def flash(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, **_):
        assert attn_mask is None
        kernel = torch.ops.aten._scaled_dot_product_flash_attention
        return kernel(q, k, v, dropout_p, is_causal, scale=scale)[0]

    known = [*_foreach_utils._foreach_supported_types, FakeTensor]
    with (
        patch.object(F, "scaled_dot_product_attention", flash),
        patch.object(_foreach_utils, "_foreach_supported_types", known),
    ):
        yield


def tokens() -> Tensor:
    """(B, T), as inputs and targets are."""
    return torch.empty(B, T, dtype=torch.int64, device="cuda")


class Batches:
    """Stands for the iterator of a fit, which reads numbers from the first batch."""

    def draw(self) -> tuple[Batch, bool]:
        return Batch((tokens(),), tokens(), None, B * T), False

    def prefetch(self, n: int) -> None:
        """Nothing: a batch is small."""


def step_of_fit(loss: Loss, compile: bool = False) -> tuple[nn.Module, Step]:
    """GPT-2, and a step of `fit` with this loss."""
    with torch.device("cuda"):
        options = {"vocab_size": V, "context_length": T, "dropout": 0.0}
        model = TransformerLM(preset("gpt2", **options)).train()
    config = FitConfig(n_steps=1000, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, compile=compile)
    trainer = Trainer(model, [], config, loss, None)
    trainer.batches = Batches()
    return model, trainer.train_step


def step_of_nanogpt(folder: Path) -> tuple[nn.Module, Step]:
    """nanoGPT's model, and a step as its train.py makes it, which keeps the logits to the end."""
    spec = importlib.util.spec_from_file_location("nanogpt", folder / "model.py")
    nanogpt = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(nanogpt)
    with torch.device("cuda"), redirect_stdout(io.StringIO()):
        model = nanogpt.GPT(nanogpt.GPTConfig(vocab_size=V, block_size=T, dropout=0.0))
    decay = FitConfig(n_steps=1, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1)
    optimizer = decay.build(model)

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            logits, loss = model(tokens(), tokens())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        del logits

    return model, step


def counted(make: Callable[[], tuple[nn.Module, Step]]) -> dict[str, float]:
    """Peak, operations and FLOPs of the second step; in the first the optimiser's state is made."""
    with as_on_a_gpu(), FakeTensorMode(), Count() as count:
        model, step = make()
        count.hold(list(model.parameters()))
        step()
        count.operations, count.flops, count.peak = 0, 0, count.live
        step()
        return {
            "parameters": sum(p.numel() for p in model.parameters()),
            "peak_bytes": count.peak,
            "held_bytes": count.live,
            "operations": count.operations,
            "flops": count.flops,
        }


def loops() -> dict[str, Callable[[], tuple[nn.Module, Step]]]:
    """By name what makes a model and its step."""
    found = {
        "fit": partial(step_of_fit, next_token_loss),
        "fit, all logits at once": partial(step_of_fit, per_target(cross_entropy)),
    }
    if folder := os.environ.get("NANOGPT"):
        found["nanoGPT"] = partial(step_of_nanogpt, Path(folder))
    return found


def run() -> dict:
    """A record's fields: `metrics["rows"]`, each with its "loop" and what was counted."""
    if not torch.cuda.is_available():
        return in_a_process_with_the_emulated_gpu()
    rows = [{"loop": name} | counted(make) for name, make in loops().items()]
    config = {"model": "gpt2", "batch": B, "length": T, "vocab_size": V, "dtype": "bfloat16"}
    fields = {"config": config, "seeds": [], "metrics": {"rows": rows}}
    return fields | {"device": "fake tensors of a GPU"}


def in_a_process_with_the_emulated_gpu() -> dict:
    """What `run` returns there: the emulated device must be imported before torch.

    Raises RuntimeError where it cannot be.
    """
    code = f"import emulated, json; from {__name__} import run; print(json.dumps(run()))"
    ours, root = Path(__file__).parents[2], Path(__file__).parents[4]
    folders = (root / "lib" / "tests", root / "lib", ours, os.environ.get("PYTHONPATH", ""))
    path = os.pathsep.join(map(str, folders))
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path},
        capture_output=True, encoding="utf8",
    )  # fmt: skip
    if done.returncode:
        reason = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
        raise RuntimeError(f"counting needs a GPU, or the one of `make test-cuda`: {reason}")
    return json.loads(done.stdout)
