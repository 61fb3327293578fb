"""Checks of a reader from left to right: later tokens change nothing, nor do pieces."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from unrolled_book.behaviour.probe import (
    BehaviourError,
    Probe,
    array,
    differ,
    first,
    how_much,
    refuse_nan,
    replaced,
)


def check_causal(model: Callable[[Any], Any], tokens: Any) -> None:
    """Check that the output at position i depends on the tokens 0 … i only, bit for bit.

    The output at i predicts token i + 1. The check changes each token t ≥ 1 in turn to up to three
    other ids, in all sequences at once. No bit of an output before t may change.

    model: tokens (B, T) → outputs (B, T, V) for a vocabulary of V. It is called up to 3T − 1 times,
           always with the same shape, so that rounding stays the same.
    tokens: integers (B, T), T ≥ 2, ids below V; left unchanged.

    Raises BehaviourError with the first position that leaks and the token it reads; also when
    outputs have another shape, hold NaN, or differ between two calls on the same tokens.
    """
    ids, probe = array(tokens), Probe(model, tokens)
    if ids.ndim != 2 or ids.shape[0] < 1 or ids.shape[1] < 2:
        raise ValueError(f"tokens need shape (B, T) with T ≥ 2, got {ids.shape}")
    before = probe.twice(ids)
    if before.ndim != 3 or before.shape[:2] != ids.shape:
        raise BehaviourError(f"tokens {ids.shape} gave outputs {before.shape}, expected (B, T, V)")
    refuse_nan(before)
    vocab_size = before.shape[-1]
    if vocab_size < 2:
        raise ValueError(f"outputs of shape {before.shape}: with one word nothing can be changed")
    columns, reads = np.arange(ids.shape[1]), {}  # position: the first later token that it reads
    for t in columns[1:]:
        for other in replaced(ids, columns == t, np.arange(vocab_size)):
            leaks = differ(before, probe(other)).any(axis=(0, 2))[:t]  # (t,)
            for position in np.flatnonzero(leaks):
                reads.setdefault(int(position), t)
    if reads:
        place = min(reads)
        raise BehaviourError(
            f"the output at position {place} changes with token {reads[place]}; "
            f"it predicts token {place + 1} and may read tokens 0 to {place} only"
        )


def check_cache(model: Any, tokens: Any, *, tolerance: float | None = None) -> None:
    """Check that a text read in pieces, through a cache, gives the outputs of reading it at once.

    The text is read whole, token by token, in pieces of 2, of 3 and of about half, as one long
    piece and then single tokens, and as one token and then the rest. Last the cache is forked, as a
    search among continuations does, and its forks read something else. Another shape is rounded
    otherwise, so an output y may change by tolerance · (1 + |y|), by default the precision of its
    dtype to the power 2/3 (float64: 3.7e-11, float32: 2.4e-5). A fresh model's outputs hardly move
    with what is wrong: float64 sees more.

    model: tokens (B, T) → outputs (B, T, V); with `cache=model.new_cache()` the tokens continue
           those that the cache has read, and it takes them in. cache.fork() is a cache that goes on
           independently, cache.length the number of tokens read.
    tokens: integers (B, T), T ≥ 2.

    Raises BehaviourError naming the pieces and the first output that differs, and guessing at a
    cache that is not used, at positions that begin anew and at a mask that is wrong for a piece;
    also when a fork changes the cache that it was made from, and for a wrong length.
    """
    ids, probe = array(tokens), Probe(model, tokens)
    if ids.ndim != 2 or ids.dtype.kind not in "iu" or ids.shape[0] < 1 or ids.shape[1] < 2:
        raise ValueError(f"tokens need integers (B, T) with T ≥ 2, got {ids.dtype} {ids.shape}")
    if not callable(getattr(model, "new_cache", None)):
        raise TypeError(f"{type(model).__name__} has no new_cache() for model(tokens, cache=…)")
    whole = probe.twice(ids)
    if whole.ndim != 3 or whole.shape[:2] != ids.shape:
        raise BehaviourError(f"tokens {ids.shape} gave outputs {whole.shape}, expected (B, T, V)")
    refuse_nan(whole)
    tolerance = probe.tolerance ** (4 / 3) if tolerance is None else tolerance
    n, half, right = ids.shape[1], -(-ids.shape[1] // 2), []
    for sizes in ([n], [1] * n, [2] * n, [3] * n, [half] * 2, [half] + [1] * n, [1, n - 1]):
        starts = [start for start in np.cumsum([0, *sizes]).tolist() if start < n]
        read = _in_pieces(model, probe, ids, [*starts, n])
        if (off := differ(whole, read, tolerance)).any():
            place = first(off.any(axis=(0, 2)))[0]
            sequence, by = first(off[:, place])[0], how_much(whole, read, off)
            pieces = ", ".join(str(size) for size in np.diff([*starts, n])[:4])
            pieces += ", …" if len(starts) > 4 else ""
            raise BehaviourError(
                f"read in {len(starts)} pieces ({pieces}), the output at token {place} of sequence "
                f"{sequence} is another than in one pass (outputs differ by up to {by:.3g})"
                + _why_pieces(model, probe, ids, read, starts, right, tolerance)
            )
        right.append(starts)
    branched = _branched(model, probe, ids, half)
    if (off := differ(whole[:, half:], branched, tolerance)).any():
        raise BehaviourError(
            f"after a fork of the cache has read other tokens, the output at token "
            f"{half + first(off.any(axis=(0, 2)))[0]} is another (outputs differ by up to "
            f"{how_much(whole[:, half:], branched, off):.3g}): does a fork write on the cache that "
            "it was made from?"
        )


def _branched(model: Any, probe: Probe, ids: np.ndarray, half: int) -> np.ndarray:
    """(B, T − half, V): the second half, while forks of the cache read something else."""
    other = probe.make(
        next(replaced(ids, np.ones(ids.shape, dtype=bool), np.unique(ids)))[:, :1].copy()
    )
    cache, outputs = model.new_cache(), []
    model(probe.make(ids[:, :half].copy()), cache=cache)
    for i in range(half, ids.shape[1]):
        model(other, cache=cache.fork())
        fork = cache.fork()
        outputs.append(_read(model, probe, ids[:, i : i + 1], cache))
        model(other, cache=fork)
    return np.concatenate(outputs, axis=1)


def _in_pieces(model: Any, probe: Probe, ids: np.ndarray, cuts: list[int]) -> np.ndarray:
    """(B, T, V): the outputs of all pieces side by side."""
    cache, outputs = model.new_cache(), []
    for start, stop in itertools.pairwise(cuts):
        outputs.append(_read(model, probe, ids[:, start:stop], cache))
        if cache.length != stop:
            raise BehaviourError(f"after {stop} tokens the cache has the length {cache.length}")
    return np.concatenate(outputs, axis=1)


def _read(model: Any, probe: Probe, piece: np.ndarray, cache: Any) -> np.ndarray:
    output = np.array(array(model(probe.make(piece.copy()), cache=cache)))
    if output.ndim != 3 or output.shape[:2] != piece.shape:
        raise BehaviourError(
            f"with a cache tokens {piece.shape} gave outputs {output.shape}, expected (B, T, V)"
        )
    return output


def _why_pieces(model, probe, ids, read, starts, right, tolerance) -> str:
    """The likely mistake: from the outputs of the second piece alone, or of single tokens."""
    if len(starts) == 1:
        return ". Even in one piece: does the model compute something else with a cache?"
    cut, stop = starts[1], [*starts, ids.shape[1]][2]
    alone = _in_pieces(model, probe, ids[:, cut:stop], [0, stop - cut])
    if not differ(alone, read[:, cut:stop], tolerance).any():
        return ". The second piece is read as if it stood alone: is the cache used, and updated?"
    if len(right) > 1:
        return (
            ". Token by token it is right: within a piece of T after S − T others, query i may "
            "read the keys up to i + S − T"
        )
    return ". Does each piece begin at position 0, or do its keys stand in the wrong place?"
