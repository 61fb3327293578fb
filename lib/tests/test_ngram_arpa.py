"""n-gram models as ARPA files, read back by a plain reader of the format."""

import itertools

import numpy as np
import pytest
from unrolled.models.ngram import NGram
from unrolled.models.ngram_arpa import write_arpa

NAMES = ["a", "béta", ",", "</s>", "<s>", "rare"]
TEXTS = [np.array([0, 1, 0, 2, 1]), np.array([1, 1, 0, 1, 2]), np.array([2, 0, 1, 0, 0])]
MODELS = {
    "absolute": dict(smoothing="absolute"),
    "kneser-ney": dict(smoothing="kneser-ney"),
    "kneser-ney, nothing freed": dict(smoothing="kneser-ney", discount=(0.5, 0.0, 0.7)),
    "kneser-ney, modified": dict(smoothing="kneser-ney", modified=True),
}


def read_arpa(path):
    """(the announced numbers of n-grams, {n-gram: (log₁₀ p, log₁₀ of the back-off weight)})."""
    announced, table, n = {}, {}, 0
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line.startswith("ngram "):
            order, number = line.removeprefix("ngram ").split("=")
            announced[int(order)] = int(number)
        elif line.startswith("\\") and line.endswith("-grams:"):
            n = int(line[1:].removesuffix("-grams:"))
        elif line and not line.startswith("\\"):
            log_prob, words, *backoff = line.split("\t")
            assert len(words.split(" ")) == n
            table[tuple(words.split(" "))] = float(log_prob), float(backoff[0]) if backoff else 0.0
    return announced, table


def log10_prob(table, context, word):
    """The reader's rule: the n-gram's own line, or back off."""
    if (*context, word) in table:
        return table[*context, word][0]
    return table.get(context, (0, 0.0))[1] + log10_prob(table, context[1:], word)


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("ends", [{}, {"bos": 4, "eos": 3}], ids=["one text", "sentences"])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_back_off_reader_finds_the_models_probabilities(tmp_path, order, ends, options):
    options = options | ({"discount": 0.5} if "discount" in options and order < 3 else {})
    model = NGram.fit(TEXTS, order, len(NAMES), **options, **ends)
    write_arpa(model, tmp_path / "model.arpa", NAMES)
    announced, table = read_arpa(tmp_path / "model.arpa")
    assert announced == {n: sum(len(g) == n for g in table) for n in range(1, order + 1)}
    for m in range(order):
        for context in itertools.product(range(len(NAMES)), repeat=m):
            expected = np.exp(model.log_probs(np.array(context, dtype=np.int64)))
            words = tuple(NAMES[i] for i in context)
            got = [10 ** log10_prob(table, words, name) for name in NAMES]
            np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-98)


def test_the_file_has_the_usual_form(tmp_path):
    model = NGram.fit(np.array([0, 1, 0]), 2, 2, "absolute", discount=0.5)
    write_arpa(model, tmp_path / "model.arpa", ["a", "b"])
    lines = [line.split("\t") for line in (tmp_path / "model.arpa").read_text("utf8").split("\n")]
    assert [line[1] if line[1:] else line[0] for line in lines] == [
        "\\data\\", "ngram 1=2", "ngram 2=2", "", "\\1-grams:", "a", "b", "",
        "\\2-grams:", "a b", "b a", "", "\\end\\", "",
    ]  # fmt: skip
    # Each D frees 1/2: a third of the unigrams' mass, spread evenly; half of a context's.
    numbers = [10 ** float(x) for line in lines if line[1:] for x in (line[0], *line[2:])]
    a, b = 1.5 / 3 + 1 / 6, 0.5 / 3 + 1 / 6
    np.testing.assert_allclose(numbers, [a, 0.5, b, 0.5, 0.5 + 0.5 * b, 0.5 + 0.5 * a])


def test_what_does_not_fit_the_format_is_refused(tmp_path):
    counts = NGram.fit(np.array([0, 1, 0]), 2, 2, "kneser-ney").counts
    with pytest.raises(ValueError, match="got 'additive'"):
        write_arpa(NGram(counts, "additive"), tmp_path / "x", ["a", "b"])
    model = NGram(counts, "kneser-ney")
    for names, message in [
        (["a"], "2 different names, got 1"), (["a", "a"], "2 different names"),
        (["a", "b c"], "without white space, got 'b c'"), (["a", "\n"], "without white space"),
        (["a", ""], "without white space"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            write_arpa(model, tmp_path / "x", names)
    assert not (tmp_path / "x").exists()
