"""Learning the merges of byte-pair encoding from pieces of text (chapter 4).

`unrolled.data.bpe` cuts texts into pieces and applies the merges.
"""

from __future__ import annotations

import heapq
from array import array
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise

from unrolled.validate import checked, whole

Pair = tuple[bytes, bytes]
BYTES = tuple(bytes([i]) for i in range(256))

END, GONE = -1, -2  # in place of a token: beside a piece; merged with the token on the left


@checked
def learn_merges(pieces: Mapping[bytes, int], n_merges: int, min_count: int = 2) -> list[Pair]:
    """The merges that byte-pair encoding learns from `pieces`, piece → how often it occurs.

    Again and again the most frequent pair of neighbouring tokens is joined wherever it occurs, from
    left to right. All neighbours count, also where pairs overlap: aaa holds (a, a) twice. Among
    pairs with equal counts the greatest by (left bytes, right bytes) is taken, as in Sennrich's
    program. Others take the pair they met first (minbpe) or that with the smallest ids (tokenizers)
    and learn other merges. No pair rarer than `min_count` is merged, so there may be fewer than
    `n_merges`. No two merges make the same bytes: between token boundaries, equal bytes are always
    cut equally.

    All pieces stand in one doubly linked list of tokens. A merge visits only the positions of its
    pair, every join makes the list one shorter, and a heap finds the next pair: the time for n
    bytes is O(n log n), whatever the pieces are.
    """
    whole("n_merges", n_merges, 0)
    whole("min_count", min_count)
    tokens, weight = array("q", [END]), array("q", [0])
    for piece, count in pieces.items():
        tokens.extend([*piece, END])
        weight.extend([count] * (len(piece) + 1))
    left, right = array("q", range(-1, len(tokens) - 1)), array("q", range(1, len(tokens) + 1))

    counts, positions = defaultdict(int), defaultdict(lambda: array("q"))
    for i, pair in enumerate(pairwise(tokens)):
        if END not in pair:
            counts[pair] += weight[i]
            positions[pair].append(i)

    vocab = list(BYTES)
    falling = [_falling(token) for token in vocab]

    def entry(pair: tuple[int, int]) -> tuple:
        return (-counts[pair], falling[pair[0]], falling[pair[1]], pair)

    heap = [entry(pair) for pair in counts]
    heapq.heapify(heap)
    merges: list[Pair] = []
    while heap and len(merges) < n_merges:
        top = heapq.heappop(heap)
        pair = a, b = top[-1]
        if counts[pair] < min_count:
            continue
        if counts[pair] != -top[0]:  # has become rarer since it was put here
            heapq.heappush(heap, entry(pair))
            continue
        merges.append((vocab[a], vocab[b]))
        new = len(vocab)
        vocab.append(vocab[a] + vocab[b])
        falling.append(_falling(vocab[new]))

        grown = set()
        for i in positions.pop(pair):  # in rising order, as they were found
            j = right[i]
            if tokens[i] != a or tokens[j] != b:  # joined with another neighbour since
                continue
            h, k = left[i], right[j]
            before, after = tokens[h], tokens[k]
            tokens[i], tokens[j], right[i], left[k] = new, GONE, k, i
            if before != END:
                counts[before, a] -= weight[i]
                counts[before, new] += weight[i]
                positions[before, new].append(h)
                grown.add((before, new))
            if after != END:
                counts[b, after] -= weight[i]
                counts[new, after] += weight[i]
                positions[new, after].append(i)
                grown.add((new, after))
        for neighbours in grown:
            heapq.heappush(heap, entry(neighbours))
    return merges


def _falling(token: bytes) -> str:
    """A string for each token, in the opposite order: less where the token is greater."""
    return "".join(chr(255 - byte) for byte in token) + chr(256)
