"""Sequence to sequence with recurrent networks, and the first attention (chapter 13).

An encoder reads the source; a decoder, which begins in the encoder's last state, writes the target.
With attention the decoder also reads the encoder's outputs, the memory, anew for each token.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import NoneType

import torch
from torch import Tensor, nn

from unrolled.models.recurrent import Recurrent, detach, select
from unrolled.models.recurrent_cells import Cell, State, hidden
from unrolled.models.tensors import check_floats, check_ids, check_mask
from unrolled.validate import checked, flag, instance, one_of, whole

SCORES = ("dot", "bilinear", "additive")
QUERIES = ("current", "previous")


class MemoryAttention(nn.Module):
    """c = Σ_j α_j h_j with α = softmax_j score(s, h_j): a state s reads the rows h_j of a memory.

    "dot": s · h. "bilinear": sᵀ W h, with Wᵀ in `query`: Luong et al. (2015), section 3.1, where it
    is called "general". "additive": vᵀ tanh(W s + U h), with W in `query` and U in `key`: Bahdanau
    et al. (2015), appendix A.1.2. None has a bias or a divisor, as in the papers.
    """

    @checked
    def __init__(
        self, query_size: int, memory_size: int, score: str = "dot", *, width: int | None = None
    ):
        """query_size: Q. memory_size: M. score: one of SCORES. width: A, of the additive score's
        tanh layer, Q when left out.

        Raises ValueError for a dot product of two sizes, and a width without the additive score.
        """
        super().__init__()
        Q, M = whole("query_size", query_size), whole("memory_size", memory_size)
        self.sizes = Q, M
        self.score, additive = one_of("score", score, SCORES), score == "additive"
        if score == "dot" and Q != M:
            raise ValueError(f"a dot product needs one size, got query {Q} and memory {M}")
        if width is not None and not additive:
            raise ValueError(f"only the additive score has a width, got {width} for {score!r}")
        A = whole("width", Q if width is None else width)
        self.query = (
            nn.Identity() if score == "dot" else nn.Linear(Q, A if additive else M, bias=False)
        )
        self.key = nn.Linear(M, A, bias=False) if additive else nn.Identity()
        self.v = nn.Parameter(torch.empty(A).uniform_(-1, 1) / math.sqrt(A)) if additive else None

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """(B, T, S) from query (B, T, Q) and keys = self.key(memory), (B, S, ·)."""
        if self.v is None:
            return self.query(query) @ keys.mT
        return (self.query(query)[:, :, None] + keys[:, None]).tanh() @ self.v

    def forward(
        self,
        query: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        *,
        keys: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """(contexts (B, T, M), weights (B, T, S)) of query (B, T, Q) and memory (B, S, M).

        mask: bool, True = may attend: (B, S), or broadcastable to (B, T, S). Who may attend to
            nothing gets zeros. keys: self.key(memory), where it is known already.
        Raises TypeError for another mask, ValueError for shapes that do not fit.
        """
        check_floats(query=query, memory=memory)
        instance("keys", keys, Tensor, NoneType)
        if query.ndim != 3 or memory.ndim != 3 or len(query) != len(memory):
            shapes = f"{tuple(query.shape)} and {tuple(memory.shape)}"
            raise ValueError(f"expected query (B, T, Q) and memory (B, S, M), got {shapes}")
        if (query.shape[2], memory.shape[2]) != self.sizes:
            expected = "query (B, T, {}) and memory (B, S, {})".format(*self.sizes)
            raise ValueError(
                f"expected {expected}, got {tuple(query.shape)}, {tuple(memory.shape)}"
            )
        scores = self.scores(query, self.key(memory) if keys is None else keys)
        weights = _softmax(scores, mask)
        return weights @ memory, weights


@dataclass(eq=False)
class Seq2SeqCache:
    """What a `Seq2Seq` keeps of its source and of the target so far. It is updated in place."""

    state: State | None = None  # of the decoder; None: nothing read yet
    memory: Tensor | None = None  # (B, S, M), the encoder's outputs
    keys: Tensor | None = None  # (B, S, ·), what the attention makes of them
    mask: Tensor | None = None  # (B, S), True at a token
    length: int = 0  # target tokens read

    def fork(self) -> Seq2SeqCache:
        """An independent continuation; it shares the tensors, which nothing ever overwrites."""
        return replace(self)

    def select(self, rows: Tensor) -> None:
        """Go on with these rows of the batch, int64 (B',), in this order; one may come twice."""
        if self.state is not None:
            self.state = select(self.state, rows)
        self._each(lambda x: x.index_select(0, rows))

    def detach(self) -> None:
        """Cut the graph here, in place: gradients of later losses stop at what was read."""
        if self.state is not None:
            self.state = detach(self.state)
        self._each(Tensor.detach)

    def _each(self, f: Callable[[Tensor], Tensor]) -> None:
        for name in ("memory", "keys", "mask"):
            if (x := getattr(self, name)) is not None:
                setattr(self, name, f(x))


class Seq2Seq(nn.Module):
    """P(y_{t+1} | y_1 … y_t, x) with a recurrent encoder and decoder.

    The decoder's first state is the encoder's last, c; without attention, c is all that it learns
    of the source. With two directions each reads with H/2 units, and their outputs and last states
    stand side by side, so the memory is H wide in any case.

    query="current" (Luong): s_t = f(y_t, s_{t−1}), and s_t asks for the context c_t.
    query="previous" (Bahdanau): s_{t−1} asks, and s_t = f([y_t; c_t], s_{t−1}).
    Both predict from tanh(W [s_t; c_t]); without attention the prediction is made from s_t.
    Sources: Cho et al. (2014), Sutskever et al. (2014); Bahdanau et al. (2015), whose prediction is
    a maxout layer of s, y and c; Luong et al. (2015), equations 5 to 7, without input feeding.
    """

    @checked
    def __init__(
        self,
        source_size: int,
        target_size: int,
        *,
        embedding_dim: int,
        hidden_size: int,
        cell: str | type[Cell] = "gru",
        n_layers: int = 1,
        bidirectional: bool = True,
        attention: str | None = None,
        query: str = "current",
        implementation: str = "auto",
        **options,
    ):
        """source_size, target_size: of the vocabularies. hidden_size: H, even where bidirectional.
        attention: one of SCORES, or None. query: one of QUERIES; without attention it has no
        meaning. Others: as in `Recurrent`. Raises ValueError and TypeError as `Recurrent` does.
        """
        super().__init__()
        whole("source_size", source_size), whole("target_size", target_size)
        D, H = whole("embedding_dim", embedding_dim), whole("hidden_size", hidden_size)
        if bidirectional and H % 2:
            raise ValueError(f"two directions share hidden_size, so it must be even, got {H}")
        self.previous = one_of("query", query, QUERIES) == "previous"
        if attention is None and self.previous:
            raise ValueError("query='previous' needs an attention")
        options |= {"cell": cell, "n_layers": n_layers, "implementation": implementation}
        self.source_embedding = nn.Embedding(source_size, D)
        self.target_embedding = nn.Embedding(target_size, D)
        directions = 2 if bidirectional else 1
        self.encoder = Recurrent(D, H // directions, bidirectional=bidirectional, **options)
        self.decoder = Recurrent(D + H if self.previous else D, H, **options)
        self.attention = None if attention is None else MemoryAttention(H, H, attention)
        self.combine = None if attention is None else nn.Linear(2 * H, H)
        self.head = nn.Linear(H, target_size)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: Tensor | None = None,
        *,
        cache: Seq2SeqCache | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Logits (B, T, V) of the token after each of target (B, T), given source (B, S); int64.

        Given the right target, this is teacher forcing; `generate` and `beam_search` feed back the
        model's own tokens.
        source_mask: bool (B, S), True at a token: at least one, all on the left.
        cache: made by `new_cache`; the target goes on from what it holds. The source is read at the
            first call, and later calls use what the cache keeps of it.
        return_weights: return (logits, weights (B, T, S)); ValueError without attention.
        """
        if flag("return_weights", return_weights) and self.attention is None:
            raise ValueError("there are no weights: the model has no attention")
        x, weights = self._decode(source, target, source_mask, cache)
        return (self.logits(x), weights) if return_weights else self.logits(x)

    def hidden(self, source, target, source_mask=None, *, cache=None) -> Tensor:
        """What the head reads, (B, T, H), from what `forward` takes, which gives its `logits`."""
        return self._decode(source, target, source_mask, cache)[0]

    def logits(self, x: Tensor) -> Tensor:
        """(…, V) from what `hidden` gives."""
        return self.head(x)

    def new_cache(self) -> Seq2SeqCache:
        """A cache that has read nothing yet, for `forward`."""
        return Seq2SeqCache()

    def encode(self, source: Tensor, mask: Tensor | None = None) -> tuple[Tensor, State]:
        """(memory (B, S, H), the decoder's first state) from source (B, S), int64."""
        check_mask("mask of the source", mask)
        outputs, state = self.encoder(self._embed("source", source), mask=mask)
        return outputs, _side_by_side(state, self.encoder.n_directions)

    def _decode(self, source, target, source_mask, cache) -> tuple[Tensor, Tensor | None]:
        instance("cache", cache, Seq2SeqCache, NoneType)
        x = self._embed("target", target)
        read = Seq2SeqCache() if cache is None else cache
        begun = self._begin(source, source_mask) if read.state is None else read.fork()
        x, weights, begun.state = self._run(x, begun)
        if cache is not None:  # only now: a call that failed leaves the cache as it was
            begun.length += target.shape[1]
            vars(cache).update(vars(begun))
        return x, weights

    def _begin(self, source: Tensor, mask: Tensor | None) -> Seq2SeqCache:
        memory, state = self.encode(source, mask)
        if self.attention is None:
            return Seq2SeqCache(state)
        return Seq2SeqCache(state, memory, self.attention.key(memory), mask)

    def _run(self, x: Tensor, read: Seq2SeqCache) -> tuple[Tensor, Tensor | None, State]:
        """(what the head reads, weights, state) after x (B, T, D)."""
        if self.attention is None:
            outputs, state = self.decoder(x, read.state)
            return outputs, None, state
        if self.previous:
            return self._step_by_step(x, read)
        outputs, state = self.decoder(x, read.state)
        contexts, weights = self.attention(outputs, read.memory, read.mask, keys=read.keys)
        return self._combined(outputs, contexts), weights, state

    def _step_by_step(self, x: Tensor, read: Seq2SeqCache) -> tuple[Tensor, Tensor, State]:
        """The context enters the cell, so each step waits for the one before."""
        state, steps = read.state, []
        for y in x.split(1, dim=1):  # (B, 1, D)
            query = hidden(state)[-1][:, None]  # (B, 1, H), of the last layer
            context, weights = self.attention(query, read.memory, read.mask, keys=read.keys)
            output, state = self.decoder(torch.cat([y, context], -1), state)
            steps.append((output, context, weights))
        outputs, contexts, weights = (torch.cat(parts, 1) for parts in zip(*steps, strict=True))
        return self._combined(outputs, contexts), weights, state

    def _combined(self, outputs: Tensor, contexts: Tensor) -> Tensor:
        return self.combine(torch.cat([outputs, contexts], -1)).tanh()

    def _embed(self, name: str, tokens: Tensor) -> Tensor:
        embedding = getattr(self, f"{name}_embedding")
        check_ids(name, tokens, embedding.num_embeddings, 2)
        return embedding(tokens)


def _side_by_side(state: State, n_directions: int) -> State:
    """(layers · directions, B, H/directions) → (layers, B, H), the directions side by side."""
    if isinstance(state, tuple):
        return tuple(_side_by_side(s, n_directions) for s in state)
    return state.unflatten(0, (-1, n_directions)).transpose(1, 2).flatten(2).contiguous()


def _softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """The softmax of (B, T, S) over the positions the mask allows; zeros where it allows none."""
    if mask is None:
        return scores.softmax(-1)
    check_mask("mask", mask)
    mask = mask[:, None] if mask.ndim == 2 else mask
    pairs = zip(mask.shape, scores.shape, strict=False)
    if mask.ndim != 3 or any(n not in (1, m) for n, m in pairs):
        raise ValueError(f"mask {tuple(mask.shape)} does not fit scores {tuple(scores.shape)}")
    alive = mask.any(-1, keepdim=True)
    return scores.masked_fill(~mask & alive, -math.inf).softmax(-1) * alive
