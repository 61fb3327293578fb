"""A language model of selective layers, which writes with a state of one size: a small Mamba."""

from __future__ import annotations

from types import NoneType

import torch
from torch import Tensor, nn

from unrolled.models.layers import NORM_EPS, RMSNorm
from unrolled.models.recurrent_lm import RecurrentCache
from unrolled.models.ssm import Mamba, SelectiveState
from unrolled.models.tensors import check_ids
from unrolled.validate import checked, instance, whole


class SelectiveLM(nn.Module):
    """P(x_{t+1} | x_1 … x_t) = softmax(head(norm(x + mamba(norm(x)) + …))), one sum over layers.

    `embedding` (V, D); n_layers times `norms` and `layers`, x ← x + layer(norm(x)); `final_norm`;
    `head` (V, D), the embedding's own matrix if tied. There are no positions: a recurrence knows
    the order. Source: Gu & Dao (2023), section 3.4.
    """

    @checked
    def __init__(
        self,
        vocab_size: int,
        *,
        d_model: int,
        n_layers: int = 1,
        tie_embeddings: bool = True,
        norm_eps: float = NORM_EPS,
        **options,
    ):
        """vocab_size: V. d_model: D. norm_eps: of all norms. options: of each `Mamba`.

        Embeddings begin with N(0, 0.02²), out_proj smaller by 1/√n_layers than torch has it.
        Raises as `Mamba` does.
        """
        super().__init__()
        self.embedding = nn.Embedding(whole("vocab_size", vocab_size), whole("d_model", d_model))
        nn.init.normal_(self.embedding.weight, std=0.02)
        n_layers = whole("n_layers", n_layers)
        self.norms = nn.ModuleList(RMSNorm(d_model, eps=norm_eps) for _ in range(n_layers))
        self.layers = nn.ModuleList(Mamba(d_model, **options) for _ in range(n_layers))
        for layer in self.layers:
            layer.out_proj.weight.data /= n_layers**0.5
        self.final_norm = RMSNorm(d_model, eps=norm_eps)
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        if tie_embeddings:
            self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor, *, cache: RecurrentCache | None = None) -> Tensor:
        """Logits (B, T, V) of the token after each of tokens (B, T), int64.

        cache: from `new_cache`; the tokens continue those it has read. Reading a text in pieces
        gives the logits of reading it at once, and the cache does not grow. Raises ValueError for
        another shape of tokens, and on a CPU IndexError for an unknown id.
        """
        return self.logits(self.hidden(tokens, cache=cache))

    def hidden(self, tokens: Tensor, *, cache: RecurrentCache | None = None) -> Tensor:
        """What the head reads, (B, T, D): model(tokens) is model.logits(model.hidden(tokens))."""
        check_ids("tokens", tokens, self.embedding.num_embeddings, 2)
        instance("cache", cache, RecurrentCache, NoneType)
        x, before, after = self.embedding(tokens), [None] * len(self.layers), []
        if cache is not None and cache.state is not None:
            before = [SelectiveState(*parts) for parts in zip(*cache.state, strict=True)]
        for norm, layer, state in zip(self.norms, self.layers, before, strict=True):
            y, state = layer(norm(x), state)
            x = x + y
            after.append(state)
        if cache is not None:  # (layers, B, F, width − 1) and (layers, B, F, N)
            cache.state = tuple(torch.stack(parts) for parts in zip(*after, strict=True))
            cache.length += tokens.shape[1]
        return self.final_norm(x)

    def logits(self, x: Tensor) -> Tensor:
        """(…, V) from what `hidden` gives."""
        return self.head(x)

    def new_cache(self) -> RecurrentCache:
        """A cache that has read nothing yet, for `forward`."""
        return RecurrentCache()
