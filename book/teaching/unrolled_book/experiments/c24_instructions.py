"""Chapter 24: the book's Shakespeare model learns to do what it is asked.

The demonstrations are lines of the plays, each after an instruction that it fulfils, such as "Ask a
question." before a line that ends with "?". So whether an answer complies can be checked by a rule.
Recorded are tuning as the chapter does it, with the prompt's characters in the loss, and with the
end token masked away by mistake. About five minutes on one core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import nn
from unrolled.data import corpora
from unrolled.data.batches import IGNORE, Pair
from unrolled.data.tokens import CharTokenizer
from unrolled.generation.generate import generate
from unrolled.models.transformer import TransformerLM
from unrolled.training.fit import FitConfig, cross_entropy, fit
from unrolled.training.preference import answer_batch

from unrolled_book.experiments import trained
from unrolled_book.experiments._common import best_lr, search, seeded
from unrolled_book.experiments.ladder import CORPUS

NEEDS = ("ladder_transformer",)
RULES: dict[str, Callable[[str], bool]] = {
    "Ask a question.": lambda line: line.endswith("?"),
    "Cry out.": lambda line: line.endswith("!"),
    "Be brief.": lambda line: 0 < len(line.split()) <= 3,
} | {f"Begin with {c}.": lambda line, c=c: line.startswith(c) for c in "AFIMTW"}
KINDS = {"Ask a question.": 1, "Cry out.": 1, "Be brief.": 1}  # and the letters together 1
SEEDS, SEARCH_SEED = (0, 1, 2), 9
N_STEPS, BATCH = 120, 16
LRS = (5e-4, 1e-3, 2e-3, 4e-3)
TARGETS = ("answer", "prompt too", "end masked")
SHORTEST, LONGEST, N_NEW = 8, 40, 60  # characters
N_ASKED, TEMPERATURE = 20, 0.7  # answers to each instruction

Demonstration = tuple[str, str]


class Template:
    """Texts as ids: three tokens more than the model knows, around instruction and answer."""

    def __init__(self):
        self.tokenizer = CharTokenizer.train(corpora.load(CORPUS).train)
        V = self.tokenizer.vocab_size
        self.ask, self.reply, self.end = V, V + 1, V + 2

    def encode(self, instruction: str, answer: str = "") -> tuple[list[int], list[int]]:
        """(prompt, answer): <ask> instruction <reply>, and answer <end>."""
        asked, said = (self.tokenizer.encode(text).tolist() for text in (instruction, answer))
        return [self.ask, *asked, self.reply], [*said, self.end]

    def decode(self, ids: Sequence[int]) -> str:
        """Text up to the end token; the other two are written as ⟨ask⟩ and ⟨reply⟩."""
        names, text = {self.ask: "⟨ask⟩", self.reply: "⟨reply⟩"}, ""
        for i in ids:
            if i == self.end:
                break
            text += names.get(i) or self.tokenizer.vocab[i]
        return text


def base_model(seed: int) -> TransformerLM:
    """The book's model with three new tokens, whose embeddings are drawn about the others' mean."""
    old = trained.load(*NEEDS)
    rows = old.embedding.weight.detach()
    with seeded(seed):
        new = rows.mean(0) + rows.std(0) * torch.randn(3, rows.shape[1])
        model = TransformerLM(replace(old.config, vocab_size=len(rows) + 3))
    table = torch.cat([rows, new])
    weights = old.state_dict() | {"embedding.weight": table, "head.weight": table}
    model.load_state_dict(weights)
    return model.eval()


def demonstrations(text: str, n: int, seed: int) -> list[Demonstration]:
    """n pairs (instruction, line of the text that complies); of the four kinds equally many."""
    lines = [line for line in text.split("\n") if SHORTEST <= len(line) <= LONGEST]
    pools = {ask: [line for line in lines if rule(line)] for ask, rule in RULES.items()}
    letters = [ask for ask in RULES if ask not in KINDS]
    rng, found = np.random.default_rng(seed), []
    for _ in range(n):
        kind = rng.integers(len(KINDS) + 1)
        ask = [*KINDS][kind] if kind < len(KINDS) else letters[rng.integers(len(letters))]
        found.append((ask, pools[ask][rng.integers(len(pools[ask]))]))
    return found


def batch_of(template: Template, shown: Sequence[Demonstration], targets: str = "answer") -> Pair:
    """Inputs and targets (B, T) for one of TARGETS."""
    prompts, answers = zip(*(template.encode(*each) for each in shown), strict=True)
    inputs, right = answer_batch(prompts, answers)
    if targets == "prompt too":
        for row, prompt in zip(right, prompts, strict=True):
            row[: len(prompt) - 1] = prompt[1:]
    elif targets == "end masked":
        right[right == template.end] = IGNORE
    return inputs, right


def batches(template: Template, shown: Sequence[Demonstration], seed: int,
            targets: str = "answer") -> Iterator[Pair]:  # fmt: skip
    """Random batches of demonstrations without end."""
    rng = np.random.default_rng(seed)
    while True:
        yield batch_of(template, [shown[i] for i in rng.choice(len(shown), BATCH)], targets)


def settings(lr: float, seed: int, n_steps: int = N_STEPS) -> FitConfig:
    """Adam with a warm-up over a tenth of the steps and a cosine."""
    return FitConfig(
        n_steps=n_steps, lr=lr, seed=seed, schedule="cosine", warmup_steps=n_steps // 10
    )


@torch.no_grad()
def answer_nats(model: nn.Module, template: Template, shown: Sequence[Demonstration]) -> float:
    """Mean nats of an answer's token, end token included."""
    inputs, targets = map(torch.from_numpy, batch_of(template, shown))
    return (cross_entropy(model(inputs), targets).sum() / (targets != IGNORE).sum()).item()


@torch.no_grad()
def text_nats(model: nn.Module, template: Template, n: int = 64) -> float:
    """Mean nats of a character of the test plays, in n windows of 128: what the base model does."""
    tokens = template.tokenizer.encode(corpora.load(CORPUS).test)
    windows = torch.from_numpy(tokens[: len(tokens) // 129 * 129].reshape(-1, 129))
    windows = windows[:: len(windows) // n][:n].long()
    return cross_entropy(model(windows[:, :-1]), windows[:, 1:]).mean().item()


def asked(model: nn.Module, template: Template, seed: int, n: int = N_ASKED) -> list[dict]:
    """n answers to each instruction: {"ask", "answer", "stops", "complies"}."""
    asks = [ask for ask in RULES for _ in range(n)]
    prompts = [torch.tensor(template.encode(ask)[0]) for ask in asks]
    rng = torch.Generator().manual_seed(seed)
    how = {"stop": template.end, "rng": rng, "temperature": TEMPERATURE}
    rows = []
    for ask, prompt, ids in zip(asks, prompts, generate(model, prompts, N_NEW, **how), strict=True):
        new = ids[len(prompt) :].tolist()
        answer, stops = template.decode(new), new[-1] == template.end
        rows.append({"ask": ask, "answer": answer, "stops": stops, "complies": RULES[ask](answer)})
    return rows


def measured(model: nn.Module, template: Template, seed: int, n: int = N_ASKED) -> dict:
    """A row of the record: shares over `asked`, each of the nine instructions alike, and nats."""
    shown = demonstrations(corpora.load(CORPUS).test, 200, seed)
    rows = asked(model, template, seed, n)
    return {
        "stops": float(np.mean([r["stops"] for r in rows])),
        "complies": float(np.mean([r["complies"] for r in rows])),
        "both": float(np.mean([r["stops"] and r["complies"] for r in rows])),
        "by_instruction": {
            ask: float(np.mean([r["complies"] for r in rows if r["ask"] == ask])) for ask in RULES
        },
        "answer_nats": answer_nats(model, template, shown),
        "text_nats": text_nats(model, template), "examples": rows[:: max(1, n // 2)],
    }  # fmt: skip


def tuned(template: Template, targets: str, lr: float, seed: int, n_steps: int) -> TransformerLM:
    """The book's model after n_steps on demonstrations from the training plays."""
    shown = demonstrations(corpora.load(CORPUS).train, 4000, seed)
    model = base_model(seed)
    fit(model, batches(template, shown, seed, targets), settings(lr, seed, n_steps))
    return model


def bad(model: nn.Module, template: Template, n: int, must_stop: bool = True) -> float:
    """The share of answers that do not comply, or do not stop: what a rate is chosen by."""
    rows = asked(model, template, SEARCH_SEED, n)
    return 1 - float(np.mean([r["complies"] and (r["stops"] or not must_stop) for r in rows]))


def run(*, seeds: Sequence[int] = SEEDS, n_steps: int = N_STEPS,
        lrs: Sequence[float] = LRS, n_asked: int = N_ASKED) -> dict:  # fmt: skip
    """A record's fields.

    `metrics["rows"]`: by `measured`, for the base model and for each of TARGETS with its own rate,
    and each seed. ["search"]: for each rate the share of answers that do not both comply and stop,
    with a seed of its own; of "end masked" they need only comply. ["chance"]: the share of the
    plays' lines that comply with each instruction.
    """
    template, corpus = Template(), corpora.load(CORPUS)

    def searched(targets: str) -> list[dict]:
        def share(lr: float) -> float:
            model = tuned(template, targets, lr, SEARCH_SEED, n_steps)
            return bad(model, template, n_asked, must_stop=targets != "end masked")

        return search(lrs, share, "bad")

    found = {targets: searched(targets) for targets in TARGETS}
    rates = {targets: best_lr(rows, "bad") for targets, rows in found.items()}
    rows = []
    for seed in seeds:
        row = measured(base_model(seed), template, seed, n_asked)
        rows.append({"targets": "base", "seed": seed} | row)
        for targets in TARGETS:
            model = tuned(template, targets, rates[targets], seed, n_steps)
            row = {"targets": targets, "seed": seed, "lr": rates[targets]}
            rows.append(row | measured(model, template, seed, n_asked))
    lines = [line for line in corpus.train.split("\n") if SHORTEST <= len(line) <= LONGEST]
    chance = {ask: float(np.mean([rule(line) for line in lines])) for ask, rule in RULES.items()}
    config = {
        "model": NEEDS[0], "n_steps": n_steps, "batch": BATCH, "lrs": [*lrs], "n_asked": n_asked,
        "search_seed": SEARCH_SEED, "temperature": TEMPERATURE, "n_new": N_NEW,
    }  # fmt: skip
    metrics = {"rows": rows, "search": found, "chance": chance}
    return {"config": config, "seeds": [*seeds], "metrics": metrics, "curve": []}
