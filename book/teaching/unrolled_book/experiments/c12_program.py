"""Chapter 12: an LSTM reads the library's own program, writes on, and shows two of its cells.

Whole files are held out. A cell is chosen on the first half of them and confirmed on the second.

About two minutes on one core.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import unrolled
from torch import nn
from unrolled.data.tokens import CharTokenizer
from unrolled.generation.generate import generate
from unrolled.models.ngram import NGram
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.training.evaluate import bits, evaluate
from unrolled.training.fit import fit

from unrolled_book.experiments._common import Counting, cosine, seeded, windows
from unrolled_book.experiments.c12_cells import correlations
from unrolled_book.experiments.c12_page import copied

SEED = 0
N_HELD_OUT = 10  # files
N_PAGES, PAGE, TEMPERATURE = 16, 600, 0.5
ORDER = 7  # of the rival that counts
ROWS, WIDEST = 8, 56  # lines of the excerpt, and their longest
SHIFTS = (3001, 7001, 12_001)  # of a feature along the text: what chance finds
PAIRS = {")": "(", "]": "[", "}": "{"}


def program() -> tuple[str, str]:
    """The text of the library's files, in a fixed random order, and of those held out."""
    folder = Path(unrolled.__file__).parent
    files = [f for f in sorted(folder.rglob("*.py")) if f.name != "bpe_merges.py"]  # a table
    files = [f for f in files if f.stat().st_size > 300]
    order = np.random.default_rng(SEED).permutation(len(files))
    texts = [files[i].read_text(encoding="utf-8") for i in order]
    return "\n\n".join(texts[N_HELD_OUT:]), "\n\n".join(texts[:N_HELD_OUT])


def features(text: str) -> dict[str, np.ndarray]:
    """Two things to keep in mind after each character, (N,) each."""
    line, in_line, marks = 0, [], []
    for i, c in enumerate(text):
        line = 0 if c == "\n" else line + 1
        in_line.append(line)
        marks.append(text[max(0, i - 2) : i + 1] == '"""')
    # a description ends with its third quotation mark and begins after the third
    inside = np.cumsum(marks) % 2
    return {"position in the line": np.array(in_line, float), "description": inside.astype(float)}


def described(texts: Sequence[str], read: str) -> dict:
    """What can be counted of texts: lines indented by a multiple of four; closing brackets that
    fit the last one open (of those with one open); what is copied, as in c12_page."""
    lines = [line for text in texts for line in text.split("\n")[1:-1] if line.strip()]
    indented = [len(line) - len(line.lstrip(" ")) for line in lines]
    fits = []
    for text in texts:
        stack: list[str] = []
        for c in text:
            if c in PAIRS.values():
                stack.append(c)
            elif c in PAIRS and stack:
                fits.append(stack.pop() == PAIRS[c])
    return {
        "four": float(np.mean([n % 4 == 0 for n in indented])),
        "indented": float(np.mean([n > 0 for n in indented])),
        "fits": float(np.mean(fits)) if fits else 0.0,
        "copied": copied(texts, read),
    }


@torch.no_grad()
def cell_states(model: RecurrentLM, ids: np.ndarray) -> np.ndarray:
    """c (N, H) after each of the ids, read as one text."""
    cache, states = model.new_cache(), []
    for token in ids:
        model(torch.tensor([[int(token)]]), cache=cache)
        states.append(cache.state[1][0, 0])
    return torch.stack(states).numpy()


def excerpt(text: str, n: int = ROWS, widest: int = WIDEST) -> slice:
    """The first n lines, none too wide, that begin with `def`, hold a whole description, and have
    three lines of code after it; the first n lines if there are none."""
    lines = text.split("\n")
    starts = np.cumsum([0, *(len(line) + 1 for line in lines)])
    for k in range(len(lines) - n):
        some = lines[k : k + n]
        last = max((i for i, line in enumerate(some) if '"""' in line), default=n)
        whole = "\n".join(some).count('"""') == 2 and 0 < last <= n - 4
        if some[0].lstrip().startswith("def ") and whole and max(map(len, some)) <= widest:
            return slice(int(starts[k]), int(starts[k + n] - 1))
    return slice(0, int(starts[n] - 1))


def examine(model: RecurrentLM, held_out: str, tokenizer: CharTokenizer) -> dict:
    """For each feature the cell chosen on one half, its correlations, and its values along the
    excerpt of the other half."""
    half = len(held_out) // 2
    texts = [held_out[:half], held_out[half:]]
    chosen, confirmed = (cell_states(model, tokenizer.encode(text)) for text in texts)
    cut = excerpt(texts[1])
    found = {"text": texts[1][cut], "cells": []}
    for (name, first), second in zip(
        features(texts[0]).items(), features(texts[1]).values(), strict=True
    ):
        r = correlations(chosen, first)
        unit = int(np.abs(r).argmax())
        chance = [np.abs(correlations(chosen, np.roll(first, s))).max() for s in SHIFTS]
        found["cells"].append(
            {
                "feature": name, "cell": unit, "chosen": float(r[unit]),
                "confirmed": float(correlations(confirmed, second)[unit]),
                "chance": float(max(chance)),
                "values": [round(float(v), 2) for v in confirmed[cut, unit]],
            }
        )  # fmt: skip
    return found


def pages(net: nn.Module, tokenizer: CharTokenizer, n: int) -> list[str]:
    """n pages, drawn after a line end, always with the same random numbers."""
    starts = torch.full((n, 1), int(tokenizer.encode("\n")[0]))
    rng = torch.Generator().manual_seed(SEED)
    cache = hasattr(net, "new_cache")  # counting keeps nothing between characters
    written = generate(net, starts, PAGE, rng=rng, temperature=TEMPERATURE, cache=cache)[:, 1:]
    return [tokenizer.decode(page) for page in written.tolist()]


def counting(read: str, tokenizer: CharTokenizer, n: int) -> dict:
    """What Kneser-Ney counting of the same program writes, as `described`; "page": its first."""
    counts = NGram.fit(
        tokenizer.encode(read), ORDER, tokenizer.vocab_size, "kneser-ney", modified=True
    )
    texts = pages(Counting(counts), tokenizer, n)
    return {"order": ORDER, "page": texts[0]} | described(texts, read)


def run(*, n_steps: int = 2_600, hidden_size: int = 192, n_pages: int = N_PAGES) -> dict:
    """metrics: "pages" that the network writes; "written" and "program", see `described`;
    "counting", see there;
    "cells", see `examine`."""
    read, held_out = program()
    tokenizer = CharTokenizer.train(read + held_out)
    newline = int(tokenizer.encode("\n")[0])
    with seeded(SEED):
        model = RecurrentLM(
            tokenizer.vocab_size, "lstm", embedding_dim=32, hidden_size=hidden_size,
            forget_bias=1.0,
        )  # fmt: skip
    batches = windows(tokenizer.encode(read), SEED, batch_size=16, window=64)
    fit(model, batches, cosine(n_steps, 1e-2, SEED), progress=False)
    ids = tokenizer.encode(held_out)
    nats = evaluate(model, ids, len(held_out.encode()), start=newline, overlap=16).nats
    texts = pages(model, tokenizer, n_pages)
    places = np.random.default_rng(SEED).integers(len(held_out) - PAGE, size=n_pages)
    metrics = {
        "test_bits_per_character": bits(nats / len(ids)),
        "pages": texts,
        "written": described(texts, read),
        "counting": counting(read, tokenizer, n_pages),
        "program": described([held_out[i : i + PAGE] for i in places], read),
        "cells": examine(model, held_out, tokenizer),
    }
    config = {
        "sha256": hashlib.sha256((read + held_out).encode()).hexdigest(),
        "characters": len(read), "held_out_files": N_HELD_OUT, "n_steps": n_steps,
        "hidden_size": hidden_size, "temperature": TEMPERATURE, "page": PAGE, "n_pages": n_pages,
    }  # fmt: skip
    return {"config": config, "seeds": [SEED], "metrics": metrics}
