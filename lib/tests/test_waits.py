"""Where the host waits for a GPU: by line of the library, for each step of a fit and each token."""

import sys
from collections import Counter
from functools import partial
from itertools import islice

import numpy as np
import pytest
import torch
from unrolled.data.batches import IGNORE
from unrolled.generation.generate import generate
from unrolled.generation.search import beam_search
from unrolled.models.lora import add_lora
from unrolled.models.moe import MixtureOfExperts, with_balance
from unrolled.models.recurrent_lm import RecurrentLM, SelectiveLM
from unrolled.models.seq2seq import Seq2Seq
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import preset
from unrolled.training.fit import FitConfig, fit, next_token_loss

pytestmark = pytest.mark.cuda
V, B, T, N_STEPS, N_NEW, LAYERS, EXPERTS = 31, 3, 11, 40, 17, 2, 5
READ = "training/_runtime.py"  # all losses of 20 steps at once
SMALL = dict(vocab_size=V, d_model=14, n_layers=LAYERS, n_heads=7, d_ff=13, context_length=64)


def waits(function) -> Counter:
    """Waits while the function runs, by file of the library."""
    if "emulated" not in sys.modules:
        pytest.skip("a real GPU does not say which line waits")
    with sys.modules["emulated"].Waits() as seen:
        function()
    return Counter(line.partition(":")[0] for line in seen.found.elements())


def transformer(name="gpt2", **more):
    return TransformerLM(preset(name, **SMALL | more))


def mixture():
    model = transformer()
    for block in model.stack.blocks:
        block.feed_forward = MixtureOfExperts(SMALL["d_model"], 13, n_experts=EXPERTS)
    return model


def quantised():
    model = transformer()
    add_lora(model, "*.attention.[qv]_proj", rank=2, quantise=True)
    return model


def texts(kind="plain"):
    rng = np.random.default_rng(0)
    mask = np.arange(T + 1) < np.array([[T + 1], [9], [7]])
    while True:
        x = rng.integers(V, size=(B, T + 1))
        y = np.where(mask[:, 1:], x[:, 1:], IGNORE)
        if kind == "pairs":
            yield (x, x[:, :-1], mask), y
        else:
            yield x[:, :-1], (y if kind == "ignored" else x[:, 1:])


FITS = {  # the model, its batches, settings, and waits a step beside those for the losses
    "gpt2": (transformer, texts(), {}, {}),
    "gpt2, targets left out": (transformer, texts("ignored"), {}, {}),
    "gpt2, targets left out on the GPU": (transformer, texts("ignored"), {}, {}),
    "gpt2, two batches a step": (transformer, texts(), {"grad_accum_steps": 2}, {}),
    "gpt2, chunks": (transformer, texts(), {"loss": partial(next_token_loss, chunk_rows=8)}, {}),
    "llama": (partial(transformer, "llama-7b", n_kv_heads=1), texts(), {}, {}),
    "lstm": (lambda: RecurrentLM(V, "lstm", embedding_dim=7, hidden_size=5), texts(), {}, {}),
    "state space": (lambda: SelectiveLM(V, d_model=14, n_layers=LAYERS), texts(), {}, {}),
    "four bits": (quantised, texts(), {}, {}),
    # each expert asks which tokens are its own, again in the backward pass
    "mixture": (mixture, texts(), {"loss": with_balance(next_token_loss)},
                {"models/moe.py": 2 * LAYERS * EXPERTS}),
    # the mask, and the lengths that the packed kernel wants on the CPU
    "seq2seq, padded": (lambda: Seq2Seq(V, V, embedding_dim=7, hidden_size=6), texts("pairs"), {},
                        {"models/recurrent.py": 3}),
}  # fmt: skip


@pytest.mark.parametrize("case", FITS)
def test_a_fit_waits_once_in_twenty_steps_and_where_a_model_has_to(case):
    make, source, options, more = FITS[case]
    settings = {"loss": next_token_loss} | options
    loss = settings.pop("loss")
    config = FitConfig(n_steps=N_STEPS, lr=1e-3, precision="off", **settings)
    model, once = make().cuda(), 0
    if "on the GPU" in case:  # the iterator remembers the inputs and targets of the first batch
        once = 2
        source = [[torch.from_numpy(x).cuda() for x in b] for b in islice(source, N_STEPS)]
    found = waits(lambda: fit(model, source, config, loss=loss))
    assert found.pop(READ) <= N_STEPS // 20
    assert all(n <= more.get(file, 0) * N_STEPS + once for file, n in found.items()), found


WRITERS = {  # waits a token
    "greedy, a stop": (partial(generate, temperature=0, stop=3),
                       {"generation/reader.py": 1, "generation/generate.py": 1}),
    # the logits to the CPU, where the token is drawn, and the token back
    "drawn": (partial(generate, top_p=0.9),
              {"generation/reader.py": 1, "generation/samplers.py": 2}),
    # whether it has ended
    "beam": (partial(beam_search, n_beams=2, stop=3),
             {"generation/reader.py": 1, "generation/search.py": 1}),
}  # fmt: skip


@pytest.mark.parametrize("case", WRITERS)
def test_a_token_waits_for_its_logits_its_draw_and_its_stops(case):
    write, allowed = WRITERS[case]
    prompt, model = torch.zeros(B, 2, dtype=torch.long, device="cuda"), transformer().cuda()
    found = waits(lambda: write(model, prompt, N_NEW))
    once = 2  # lengths and stops are brought to the device
    assert found.keys() >= allowed.keys()
    assert all(n <= allowed.get(file, 0) * N_NEW + once for file, n in found.items()), found
