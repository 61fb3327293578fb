"""What the library's numpy parts compute on small cases: a program that runs here and in the page.

Its last line is the JSON of {case: value}. The whole numbers must be equal in both places, and the
floats but for rounding: exp and log differ in their last digit from one C library to another.
"""

import json

import numpy as np
from unrolled.data import batches, corpora
from unrolled.data.bpe_merges import learn_merges
from unrolled.data.tokens import CharTokenizer, WordTokenizer
from unrolled.data.wordpiece import WordPieceTokenizer
from unrolled.models import autograd, gradcheck
from unrolled.models.ngram import NGram
from unrolled.models.ngram_counts import NGramCounts
from unrolled.training import schedule
from unrolled_book import scaling, word_vectors
from unrolled_book.exercises.engine.wire import encode
from unrolled_book.tasks import copying, number_words, parentheses, symbols, tagging

CASES = {}


def case(function):
    """Keep what the function returns, or the error that it raises."""
    try:
        CASES[function.__name__] = function()
    except Exception as error:
        CASES[function.__name__] = f"raised {type(error).__name__}: {error}"


TEXT = corpora.load("shakespeare-small").train[:30_000]
CHARACTERS = CharTokenizer.train(TEXT)
WORDS = WordTokenizer.train(TEXT)
IDS, LINES = CHARACTERS.encode(TEXT), WORDS.encode_lines(TEXT)


@case
def texts():
    load = corpora.load
    return [
        (n, len(load(n).train), load(n).valid[:80], load(n).test[-80:]) for n in corpora.names()
    ]


@case
def tokens():
    return [
        IDS[:500],
        WORDS.encode(TEXT[:500]),
        WORDS.decode(LINES[3]),
        CHARACTERS.decode(IDS[:90]),
    ]


@case
def counts_of_words():
    """Keys beyond 32 bits: the vocabulary's size times the number of contexts."""
    counts = NGramCounts(LINES, 4, 2_000_003, bos=2_000_000, eos=2_000_001)
    levels = counts.levels
    parts = [(v.contexts, v.ngrams, v.counts, v.continuation_counts) for v in levels]
    return [counts.n_ngrams, parts, counts.unseen_share(LINES[:50], 3), counts.ngram_tokens(3)[:99]]


@case
def smoothings():
    fresh = CHARACTERS.encode(TEXT[:3000][::-1])
    options = [("mle", {}), ("additive", {"alpha": 0.3}), ("absolute", {"discount": 0.6})]
    options += [("kneser-ney", {}), ("kneser-ney", {"modified": True})]
    found = []
    for smoothing, more in options:
        model = NGram.fit(IDS[:20_000], 4, CHARACTERS.vocab_size, smoothing, **more)
        found += [model.score(fresh), model.log_probs(IDS[:40].reshape(8, 5)), model.n_parameters]
        found += [model.discounts, model(IDS[None, :20])]
        rng = np.random.default_rng(1)
        found.append(model.sample(rng, 40, IDS[:5]) if smoothing != "mle" else None)
    return found


@case
def words_smoothed():
    size = WORDS.vocab_size + 2
    model = NGram.fit(LINES, 3, size, "kneser-ney", bos=size - 2, eos=size - 1)
    return [model.score(LINES[:40]), model.discounts]


@case
def merges():
    pieces = {word.encode(): TEXT.count(word) for word in sorted(set(TEXT.split()))[:600]}
    return [[(a.hex(), b.hex()) for a, b in learn_merges(pieces, 60)]]


@case
def wordpieces():
    tokenizer = WordPieceTokenizer.train(TEXT[:4000], 30)
    return [tokenizer.vocab, tokenizer.encode(TEXT[4000:4400])]


@case
def windows():
    rng = np.random.default_rng(2)
    padded = batches.pad([[1, 2], [3], [4, 4, 4]], 9)
    return [
        list(batches.ContiguousBatches(IDS[:200], batch_size=3, seq_len=20)),
        batches.random_batch(rng, IDS, batch_size=4, seq_len=9),
        [padded.tokens, padded.mask, batches.targets_at_end(padded.mask, [5, 6, 7])],
        list(batches.shuffled_batches(rng, 11, 4)),
    ]


@case
def made_data():
    rng = np.random.default_rng(3)
    found = symbols.parentheses(rng, 24, pairs=(3, 6), negatives=symbols.KINDS)
    copies = symbols.copy_task(rng, 14, n_copied=3, delay=7)
    lines = copying.copy_lines(rng, copying.random_names(rng, 9), 4)
    return [
        [found.sequences, found.labels],
        [copies.tokens, copies.targets, copies.answers],
        parentheses.balanced(rng, 6, pairs=5),
        [lines.lines, lines.inputs, lines.targets, lines.copied],
    ]


@case
def numbers_and_tags():
    some = number_words.pairs([7, 21, 999, 1234])
    train, held_out = tagging.split(np.random.default_rng(5), 40, 10)
    tags = tagging.most_frequent_tags(train)
    return [list(some), number_words.numbers("test")[:50], train.sentences, held_out.tags, tags]


@case
def vectors():
    glove = word_vectors.load()
    pairs = next(iter(word_vectors.analogy_pairs().values()))
    return [glove.vectors[glove.ids(["king", "ship"])], word_vectors.analogy_questions(pairs)[:5]]


@case
def gradients():
    rng = np.random.default_rng(4)
    a, b = (autograd.Tensor(rng.normal(size=shape)) for shape in ((3, 4), (4, 5)))
    picked = autograd.gather(autograd.log_softmax(a @ b), np.arange(3), np.array([4, 0, 4]))
    loss = -autograd.sum(picked)
    loss.backward()
    jacobian = gradcheck.numerical_jacobian(lambda x: x * x * x[0], rng.normal(size=4))
    return [loss.value, a.grad, b.grad, jacobian]


@case
def rates():
    steps = range(0, 101, 7)
    found = [
        [f(t, 100, warmup_steps=10) for t in steps] for f in (schedule.linear, schedule.cosine)
    ]
    x = np.array([1.0, 2.0, 4.0, 8.0])
    return [found, scaling.power_law(x, 3 * x**-0.4), scaling.valley(x, (np.log(x) - 1) ** 2 + 2)]


json.dumps(encode(CASES))
