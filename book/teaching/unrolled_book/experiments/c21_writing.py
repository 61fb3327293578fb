"""Chapter 21: what each way to choose makes of the book's model, beside what Shakespeare wrote.

Every text goes on from the same PROMPT characters of the test plays. Three sets of contexts, each
with a seed of its own. About two minutes on one core.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from unrolled.data import corpora
from unrolled.data.tokens import CharTokenizer
from unrolled.generation.generate import generate
from unrolled.generation.search import beam_search
from unrolled.models.transformer import TransformerLM
from unrolled.training.fit import cross_entropy

from unrolled_book.experiments import trained
from unrolled_book.experiments.ladder import CORPUS

NEEDS = ("ladder_transformer",)
SEEDS = (0, 1, 2)
PROMPT, N_NEW, N_TEXTS = 32, 96, 100  # together the 128 characters that the model was trained on
N_GRAM = 8  # characters
DEAR = 3.0  # nats
HUMAN = "Shakespeare"
SAMPLED = {
    "greedy": {"temperature": 0},
    "sampling": {},
    "temperature 0.8": {"temperature": 0.8},
    "top-k, 10": {"top_k": 10},
    "top-p, 0.9": {"top_p": 0.9},
    "min-p, 0.1": {"min_p": 0.1},
    "typical, 0.5": {"typical_p": 0.5},
    "greedy, penalty 1.2": {"temperature": 0, "repetition_penalty": 1.2},
}
SEARCHED = {"beam search, 8": 8}
METHODS = (HUMAN, *SEARCHED, *SAMPLED)


def contexts(tokens: np.ndarray, seed: int, n: int = N_TEXTS) -> Tensor:
    """n windows of PROMPT + N_NEW characters, drawn without replacement; none overlap."""
    size = PROMPT + N_NEW
    windows = tokens[: len(tokens) // size * size].reshape(-1, size)
    rng = np.random.default_rng(seed)
    return torch.from_numpy(windows[rng.choice(len(windows), n, replace=False)]).long()


def continued(model: TransformerLM, method: str, human: Tensor, seed: int) -> Tensor:
    """Prompt and new characters (B, PROMPT + N_NEW); human: the same of the test text."""
    prompt = human[:, :PROMPT]
    if method == HUMAN:
        return human
    if method in SEARCHED:
        return beam_search(model, prompt, N_NEW, n_beams=SEARCHED[method]).tokens[:, 0]
    rng = torch.Generator().manual_seed(seed)
    return generate(model, prompt, N_NEW, rng=rng, **SAMPLED[method])


@torch.no_grad()
def nats(model: TransformerLM, texts: Tensor) -> Tensor:
    """−ln P of each new character, (B, N_NEW)."""
    return cross_entropy(model(texts[:, :-1]), texts[:, 1:])[:, PROMPT - 1 :]


def n_grams(text: str, n: int = N_GRAM) -> list[str]:
    """All n characters in a row that the text holds, in order."""
    return [text[i : i + n] for i in range(len(text) - n + 1)]


def repeated(texts: Sequence[str]) -> float:
    """The share of n-grams that stood before in the same text."""
    found = [n_grams(text) for text in texts]
    return 1 - sum(len(set(each)) for each in found) / sum(map(len, found))


def shared(texts: Sequence[str]) -> float:
    """The share of n-grams that stand in another of the texts, too."""
    found = [n_grams(text) for text in texts]
    n_texts = Counter(gram for each in found for gram in set(each))
    return sum(n_texts[gram] > 1 for each in found for gram in each) / sum(map(len, found))


def words(text: str) -> list[str]:
    """Its words in lower case."""
    return re.findall(r"[a-z]+", text.lower())


def known(texts: Sequence[str], vocabulary: set[str]) -> float:
    """The share of whole words that the vocabulary holds; the first and last may be cut off."""
    inner = [word for text in texts for word in words(text)[1:-1]]
    return sum(word in vocabulary for word in inner) / max(1, len(inner))


def run(model: TransformerLM | None = None, *, seeds: Sequence[int] = SEEDS, n_texts: int = N_TEXTS,
        methods: Sequence[str] = METHODS) -> dict:  # fmt: skip
    """A record's fields: a row of `metrics["rows"]` for each method and seed.

    "nats": mean of a new character; "by_position": the mean at each of the N_NEW positions; "dear":
    the share that costs more than DEAR; "repeated", "shared", "known": the shares of those
    functions; "example": the first text.
    """
    model = trained.load(NEEDS[0]) if model is None else model
    corpus = corpora.load(CORPUS)
    tokenizer = CharTokenizer.train(corpus.train)
    test, vocabulary = tokenizer.encode(corpus.test), set(words(corpus.train))
    rows = []
    for seed in seeds:
        human = contexts(test, seed, n_texts)
        for method in methods:
            tokens = continued(model, method, human, seed)
            cost = nats(model, tokens)
            texts = [tokenizer.decode(row) for row in tokens[:, PROMPT:].numpy()]
            rows.append({
                "method": method, "seed": seed, "nats": cost.mean().item(),
                "dear": (cost > DEAR).double().mean().item(),
                "by_position": cost.mean(0).tolist(), "repeated": repeated(texts),
                "shared": shared(texts), "known": known(texts, vocabulary),
                "example": tokenizer.decode(tokens[0].numpy()),
            })  # fmt: skip
    config = {
        "model": NEEDS[0], "corpus": CORPUS, "prompt": PROMPT, "n_new": N_NEW, "n_texts": n_texts,
        "n_gram": N_GRAM, "dear": DEAR, "methods": SAMPLED | SEARCHED,
    }  # fmt: skip
    return {"config": config, "seeds": [*seeds], "metrics": {"rows": rows}, "curve": []}
