"""The shipped word vectors and questions: whole, checked, and what they are said to be."""

import re

import numpy as np
import pytest
from unrolled_book import word_vectors


def test_ten_thousand_words_have_the_vectors_that_were_published_and_nobody_can_change_them():
    """The first numbers of “the” and of “king” in glove.6B.50d.txt, in half precision."""
    glove = word_vectors.load()
    assert glove is word_vectors.load()
    assert (len(set(glove.words)), glove.vectors.shape) == (10_000, (10_000, 50))
    assert glove.vectors.dtype == np.float32
    assert np.isfinite(glove.vectors).all()
    assert all(re.fullmatch("[a-z]+", word) for word in glove.words)
    assert glove.words[:5] == ("the", "of", "to", "and", "in")
    expected = [[0.418, 0.24968, -0.41242, 0.1217], [0.50451, 0.68607, -0.59517, -0.022801]]
    found = glove.vectors[glove.ids(["the", "king"]), :4]
    np.testing.assert_allclose(found, expected, rtol=5e-4)
    with pytest.raises(ValueError, match="read-only"):
        glove.vectors[0, 0] = 1
    assert len(repr(glove)) < 400
    with pytest.raises(ValueError, match="'garrotxa' is not among the 10,000 words"):
        glove.ids(["cheese", "garrotxa"])
    assert glove.ids([]).shape == (0,)


@pytest.mark.parametrize("damage", [lambda d: d[:1000], lambda d: d[:-9] + bytes(9), lambda d: b""])
def test_a_damaged_file_is_refused(tmp_path, monkeypatch, damage):
    files = (word_vectors._TEXTS / name for name in ("glove.npz", "analogies.txt"))
    whole = {path.name: path.read_bytes() for path in files}
    monkeypatch.setattr(word_vectors, "_TEXTS", tmp_path)
    for name, data in whole.items():
        (tmp_path / name).write_bytes(damage(data))
    for read in (word_vectors.load, word_vectors.analogy_pairs):
        with pytest.raises(ValueError, match=r"is damaged: it has sha256 [0-9a-f]{64}, expected"):
            read.__wrapped__()
    (tmp_path / "analogies.txt").write_bytes(whole["analogies.txt"].replace(b"\n", b"\r\n"))
    assert len(word_vectors.analogy_pairs.__wrapped__()) == 5  # another system's ends of lines


def test_every_question_can_be_asked_of_the_published_vectors():
    glove, kinds = word_vectors.load(), word_vectors.analogy_pairs()
    assert list(kinds) == ["capital", "family", "comparative", "plural", "past tense"]
    for pairs in kinds.values():
        words = [word for pair in pairs for word in pair]
        assert len(set(words)) == len(words)  # so that no question holds its own answer
        glove.ids(words)
    questions = [q for pairs in kinds.values() for q in word_vectors.analogy_questions(pairs)]
    assert len(questions) == len(set(questions)) == 1286
    assert ("man", "woman", "king", "queen") in questions
    one, two = ("a", "A"), ("b", "B")  # each is the model of the other, none of itself
    assert word_vectors.analogy_questions([one, two]) == [(*one, *two), (*two, *one)]
    assert word_vectors.analogy_questions([one]) == []
