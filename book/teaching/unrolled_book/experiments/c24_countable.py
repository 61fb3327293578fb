"""Chapter 24: preferences where every answer can be counted.

A GRU writes strings of up to five letters over an alphabet of four; there are 1,365 of them. So the
distance from the base model, the best policy and the reward of every policy are exact sums. A
reader whose taste is known prefers one of two strings, with Bradley and Terry's noise. Recorded are
reward models and what best-of-n makes of them, DPO step by step, and what it is compared with.
About two minutes on one core.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from unrolled.data import corpora
from unrolled.data.batches import pad
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.training.fit import FitConfig, fit, next_token_loss
from unrolled.training.preference import (
    RewardModel,
    answer_batch,
    dpo_objective,
    preference_batch,
    reward_batch,
    reward_loss,
    sequence_log_probs,
)

from unrolled_book.experiments._common import seeded
from unrolled_book.experiments.ladder import CORPUS

LETTERS, VOWELS, LONGEST = "aest", set("ae"), 5
MARK = 0  # the start of a string and its end; the letters are 1 to 4
STRINGS = [
    "".join(s) for n in range(LONGEST + 1) for s in itertools.product(LETTERS, repeat=n)
]  # 1,365
SEEDS = (0, 1, 2, 3, 4, 5)
N_PAIRS, BATCH = 300, 64
BASE_STEPS, BASE_LR = 120, 1e-2
REWARD_STEPS, DPO_LR = 200, 3e-3
LRS = (3e-4, 1e-3, 3e-3, 1e-2)
BETAS = (0.1, 0.3, 1.0)
STEPS = (0, 20, 40, 100, 200, 400)
BEST_OF = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


def ids(string: str) -> list[int]:
    """The string's letters and the mark that ends it."""
    return [LETTERS.index(letter) + 1 for letter in string] + [MARK]


class Speller(nn.Module):
    """A GRU over letters that must end after five of them, so that its strings can be listed."""

    def __init__(self, hidden_size: int = 32):
        super().__init__()
        self.body = RecurrentLM(5, "gru", embedding_dim=16, hidden_size=hidden_size)
        self.head = self.body.head  # what a `RewardModel` looks for

    def hidden(self, tokens: Tensor) -> Tensor:
        """(B, T) → (B, T, H)."""
        return self.body.hidden(tokens)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (B, T, 5); after the fifth letter only the mark is possible."""
        logits = self.body(tokens)
        letters = torch.arange(5) != MARK
        late = torch.arange(tokens.shape[1]) >= LONGEST
        return logits.masked_fill(late[:, None] & letters, -torch.inf)


def taste(string: str) -> float:
    """The true reward: a point for each step between vowel and consonant, one off for each doubled
    letter, four off for five letters."""
    steps = list(itertools.pairwise(string))
    changes = sum((a in VOWELS) != (b in VOWELS) for a, b in steps)
    return float(changes - sum(a == b for a, b in steps) - 4 * (len(string) == 5))


REWARD = torch.tensor([taste(s) for s in STRINGS], dtype=torch.float64)


@torch.no_grad()
def log_probs(model: nn.Module) -> Tensor:
    """ln P of every string, float64 (1365,)."""
    batch = answer_batch([[MARK]] * len(STRINGS), [ids(s) for s in STRINGS])
    return sequence_log_probs(model, *map(torch.from_numpy, batch)).double()


def words() -> Counter[str]:
    """The plays' words of up to four of the four letters, with their counts."""
    found = Counter(re.findall("[a-z]+", corpora.load(CORPUS).train.lower()))
    return Counter({w: n for w, n in found.items() if set(w) <= set(LETTERS) and len(w) < LONGEST})


def base_model(seed: int) -> Speller:
    """A speller trained on those words, each as often as the fourth root of its count."""
    counts = words()
    shares = np.array([n**0.25 for n in counts.values()])
    rng, known = np.random.default_rng(seed), [ids(w) for w in counts]

    def batches() -> Iterator:
        while True:
            drawn = rng.choice(len(known), BATCH, p=shares / shares.sum())
            yield answer_batch([[MARK]] * BATCH, [known[i] for i in drawn])

    with seeded(seed):
        model = Speller()
    fit(model, batches(), FitConfig(n_steps=BASE_STEPS, lr=BASE_LR, seed=seed))
    return model.eval()


def draw_pairs(log_p: Tensor, seed: int, n: int = N_PAIRS) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the preferred and of the other strings, both drawn from the model.

    n draws of two, of which equal ones are left out; the reader prefers a to b with probability
    σ(r(a) − r(b)).
    """
    rng, p = np.random.default_rng(seed), log_p.exp().numpy()
    a, b = rng.choice(len(p), (2, n), p=p / p.sum())
    a, b = a[a != b], b[a != b]
    lead = (REWARD[a] - REWARD[b]).numpy()
    wins = rng.random(len(a)) < 1 / (1 + np.exp(-lead))
    return np.where(wins, a, b), np.where(wins, b, a)


def tilted(log_p: Tensor, reward: Tensor, beta: float) -> Tensor:
    """ln of π₀ · exp(r / β) / Z, the best policy for r under a penalty β · KL."""
    return (log_p + reward / beta).log_softmax(0)


def kl(log_q: Tensor, log_p: Tensor) -> float:
    """KL(q, p) in nats; where q is 0 the term is."""
    return (log_q.exp() * (log_q - log_p).nan_to_num(neginf=0)).sum().item()


def best_reward(log_p: Tensor, distance: float) -> float:
    """The largest true reward within a KL of `distance`: that of the tilted policy there."""
    low, high = 1e-3, 1e4
    for _ in range(60):
        beta = (low * high) ** 0.5
        low, high = (
            (beta, high) if kl(tilted(log_p, REWARD, beta), log_p) > distance else (low, beta)
        )
    return (tilted(log_p, REWARD, high).exp() @ REWARD).item()


def best_of(log_p: Tensor, reward: Tensor, n: int) -> Tensor:
    """ln P that a string is the one of n draws with the largest reward, (1365,)."""
    order = reward.argsort(stable=True)
    below = log_p[order].exp().cumsum(0).clamp(max=1)
    found = torch.diff(below**n, prepend=torch.zeros(1, dtype=below.dtype)).clamp(min=0)
    return torch.empty_like(log_p).index_copy(0, order, found.log())


def batches_of(pairs: tuple, seed: int) -> Iterator:
    """Batches without end of the rows of nested arrays."""
    rng, (first, last) = np.random.default_rng(seed), pairs
    first = first if isinstance(first, tuple) else (first,)
    while True:
        rows = rng.choice(len(last), BATCH)
        yield tuple(x[rows] for x in first), last[rows]


def reward_model(
    base: Speller,
    chosen: np.ndarray,
    rejected: np.ndarray,
    seed: int,
    *,
    n_steps: int = REWARD_STEPS,
) -> Tensor:
    """The rewards of all strings by a model trained on the pairs, float64 (1365,)."""
    texts = [[MARK, *ids(s)[:-1]] for s in STRINGS]
    with seeded(seed):  # its head is drawn before it begins with 0
        model = RewardModel(copy.deepcopy(base))
    batch = reward_batch([texts[i] for i in chosen], [texts[i] for i in rejected])
    config = FitConfig(n_steps=n_steps, lr=DPO_LR, seed=seed)
    fit(model, batches_of(batch, seed), config, loss=reward_loss)
    with torch.no_grad():
        return model(*map(torch.from_numpy, pad(texts, 0))).double()


def tuned(
    base: Speller,
    chosen: np.ndarray,
    rejected: np.ndarray,
    seed: int,
    *,
    beta: float | None,
    lr: float = DPO_LR,
    steps: Sequence[int] = STEPS,
) -> list[Tensor]:
    """ln P of all strings after so many steps, for each of `steps` (ascending, from 0).

    beta: of DPO; None: cross-entropy on the preferred strings alone.
    """
    model, known = copy.deepcopy(base), [ids(s) for s in STRINGS]
    prompts, preferred = [[MARK]] * len(chosen), [known[i] for i in chosen]
    if beta is None:
        batch, loss = answer_batch(prompts, preferred), next_token_loss
    else:
        batch = preference_batch(prompts, preferred, [known[i] for i in rejected])
        loss = dpo_objective(base, beta)
    found, every = [log_probs(model)], int(np.gcd.reduce(steps))

    def look(model: nn.Module) -> float:
        found.append(log_probs(model))
        return 0.0

    config = FitConfig(n_steps=steps[-1], lr=lr, seed=seed, eval_every=every)
    fit(model, batches_of(batch, seed), config, loss=loss, valid=look)
    return [found[step // every] for step in steps]


def measured(log_q: Tensor, log_p: Tensor, chosen: np.ndarray, rejected: np.ndarray) -> dict:
    """What a policy has gained and lost: a row of the record, all against the base model's log_p.

    "chosen", "rejected": the mean change of ln P over the pairs; "other": over strings in no pair;
    "fell": the share of pairs whose preferred string has become less likely; "mass": the
    probability of strings in no pair; "right": the share of pairs with the larger change at the
    preferred string; "kl", "reward", and "best", the largest reward within that KL.
    """
    change, unseen = log_q - log_p, torch.ones(len(log_p), dtype=torch.bool)
    unseen[chosen] = unseen[rejected] = False
    return {
        "chosen": change[chosen].mean().item(), "rejected": change[rejected].mean().item(),
        "other": change[unseen].mean().item(),
        "fell": (change[chosen] < 0).double().mean().item(),
        "right": (change[chosen] > change[rejected]).double().mean().item(),
        "mass": log_q[unseen].exp().sum().item(), "kl": (distance := kl(log_q, log_p)),
        "reward": (log_q.exp() @ REWARD).item(), "best": best_reward(log_p, distance),
    }  # fmt: skip


def run(*, seeds: Sequence[int] = SEEDS, betas: Sequence[float] = BETAS, lrs: Sequence[float] = LRS,
        steps: Sequence[int] = STEPS) -> dict:  # fmt: skip
    """A record's fields.

    `metrics["tuning"]`: a row by `measured` for each seed, β and step; β None is cross-entropy on
    the preferred strings. ["optimum"]: the same of π₀ exp(r/β)/Z for the true r; ["by_learned"]:
    for the r that a reward model learned in so many "steps". ["rates"]: after the last step at the
    middle β, for other learning rates. ["best_of"]: for each seed and n the mean true reward, the
    gain in the learned one, and the KL; "by" says whose reward chose. ["worlds"]: of each seed the
    number of pairs, the share where the string of larger true reward was preferred (among those
    that differ), and of the base model the reward and the probability of five letters.
    """
    tuning, optimum, by_learned, rates, best, worlds = [], [], [], [], [], []
    for seed in seeds:
        base = base_model(seed)
        log_p = log_probs(base)
        chosen, rejected = draw_pairs(log_p, seed)
        lead, five = (REWARD[chosen] - REWARD[rejected]).numpy(), [len(s) == 5 for s in STRINGS]
        worlds.append({
            "seed": seed, "pairs": len(chosen),
            "agree": float((lead > 0).sum() / (lead != 0).sum()),
            "reward": (log_p.exp() @ REWARD).item(), "five": log_p[five].exp().sum().item(),
        })  # fmt: skip
        against = (log_p, chosen, rejected)
        for beta in (*betas, None):
            learned = tuned(base, chosen, rejected, seed, beta=beta, steps=steps)
            for step, log_q in zip(steps, learned, strict=True):
                tuning.append(
                    {"seed": seed, "beta": beta, "step": step} | measured(log_q, *against)
                )
            if beta is not None:
                exact = measured(tilted(log_p, REWARD, beta), *against)
                optimum.append({"seed": seed, "beta": beta} | exact)
        for lr in lrs:
            beta = betas[len(betas) // 2]
            *_, last = tuned(base, chosen, rejected, seed, beta=beta, lr=lr, steps=steps)
            rates.append({"seed": seed, "lr": lr} | measured(last, *against))
        learned = reward_model(base, chosen, rejected, seed)
        longer = reward_model(base, chosen, rejected, seed, n_steps=steps[-1])
        for n_steps, reward in ((REWARD_STEPS, learned), (steps[-1], longer)):
            for beta in betas:
                exact = measured(tilted(log_p, reward, beta), *against)
                by_learned.append({"seed": seed, "beta": beta, "steps": n_steps} | exact)
        for by, reward in (("learned", learned), ("true", REWARD)):
            for n in BEST_OF:
                log_q = best_of(log_p, reward, n)
                best.append({
                    "seed": seed, "by": by, "n": n, "kl": kl(log_q, log_p),
                    "true": (log_q.exp() @ REWARD).item(),
                    "learned": (log_q.exp() @ learned - log_p.exp() @ learned).item(),
                })  # fmt: skip
    config = {
        "letters": LETTERS, "longest": LONGEST, "pairs": N_PAIRS, "betas": [*betas],
        "steps": [*steps], "lr": DPO_LR, "lrs": [*lrs], "best_of": [*BEST_OF],
    }  # fmt: skip
    metrics = {
        "worlds": worlds,
        "tuning": tuning,
        "optimum": optimum,
        "by_learned": by_learned,
        "rates": rates,
        "best_of": best,
    }
    return {"config": config, "seeds": [*seeds], "metrics": metrics, "curve": []}
