"""Byte-level BPE: training and encoding beside the library tokenizers (Rust), in one run.

Run by `make bench`; prints one line per measurement. Times are ratios; the other library may use
all cores.
"""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from unrolled.data import corpora
from unrolled.data.bpe import BPETokenizer, learn_merges
from unrolled.data.tokenizer_files import spell

N_MERGES = 10_000


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def ratio(ours: Callable[[], object], theirs: Callable[[], object], rounds: int = 3) -> str:
    """Our time over theirs: the median, the least and the greatest of rounds that take turns."""
    ratios = [seconds(ours) / seconds(theirs) for _ in range(rounds)]
    return f"× {statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"


def rust(vocab: dict[str, int], merges: list[tuple[str, str]]) -> Tokenizer:
    theirs = Tokenizer(models.BPE(vocab, merges))
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return theirs


def train_rust(text: str) -> None:
    trainer = trainers.BpeTrainer(
        vocab_size=256 + N_MERGES, min_frequency=2, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    rust({}, []).train_from_iterator([text], trainer)


def against_tokenizers() -> None:
    """Shakespeare's training plays; the same merges for both when they encode."""
    text = corpora.load("shakespeare").train
    trained = ratio(lambda: BPETokenizer.train(text, N_MERGES), lambda: train_rust(text))
    print(f"train {N_MERGES:,} merges on {len(text) / 1e6:.1f} MB: ours {trained}")
    tokenizer = BPETokenizer.train(text, N_MERGES)
    vocab = {spell(token): i for i, token in enumerate(tokenizer.vocab)}
    theirs = rust(vocab, [(spell(a), spell(b)) for a, b in tokenizer.merges])
    assert tokenizer.encode(text).tolist() == theirs.encode(text).ids  # what is timed is the same
    lines = text.splitlines(keepends=True)
    noise = random_letters(1_000_000)
    works = {
        "the whole text, for the first time": (
            lambda: fresh(tokenizer).encode(text),
            lambda: theirs.encode(text),
        ),
        "the whole text again": (lambda: tokenizer.encode(text), lambda: theirs.encode(text)),
        "words of random letters": (
            lambda: fresh(tokenizer).encode(noise),
            lambda: theirs.encode(noise),
        ),
        "line by line": (
            lambda: [tokenizer.encode(line) for line in lines],
            lambda: [theirs.encode(line) for line in lines],
        ),
        "a stream of lines, beside a batch of them": (
            lambda: list(tokenizer.encode_stream(lines)),
            lambda: theirs.encode_batch_fast(lines),
        ),
    }
    for name, (ours, other) in works.items():
        print(f"encode {name}: ours {ratio(ours, other)}")


def fresh(tokenizer: BPETokenizer) -> BPETokenizer:
    """The same merges and an empty cache."""
    return BPETokenizer(tokenizer.merges)


def random_letters(n: int) -> str:
    """Words of about eight letters that hardly ever recur: no cache helps."""
    letters = np.random.default_rng(0).choice(list("abcdefghijklmnopqrstuvw    "), n)
    return "".join(letters)


def growth() -> None:
    """One long word, 1000 merges: exponents of time and of the peak of memory in its length."""
    sizes = [125_000, 250_000, 500_000, 1_000_000]
    random = np.random.default_rng(0).integers(97, 101, sizes[-1], dtype=np.uint8).tobytes()
    for name, word in [("equal bytes", b"a" * sizes[-1]), ("random letters", random)]:
        tokenizer = BPETokenizer(learn_merges({word: 1}, 1000), pattern="none")
        works = {
            "training": lambda part: learn_merges({part: 1}, 1000),
            "encoding": tokenizer.encode_bytes,
        }
        for what, work in works.items():
            times = [seconds(lambda w=work, n=n, word=word: w(word[:n])) for n in sizes]
            some = sizes[:3]
            peaks = [peak(lambda w=work, n=n, word=word: w(word[:n])) for n in some]
            print(
                f"{what}, {name}, {sizes[0]:,} to {sizes[-1]:,}: "
                f"time ∝ n^{exponent(sizes, times):.2f}, memory ∝ n^{exponent(some, peaks):.2f}, "
                f"{peaks[-1] / some[-1]:.0f} bytes a byte"
            )


def exponent(sizes: list[int], values: list[float]) -> float:
    return np.polyfit(np.log(sizes), np.log(values), 1)[0]


def peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    work()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


if __name__ == "__main__":
    against_tokenizers()
    growth()
