"""Chapter 20: Austen or Shakespeare? The ladder's Transformer, fine-tuned on a few passages.

Its rivals are the same model from scratch and two n-gram models. About 8 minutes on one core.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from unrolled.data import corpora
from unrolled.data.batches import shuffled_batches
from unrolled.data.tokens import CharTokenizer
from unrolled.models.ngram import NGram
from unrolled.models.transformer import TransformerLM
from unrolled.training.fit import FitConfig, fit

from unrolled_book.experiments import trained
from unrolled_book.experiments._common import n_parameters, seeded

AUTHORS = ("Shakespeare", "Austen")
SEEDS = (0, 1, 2, 3, 4)
N_LABELLED = (8, 32, 128)
LRS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
LENGTH = 96  # characters of a passage, about eighteen words
READINGS = ("mean", "extract")
# A kind of classifier: whether it starts from the trained model, and which vector it reads.
KINDS = {
    "fine-tuned": (True, "mean"),
    "from scratch": (False, "mean"),
    "fine-tuned, read at extract": (True, "extract"),
}
COUNTING = "two 3-gram models"
NEEDS = ("ladder_transformer",)


@dataclass(frozen=True, eq=False)
class Passages:
    """texts (N), and labels (N,) int64, indices into AUTHORS."""

    texts: tuple[str, ...]
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.texts)


def plain(text: str) -> str:
    """Lower-case letters and single spaces only: line breaks and punctuation would give the author
    away."""
    return re.sub(r"[^a-z]+", " ", text.lower().replace("'", "")).strip()


def draw(rng: np.random.Generator, n: int, split: str, *, length: int = LENGTH) -> Passages:
    """n passages that begin with a word, equally many of each author, in random order.

    split "train": Shakespeare's validation plays and Austen's training chapters; "test": the test
    plays and chapters. The ladder's Transformer was trained on other plays. So it has read none of
    these passages, but much of one author and nothing of the other.
    """
    if split not in ("train", "test") or n < 2 or n % 2:
        raise ValueError(f"expected 'train' or 'test' and an even n >= 2, got {split!r} and {n}")
    plays, novels = corpora.load("shakespeare"), corpora.load("austen")
    sources = (plays.valid, novels.train) if split == "train" else (plays.test, novels.test)
    texts = []
    for source in map(plain, sources):
        for start in rng.integers(len(source) - 2 * length, size=n // 2).tolist():
            start = source.index(" ", start) + 1
            texts.append(source[start : start + length])
    order = rng.permutation(n)
    return Passages(tuple(texts[i] for i in order), (order >= n // 2).astype(np.int64))


class Classifier(nn.Module):
    """softmax(h W_y + b), where h comes from the stack of a language model.

    The text begins with a newline, as every text did in pre-training, and ends with an additional
    token, [extract]. Reading "extract": h is the vector there, as in Radford et al. (2018), section
    3.2. Reading "mean": h is the mean over all positions. There is no second objective.
    """

    def __init__(self, model: TransformerLM, n_classes: int, reading: str = "mean"):
        """Copies the model; torch's generator draws the row of the new token.

        Raises ValueError for an unknown reading.
        """
        super().__init__()
        if reading not in READINGS:
            raise ValueError(f"reading must be one of {READINGS}, got {reading!r}")
        self.model, self.reading = copy.deepcopy(model), reading
        old = self.model.embedding.weight.detach()
        self.embedding = nn.Embedding(len(old) + 1, old.shape[1])
        with torch.no_grad():
            self.embedding.weight[:-1] = old
            self.embedding.weight[-1] = old.std() * torch.randn(old.shape[1])
        self.model.embedding, self.model.head = self.embedding, nn.Identity()
        self.head = nn.Linear(old.shape[1], n_classes)
        nn.init.zeros_(self.head.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (B, n_classes) of tokens (B, T) that end with [extract]."""
        h = self.model.stack(self.model.embed(tokens))  # (B, T, D)
        return self.head(h.mean(1) if self.reading == "mean" else h[:, -1])


def encode(tokenizer: CharTokenizer, texts: Sequence[str]) -> np.ndarray:
    """[newline] text [extract] as rows of ids, (N, length + 2); all texts have one length."""
    rows = [tokenizer.encode("\n" + text) for text in texts]
    return np.array([[*row, tokenizer.vocab_size] for row in rows])


def fresh_like(model: TransformerLM, seed: int) -> TransformerLM:
    """The same architecture before any training."""
    with seeded(seed):
        return TransformerLM(model.config)


def finetune(
    start: TransformerLM, labelled: Passages, tokenizer: CharTokenizer, *, seed: int, lr: float,
    n_steps: int = 60, batch_size: int = 16, reading: str = "mean",
) -> Classifier:  # fmt: skip
    """A classifier made from `start`, with all parameters trained on the labelled passages."""
    with seeded(seed):
        classifier = Classifier(start, len(AUTHORS), reading)
    rng = np.random.default_rng(seed)
    tokens = encode(tokenizer, labelled.texts)

    def batches():
        for rows in shuffled_batches(rng, len(tokens), min(batch_size, len(tokens))):
            yield tokens[rows], labelled.labels[rows]

    class Epochs:
        def __iter__(self):
            return batches()

    config = FitConfig(
        n_steps=n_steps, lr=lr, betas=(0.9, 0.99), weight_decay=0.1, schedule="linear",
        warmup_steps=max(1, n_steps // 10), seed=seed,
    )  # fmt: skip
    fit(classifier, Epochs(), config, progress=False)
    return classifier.eval()


@torch.no_grad()
def accuracy(classifier: Classifier, passages: Passages, tokenizer: CharTokenizer) -> float:
    """The share of passages whose author the classifier names correctly."""
    tokens = torch.from_numpy(encode(tokenizer, passages.texts))
    guesses = torch.cat([classifier(part).argmax(-1) for part in tokens.split(100)])
    return float((guesses.numpy() == passages.labels).mean())


def by_counting(labelled: Passages, passages: Passages, tokenizer: CharTokenizer, order: int = 3):
    """Accuracy of two n-gram models, one for each author, counted on the labelled passages.

    They name the author whose model gives the passage the higher probability.
    """
    models = []
    for label in range(len(AUTHORS)):
        pairs = zip(labelled.texts, labelled.labels, strict=True)
        texts = [tokenizer.encode(text) for text, its in pairs if its == label]
        models.append(NGram.fit(texts, order, tokenizer.vocab_size, "additive"))
    scores = [[m.score(tokenizer.encode(text)).sum() for m in models] for text in passages.texts]
    return float((np.argmax(scores, axis=1) == passages.labels).mean())


def search(
    model: TransformerLM,
    tokenizer: CharTokenizer,
    lrs: Sequence[float],
    *,
    n: int,
    n_held_out: int,
    n_steps: int,
) -> dict[str, list[dict]]:
    """Accuracy of each kind at each learning rate, with a separate seed and separate passages."""
    rng = np.random.default_rng(100)
    labelled, held_out = draw(rng, n, "train"), draw(rng, n_held_out, "train")
    found: dict[str, list[dict]] = {kind: [] for kind in KINDS}
    for kind, (trained_before, reading) in KINDS.items():
        start = model if trained_before else fresh_like(model, 100)
        options = {"seed": 100, "n_steps": n_steps, "reading": reading}
        for lr in lrs:
            classifier = finetune(start, labelled, tokenizer, lr=lr, **options)
            found[kind].append({"lr": lr, "accuracy": accuracy(classifier, held_out, tokenizer)})
    return found


def run(
    *,
    model: TransformerLM | None = None,
    n_labelled: Sequence[int] = N_LABELLED,
    seeds: Sequence[int] = SEEDS,
    lrs: Sequence[float] = LRS,
    n_steps: int = 60,
    n_test: int = 600,
) -> dict:
    """A record's fields: test accuracies for each number of labelled passages and each kind.

    There is one accuracy for each seed, which also draws the labelled passages. model: by default
    "ladder_transformer".
    """
    model = trained.load("ladder_transformer") if model is None else model
    tokenizer = CharTokenizer.train(corpora.load("shakespeare").train)
    found = search(
        model, tokenizer, lrs,
        n=n_labelled[len(n_labelled) // 2], n_held_out=n_test, n_steps=n_steps,
    )  # fmt: skip
    best = {kind: max(rows, key=lambda row: row["accuracy"])["lr"] for kind, rows in found.items()}
    test, rows = draw(np.random.default_rng(99), n_test, "test"), []
    for n in n_labelled:
        given = [draw(np.random.default_rng([seed, n]), n, "train") for seed in seeds]
        right: dict[str, list[float]] = {kind: [] for kind in (*KINDS, COUNTING)}
        for seed, labelled in zip(seeds, given, strict=True):
            for kind, (trained_before, reading) in KINDS.items():
                start = model if trained_before else fresh_like(model, seed)
                options = {"seed": seed, "lr": best[kind], "n_steps": n_steps, "reading": reading}
                classifier = finetune(start, labelled, tokenizer, **options)
                right[kind].append(accuracy(classifier, test, tokenizer))
            right[COUNTING].append(by_counting(labelled, test, tokenizer))
        rows += [
            {"n_labelled": n, "kind": kind, "accuracy": scores} for kind, scores in right.items()
        ]
    config = {
        "authors": [*AUTHORS], "length": LENGTH, "n_test": n_test, "n_steps": n_steps, "lr": best,
        "search": found, "parameters": n_parameters(model),
    }  # fmt: skip
    return {"config": config, "seeds": [*seeds], "metrics": {"rows": rows}, "curve": []}
