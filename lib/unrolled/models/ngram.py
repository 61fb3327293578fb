"""n-gram language models of any order with four ways to smooth them (chapters 2 and 2b)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from unrolled.data.tokens import as_ids
from unrolled.models.ngram_counts import NGramCounts, Sequences
from unrolled.validate import LARGEST, checked, one_of, real, whole

SMOOTHINGS = ("mle", "additive", "absolute", "kneser-ney")


class NGram:
    """p(w | the last `order − 1` tokens), estimated from counts.

    c(hw) is the count of an n-gram, c(h•) the sum over w, h′ the context h without its farthest
    token, V the number of tokens that can be predicted (all but `bos`):

    - `"mle"`         c(hw) / c(h•), which is 0/0 after a context never seen: then *no* token has
                      any mass (a row of −inf), and `sample` refuses.
    - `"additive"`    (c(hw) + α) / (c(h•) + αV) (Chen & Goodman 1999, section 2.1).
    - `"absolute"`    max(c(hw) − D, 0) / c(h•) + γ(h) p(w | h′), where γ(h) is the mass that the
                      discounts free, and 1/V takes the place of p(w | h′) for unigrams (2.6).
    - `"kneser-ney"`  the same recursion, but below the highest order c(hw) is the number of
                      different tokens seen before hw (2.7, interpolated). With `modified` D
                      depends on the count: D₁, D₂, D₃₊ (3).

    After a context never seen "additive" gives 1/V, the last two p(w | h′). A context shorter than
    `order − 1` (at the beginning of a text) uses the n-grams of its own length.

    `nltk.lm.KneserNeyInterpolated` is this model with `discount=(0, D, …, D)`: nltk does not
    discount unigrams. At the beginning of a text, where nothing precedes an n-gram, nltk's lower
    orders sum to more than 1 or divide by zero, and nltk predicts padding symbols, too.
    """

    @checked
    def __init__(
        self,
        counts: NGramCounts,
        smoothing: str = "mle",
        *,
        order: int | None = None,
        alpha: float | None = None,
        discount: float | Sequence[float] | None = None,
        modified: bool = False,
    ):
        """counts: may serve several models. order: at most that of the counts, the default.

        alpha: what "additive" adds, default 1. discount: D, or one D per order beginning with the
        unigrams; estimated when left out, three per order with `modified`: `estimated_discounts`.
        Raises ValueError or TypeError for an impossible combination.
        """
        order = counts.order if order is None else whole("order", order, 1, counts.order)
        self.counts, self.smoothing, self.order = counts, smoothing, order
        self.vocab_size, self.bos, self.eos = counts.vocab_size, counts.bos, counts.eos
        self.interpolates = smoothing in ("absolute", "kneser-ney")
        discounts = self._discounts_of_orders(alpha, discount, modified)
        self._uniform = np.where(np.arange(self.vocab_size) == self.bos, 0.0, 1.0)
        self._uniform /= self._uniform.sum()
        self.discounts = np.zeros((order, 3))  # D for a count of 1, of 2, of 3 and more
        # Per context length k: p(w | h) = alpha(hw) + gamma(h) · lower(w). The entry at the end,
        # index −1, stands for an n-gram or a context that was never seen.
        self._alpha, self._gamma = [], []
        for k, level in enumerate(counts.levels[:order]):
            below = smoothing == "kneser-ney" and k < order - 1
            c = level.continuation_counts if below else level.counts
            context, n_contexts = level.ngrams // self.vocab_size, len(level.contexts)
            context = np.asarray(context, dtype=np.intp)  # of 32 bits in a web page
            total = np.bincount(context, c, n_contexts)
            freed = np.zeros(len(c))
            if self.interpolates:
                given = discounts[k]
                self.discounts[k] = estimated_discounts(c, modified) if given is None else given
                freed = np.minimum(np.append(0.0, self.discounts[k])[np.minimum(c, 3)], c)
            extra = np.bincount(context, freed, n_contexts)
            if smoothing == "additive":
                alpha = real("alpha", 1.0 if alpha is None else alpha, above=0)
                added = alpha * np.count_nonzero(self._uniform)
                total, extra = total + added, extra + added
            nothing = total == 0  # Kneser–Ney where the only occurrence begins a text
            total[nothing], extra[nothing] = 1.0, 1.0
            self._alpha.append(np.append((c - freed) / total[context], 0.0))
            self._gamma.append(np.append(extra / total, 0.0 if smoothing == "mle" else 1.0))

    @classmethod
    def fit(
        cls,
        sequences: Sequences,
        order: int,
        vocab_size: int,
        smoothing: str = "mle",
        *,
        bos: int | None = None,
        eos: int | None = None,
        **options,
    ) -> NGram:
        """Count (see `NGramCounts`), then smooth (see `NGram`) with alpha, discount or modified."""
        counts = NGramCounts(sequences, order, vocab_size, bos=bos, eos=eos)
        return cls(counts, smoothing, **options)

    @property
    def n_parameters(self) -> int:
        """Numbers the model stores: one per n-gram and one per context, of every length."""
        return sum(len(x) - 1 for x in (*self._alpha, *self._gamma))

    @checked
    def log_probs(self, contexts: np.ndarray, targets: np.ndarray | None = None) -> np.ndarray:
        """log p(· | context) in nats for an array of contexts; −inf where p is zero.

        contexts: int (..., m), nearest token last, −1 on the left where a context is shorter; only
        the last `order − 1` columns are read. targets: int (...). Returns (..., V), or with targets
        their log-probabilities only, (...). Raises ValueError for shapes or ids that do not fit.
        """
        contexts = as_ids(contexts, -1, self.vocab_size, "contexts")
        if not contexts.ndim:
            raise ValueError("contexts must have shape (..., m), got ()")
        shape, m = contexts.shape[:-1], min(contexts.shape[-1], self.order - 1)
        contexts = contexts[..., contexts.shape[-1] - m :].reshape(math.prod(shape), m)
        if np.any((contexts[:, 1:] < 0) & (contexts[:, :-1] >= 0)):
            raise ValueError("−1 may stand only to the left of a context's tokens")
        if targets is not None:
            targets = as_ids(targets, 0, self.vocab_size, "targets")
            if targets.shape != shape:
                raise ValueError(f"targets must have shape {shape}, got {targets.shape}")
            targets = targets.reshape(-1)
        with np.errstate(divide="ignore"):
            out = np.log(self._probs(contexts, targets))
        return out.reshape(shape if targets is not None else (*shape, self.vocab_size))

    @checked
    def score(self, sequences: Sequences) -> np.ndarray:
        """log p in nats of every token of the sequences, and of `eos`, end to end: (n,)."""
        tokens, before = self.counts.concatenate(sequences)
        t = np.flatnonzero(before >= (self.bos is not None))
        back = np.arange(self.order - 1, 0, -1)
        inside = before[t, None] >= back
        contexts = np.where(inside, tokens[np.where(inside, t[:, None] - back, 0)], -1)
        return self.log_probs(contexts, tokens[t])

    def __call__(self, tokens: np.ndarray) -> np.ndarray:
        """The book's contract: tokens (B, T) → log-probabilities of the next token, (B, T, V)."""
        tokens = as_ids(tokens, 0, self.vocab_size, "tokens", 2)
        m = self.order - 1
        padded = np.pad(tokens, ((0, 0), (m, 0)), constant_values=-1)
        last_m = np.arange(tokens.shape[1])[:, None] + np.arange(1, m + 1)  # (T, m)
        return self.log_probs(padded[:, last_m])

    @checked
    def sample(
        self, rng: np.random.Generator, n_tokens: int, prompt: Sequence[int] = ()
    ) -> np.ndarray:
        """Draw tokens until `eos` or `n_tokens`: the new ids, int64 (≤ n_tokens,).

        Raises ValueError where an "mle" model meets a context that was never seen, and for a prompt
        that holds anything but ids.
        """
        whole("n_tokens", n_tokens, 0)
        prompt = as_ids(prompt, 0, self.vocab_size, "prompt", 1).tolist()
        history = [*([] if self.bos is None else [self.bos]), *prompt]
        new: list[int] = []
        while len(new) < n_tokens and (not new or new[-1] != self.eos):
            context = (history + new)[-self.order + 1 :] if self.order > 1 else []
            probs = np.exp(self.log_probs(np.array(context, dtype=np.int64)))
            if not probs.any():
                raise ValueError(f"the context {context} was never seen: nothing to sample from")
            new.append(int(rng.choice(self.vocab_size, p=probs / probs.sum())))
        return np.array(new, dtype=np.int64)

    @checked
    def backoff_weights(self, contexts: np.ndarray) -> np.ndarray:
        """γ(h) of contexts (N, m), m < order, where the model interpolates; 1 if never seen."""
        contexts = as_ids(contexts, 0, self.vocab_size, "contexts", 2)
        m = whole("the length of a context", contexts.shape[1], 0, self.order - 1)
        return self._gamma[m][self.counts.context_rows(contexts)[-1]]

    def _discounts_of_orders(self, alpha, discount, modified) -> Sequence[float | None]:
        """The discount of each order, None where it is to be estimated; ValueError for options that
        do not go with the smoothing.
        """
        one_of("smoothing", self.smoothing, SMOOTHINGS)
        if alpha is not None and self.smoothing != "additive":
            raise ValueError(f'alpha goes with "additive", got {self.smoothing!r}')
        if modified and (self.smoothing != "kneser-ney" or discount is not None):
            raise ValueError('modified=True goes with "kneser-ney" and estimates its own discounts')
        if discount is not None and not self.interpolates:
            raise ValueError(
                f'discount goes with "absolute" or "kneser-ney", got {self.smoothing!r}'
            )
        if discount is None or np.isscalar(discount):
            discount = [discount] * self.order
        if len(discount) != self.order:
            raise ValueError(f"discount must be one number or {self.order}, got {len(discount)}")
        return [d if d is None else real("a discount", d, 0, 1) for d in discount]

    def _probs(self, contexts: np.ndarray, targets: np.ndarray | None) -> np.ndarray:
        """The recursion from the shortest context up: (N, V), or (N, 1) for targets only."""
        probs = uniform = self._uniform if targets is None else self._uniform[targets, None]
        for k, rows in enumerate(self.counts.context_rows(contexts)):
            lower = probs if self.interpolates else uniform
            level = self._seen(k, rows, targets) + self._gamma[k][rows, None] * lower
            reaches = contexts[:, -k] >= 0 if k else np.ones(len(contexts), dtype=bool)
            probs = np.where(reaches[:, None], level, probs)
        return probs

    def _seen(self, k: int, rows: np.ndarray, targets: np.ndarray | None) -> np.ndarray:
        """alpha of n-grams seen after the contexts in `rows`: (N, V), or the targets', (N, 1)."""
        if targets is not None:
            return self._alpha[k][self.counts.ngram_rows(k, rows, targets), None]
        out = np.zeros((len(rows), self.vocab_size))
        which, tokens, ngrams = self.counts.followers(k, rows)
        out[which, tokens] = self._alpha[k][ngrams]
        return out


@checked
def estimated_discounts(counts: np.ndarray, modified: bool) -> tuple[float, float, float]:
    """(D₁, D₂, D₃₊) from n₁ … n₄, how many n-grams of one order have the count 1 … 4.

    Y = n₁ / (n₁ + 2n₂) for all three, 1/2 where n₁ or n₂ is 0. Modified: i − (i + 1) Y nᵢ₊₁ / nᵢ
    (Chen & Goodman 1999, equation 26), and as with KenLM's `--discount_fallback` 1/2, 1, 3/2 where
    n₁, n₂ or n₃ is 0 or a D lies outside 0 … i. KenLM's lmplz enters the last n-gram it sorts of
    each order but the highest into n₁ … n₄ with its raw count; we do not copy that.
    """
    counts = as_ids(counts, 0, LARGEST, "counts", 1)
    n = np.bincount(np.asarray(np.minimum(counts, 5), dtype=np.intp), minlength=6)
    y = n[1] / max(n[1] + 2 * n[2], 1)
    if not modified:
        return (y,) * 3 if n[1:3].all() else (0.5,) * 3
    if n[1:4].all():
        estimates = tuple(i - (i + 1) * y * n[i + 1] / n[i] for i in (1, 2, 3))
        if all(0 <= d <= i for i, d in enumerate(estimates, start=1)):
            return estimates
    return 0.5, 1.0, 1.5
