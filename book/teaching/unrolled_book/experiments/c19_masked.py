"""Chapter 19: an encoder that fills gaps, and then names an author.

Pre-training: words are hidden, changed or kept, and the encoder says what stood there, on the
training chapters of Austen, Chesterton and Melville. Fine-tuning: a passage's first position,
[CLS], says who wrote it, after a few labelled passages. Rivals: the same encoder without
pre-training, and two classifiers that count words. Rates and strengths are searched with separate
seeds on the validation chapters. About 8 minutes on one core.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from unrolled.data import corpora
from unrolled.data.batches import IGNORE, shuffled_batches
from unrolled.models.transformer import Encoder
from unrolled.models.transformer_config import TransformerConfig

from unrolled_book.experiments._common import cosine, n_parameters, seeded

AUTHORS = ("austen", "chesterton", "melville")
PAD, CLS, MASK, UNKNOWN = range(4)
N_MARKS, VOCAB_SIZE, LENGTH = 4, 2_000, 32  # words of a passage
CHOSEN, HIDDEN, CHANGED = 0.15, 0.8, 0.1  # of all words; of the chosen ones
N_STEPS, BATCH_SIZE, LR = 2_000, 64, 3e-3
N_LABELLED = (4, 16, 64, 256)  # passages of each author
TUNE_STEPS, TUNE_BATCH = 100, 24
LRS = (1e-4, 3e-4, 1e-3, 3e-3)
SEARCH_SEED = 100


def words(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation."""
    return re.findall(r"[a-z]+(?:'[a-z]+)?", text.lower())


def vocabulary() -> tuple[str, ...]:
    """The marks, then the most frequent words that all three authors use in training.

    A name that only one of them uses would give the author away.
    """
    counts = [Counter(words(corpora.load(author).train)) for author in AUTHORS]
    shared = set.intersection(*(set(count) for count in counts))
    total = {word: sum(count[word] for count in counts) for word in shared}
    frequent = sorted(shared, key=lambda word: (-total[word], word))
    return ("<pad>", "[CLS]", "[MASK]", "<unk>", *frequent[: VOCAB_SIZE - N_MARKS])


def passages(split: str) -> tuple[np.ndarray, np.ndarray]:
    """All passages of a split: ids (N, LENGTH) without marks, and their authors (N,)."""
    known = {word: i for i, word in enumerate(vocabulary())}
    rows, labels = [], []
    for label, author in enumerate(AUTHORS):
        ids = [known.get(w, UNKNOWN) for w in words(getattr(corpora.load(author), split))]
        cut = np.array(ids[: len(ids) // LENGTH * LENGTH]).reshape(-1, LENGTH)
        rows.append(cut)
        labels += [label] * len(cut)
    return np.concatenate(rows), np.array(labels)


def with_cls(ids: np.ndarray) -> np.ndarray:
    """The passages (N, LENGTH) behind [CLS], (N, LENGTH + 1)."""
    return np.pad(ids, ((0, 0), (1, 0)), constant_values=CLS)


def hide(
    ids: np.ndarray, rng: np.random.Generator, vocab_size: int = VOCAB_SIZE
) -> tuple[np.ndarray, np.ndarray]:
    """What the encoder reads, and what it must say (IGNORE where no word was chosen).

    Of 15 % of the words, 80 % become [MASK], 10 % another word at random, 10 % stay. Marks are
    never chosen.
    """
    chosen = (rng.random(ids.shape) < CHOSEN) & (ids >= N_MARKS)
    kind = rng.random(ids.shape)
    other = rng.integers(N_MARKS, vocab_size, ids.shape)
    read = np.where(chosen & (kind < HIDDEN), MASK, ids)
    read = np.where(chosen & (kind >= HIDDEN) & (kind < HIDDEN + CHANGED), other, read)
    return read, np.where(chosen, ids, IGNORE)


def fresh(seed: int) -> Encoder:
    """An untrained encoder; torch's generator is unchanged."""
    sizes = {"d_model": 64, "n_layers": 2, "n_heads": 4, "context_length": LENGTH + 1}
    config = TransformerConfig(vocab_size=VOCAB_SIZE, activation="gelu", init_std=0.05, **sizes)
    with seeded(seed):
        return Encoder(config)


def optimiser(parameters, n_steps: int, lr: float, seed: int):
    """AdamW, and the factor of its rate: up over 5 % of the steps, then a cosine."""
    given = cosine(n_steps, lr, seed)
    tool = torch.optim.AdamW(parameters, lr=lr, betas=given.betas, weight_decay=given.weight_decay)
    warmup = given.warmup_steps

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        return 0.05 + 0.95 * (1 + np.cos(np.pi * (step - warmup) / (n_steps - warmup))) / 2

    return tool, torch.optim.lr_scheduler.LambdaLR(tool, factor)


def gap_loss(encoder: Encoder, read: Tensor, say: Tensor) -> Tensor:
    """Mean −log P of the chosen words, in nats: only these positions go through the head."""
    chosen = say != IGNORE
    logits = F.linear(encoder(read)[chosen], encoder.embedding.weight)  # (n, V), tied
    return F.cross_entropy(logits, say[chosen])


def pretrain(seed: int, ids: np.ndarray, n_steps: int = N_STEPS, lr: float = LR) -> Encoder:
    """An encoder that has filled gaps in the passages."""
    encoder, rng = fresh(seed), np.random.default_rng(seed)
    tool, schedule = optimiser(encoder.parameters(), n_steps, lr, seed)
    for _ in range(n_steps):
        batch = with_cls(ids[rng.integers(len(ids), size=BATCH_SIZE)])
        read, say = map(torch.from_numpy, hide(batch, rng))
        loss = gap_loss(encoder, read, say)
        tool.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        tool.step()
        schedule.step()
    return encoder


@torch.no_grad()
def gap_test(encoder: Encoder, ids: np.ndarray, seed: int = 99) -> dict:
    """Loss in nats and percentage of right first guesses at hidden words of the passages."""
    read, say = map(torch.from_numpy, hide(with_cls(ids), np.random.default_rng(seed)))
    chosen = say != IGNORE
    logits = F.linear(encoder(read)[chosen], encoder.embedding.weight)
    right = (logits.argmax(-1) == say[chosen]).float().mean().item()
    loss = F.cross_entropy(logits, say[chosen]).item()
    return {"nats": round(loss, 3), "right": round(100 * right, 1)}


def unigram_test(train: np.ndarray, ids: np.ndarray, seed: int = 99) -> dict:
    """The same of a guess by frequency alone."""
    _, say = hide(with_cls(ids), np.random.default_rng(seed))
    counts = np.bincount(train[train >= N_MARKS], minlength=VOCAB_SIZE)[N_MARKS:] + 1
    said = say[say != IGNORE] - N_MARKS
    nats = -np.log(counts / counts.sum())[said].mean()
    return {"nats": round(float(nats), 3), "right": round(100 * (said == 0).mean().item(), 1)}


class Classifier(nn.Module):
    """softmax(W h + b) of the vector h at [CLS]."""

    def __init__(self, encoder: Encoder, n_classes: int = len(AUTHORS)):
        super().__init__()
        self.encoder = copy.deepcopy(encoder)
        self.head = nn.Linear(encoder.config.d_model, n_classes)
        nn.init.zeros_(self.head.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (B, classes) of tokens (B, T) that begin with [CLS]."""
        return self.head(self.encoder(tokens)[:, 0])


def finetune(encoder: Encoder, ids: np.ndarray, labels: np.ndarray, lr: float, seed: int):
    """A classifier made of the encoder, all parameters trained on the labelled passages."""
    with seeded(seed):
        model = Classifier(encoder)
    rng, tokens = np.random.default_rng(seed), torch.from_numpy(with_cls(ids))
    tool, schedule = optimiser(model.parameters(), TUNE_STEPS, lr, seed)
    step, targets = 0, torch.from_numpy(labels)
    while step < TUNE_STEPS:
        for rows in shuffled_batches(rng, len(ids), min(TUNE_BATCH, len(ids))):
            loss = F.cross_entropy(model(tokens[rows]), targets[rows])
            tool.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            tool.step()
            schedule.step()
            step += 1
            if step == TUNE_STEPS:
                break
    return model


@torch.no_grad()
def accuracy(model: Classifier, ids: np.ndarray, labels: np.ndarray) -> float:
    """The percentage of passages whose author the classifier names, all authors counting alike."""
    guess = torch.cat([model(t).argmax(-1) for t in torch.from_numpy(with_cls(ids)).split(200)])
    return balanced(guess.numpy(), labels)


def balanced(guess: np.ndarray, labels: np.ndarray) -> float:
    """The mean over the authors of the percentage of their passages that are named."""
    return round(100 * float(np.mean([(guess == a)[labels == a].mean() for a in set(labels)])), 1)


def counts(ids: np.ndarray) -> np.ndarray:
    """How often each word occurs in each passage, (N, V)."""
    table = np.zeros((len(ids), VOCAB_SIZE))
    np.add.at(table, (np.arange(len(ids))[:, None], ids), 1)
    return table


def counting(name: str, strength: float):
    """A classifier of word counts from scikit-learn."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import MultinomialNB

    if name == "naive Bayes":
        return MultinomialNB(alpha=strength)
    return LogisticRegression(C=strength, max_iter=2_000)


COUNTING = {"naive Bayes": (0.01, 0.1, 0.5, 1.0), "logistic regression": (0.01, 0.1, 1.0, 10.0)}


def draw(rng: np.random.Generator, data: tuple[np.ndarray, np.ndarray], n: int):
    """n passages of each author, at random."""
    ids, labels = data
    rows = [rng.choice(np.flatnonzero(labels == a), n, replace=False) for a in range(len(AUTHORS))]
    rows = np.concatenate(rows)
    return ids[rows], labels[rows]


def run(
    *, seeds: Sequence[int] = (0, 1, 2), n_steps: int = N_STEPS,
    n_labelled: Sequence[int] = N_LABELLED, lrs: Sequence[float] = LRS,
) -> dict:  # fmt: skip
    """metrics: "gaps", how well each encoder fills them; "rows", test accuracies per seed."""
    train, valid, test = (passages(split) for split in ("train", "valid", "test"))
    rng = np.random.default_rng(0)
    equal = draw(rng, train, np.bincount(train[1]).min())[0]  # as much of each author
    encoders = [pretrain(seed, equal, n_steps) for seed in seeds]
    gaps = [gap_test(encoder.eval(), test[0]) for encoder in encoders]
    apart = pretrain(SEARCH_SEED, equal, n_steps)
    rows, best = [], {}
    for n in n_labelled:
        given = draw(np.random.default_rng(SEARCH_SEED), train, n)
        found: dict[str, dict[float, float]] = {}
        for kind, start in (("pre-trained", apart), ("from scratch", fresh(SEARCH_SEED))):
            found[kind] = {
                lr: accuracy(finetune(start, *given, lr, SEARCH_SEED).eval(), *valid) for lr in lrs
            }
        for kind, strengths in COUNTING.items():
            found[kind] = {
                c: balanced(
                    counting(kind, c).fit(counts(given[0]), given[1]).predict(counts(valid[0])),
                    valid[1],
                )
                for c in strengths
            }
        chosen = {kind: max(tried, key=tried.get) for kind, tried in found.items()}
        best[str(n)] = chosen
        right: dict[str, list[float]] = {kind: [] for kind in chosen}
        for k, seed in enumerate(seeds):
            given = draw(np.random.default_rng([seed, n]), train, n)
            for kind, start in (("pre-trained", encoders[k]), ("from scratch", fresh(seed))):
                model = finetune(start, *given, chosen[kind], seed).eval()
                right[kind].append(accuracy(model, *test))
            for kind in COUNTING:
                fitted = counting(kind, chosen[kind]).fit(counts(given[0]), given[1])
                right[kind].append(balanced(fitted.predict(counts(test[0])), test[1]))
        rows += [{"n_labelled": n, "kind": kind, "accuracy": a} for kind, a in right.items()]
    config = {
        "authors": [*AUTHORS], "vocab_size": VOCAB_SIZE, "length": LENGTH, "n_steps": n_steps,
        "lr": LR, "batch_size": BATCH_SIZE, "tune_steps": TUNE_STEPS, "best": best,
        "n_passages": {"train": len(equal), "test": np.bincount(test[1]).tolist()},
        "unknown": round(100 * float((test[0] == UNKNOWN).mean()), 1),
        "parameters": n_parameters(fresh(0)),
    }  # fmt: skip
    metrics = {"gaps": gaps, "unigram": unigram_test(equal, test[0]), "rows": rows}
    return {"config": config, "seeds": [*seeds], "metrics": metrics}
