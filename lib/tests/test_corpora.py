"""The shipped texts: what they hold, what they must not hold, and that damage is noticed."""

import bz2
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from unrolled.data import corpora

# Of the small Shakespeare a test of its own says that it is a part of the large one.
SHIPPED = [name for name in corpora.names() if name != "shakespeare-small"]
SPLITS = ("train", "valid", "test")


def long_lines(text: str, least: int) -> set[str]:
    return {line for line in text.split("\n") if len(line) >= least}


def runs_of_words(text: str, length: int) -> Iterator[tuple[str, ...]]:
    words = re.findall(r"[a-z']+", text.lower())
    return zip(*(words[i:] for i in range(length)), strict=False)


def test_two_loads_give_the_same_object_and_the_small_corpus_is_a_part_of_the_large():
    large, small = corpora.load("shakespeare"), corpora.load("shakespeare-small")
    assert large is corpora.load("shakespeare")
    assert (small.valid, small.test, small.sha256) == (large.valid, large.test, large.sha256)
    assert long_lines(small.train, 1) < long_lines(large.train, 1)
    assert "Now is the winter of our discontent" in small.train
    assert "To be, or not to be,--that is the question:--\nWhether 'tis nobler" in large.train
    assert "To be, or not to be" not in small.train


@pytest.mark.parametrize("name", SHIPPED)
def test_nothing_but_the_words_is_left(name):
    corpus = corpora.load(name)
    headings = "ACT|SCENE|PROLOGUE|EPILOGUE|VOLUME|FINIS"
    headings += "" if name == "melville" else "|CHAPTER"  # which sorts whales into chapters
    for split in SPLITS:
        text = getattr(corpus, split)
        assert set(text) <= set(map(chr, range(32, 127))) | {"\n"}
        assert not re.search(r"[\[\]{}<>_*@#|/\\^~+=`]", text)
        assert not re.search(r"Gutenberg|\betext|\bcopyright|http|www\.", text, re.I)
        assert not re.search(rf"\b({headings})\b", text)
        assert not re.search(r"(?m)^(Enter|Exit|Exeunt|Re-enter|Alarum|Flourish)\b[^,\n]*\.$", text)
        assert not re.search(r"  |(?m:^ | $)|\n\n\n|\A\n|\n\n\Z|[^\n]\Z", text)
    new = {"chesterton": {"4"}}.get(name, set())  # "the 7.45 for Paris"
    assert set(corpus.valid + corpus.test) - set(corpus.train) == new


def test_no_line_is_a_speaker_s_name():
    """In capitals stand only signatures under letters, which the plays' characters read aloud."""
    text = "\n".join(getattr(corpora.load("shakespeare"), split) for split in SPLITS)
    capitals = set(re.findall(r"(?m)^[A-Z][A-Z .,'&-]+[A-Z][.']*$", text))
    assert capitals == {"BERTRAM.'", "DIANA CAPULET.'", "HAMLET.'", "DON ADRIANO DE ARMADO.'"} | {
        "DON ADRIANO DE ARMADO.",
        "JOHN FALSTAFF.'",
    }
    assert not re.search(r"(?m)^(Ham|Hor|Laer|Oph|Edm|Glou|Gon|Reg|Edg|Fool|Nurse)\.", text)


@pytest.mark.parametrize(
    ("name", "runs", "shared"),
    [("shakespeare", 60_000, 1), ("austen", 60_000, 8), ("chesterton", 20_000, 0),
     ("melville", 15_000, 2)],
)  # fmt: skip
def test_splits_share_no_passage(name, runs, shared):
    """No line of 40 characters stands in two splits, and hardly any run of ten words.

    Measured: of about 75,000 held-out runs of ten words one of Shakespeare's ("… you both. We have
    been up and down to seek …", in The Merchant of Venice and Much Ado) and eight of Austen's (one
    sentence of a letter that is read aloud in the next chapter) also stand in the training text;
    of Melville's two ("But be all this as it may …").
    """
    corpus = corpora.load(name)
    train, valid, test = (long_lines(getattr(corpus, split), 40) for split in SPLITS)
    assert train.isdisjoint(valid | test)
    assert valid.isdisjoint(test)
    held_out = set(runs_of_words(corpus.valid, 10)) | set(runs_of_words(corpus.test, 10))
    assert len(held_out) > runs
    assert len(held_out.intersection(runs_of_words(corpus.train, 10))) == shared


def test_a_line_is_a_name_and_no_name_stands_twice():
    corpus = corpora.load("names")
    lines = [name for split in SPLITS for name in getattr(corpus, split).split("\n")[:-1]]
    assert len(lines) == len(set(lines)) == 30_294
    assert all(re.fullmatch("[A-Z][a-z]{1,14}", name) for name in lines)
    assert "Olivia" in lines


def test_a_corpus_says_where_it_comes_from_and_prints_small():
    for entry in corpora.CORPORA:
        corpus = corpora.load(entry.name)
        assert replace(corpus, train="", valid="", test="") == entry
        assert all((entry.title, entry.source, entry.licence, entry.splits, entry.sha256))
        assert len(repr(corpus)) < 1000


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: bz2.compress(bz2.decompress(data).replace(b"Emma", b"Anna", 1), 1),
        lambda data: data[: len(data) // 2],
        lambda data: data[:1000] + bytes([data[1000] ^ 1]) + data[1001:],
        lambda data: b"",
        lambda data: b"version https://git-lfs.example/spec/v1\n",
    ],
    ids=["letter", "truncated", "bit", "empty", "pointer"],
)
def test_a_damaged_file_is_refused_with_both_checksums(damage, tmp_path, monkeypatch):
    data = (corpora.TEXTS / "names.txt.bz2").read_bytes()
    monkeypatch.setattr(corpora, "TEXTS", tmp_path)
    load = inspect.unwrap(corpora.load)  # without its memory
    (tmp_path / "names.txt.bz2").write_bytes(data)
    assert load("names") == corpora.load("names")
    (tmp_path / "names.txt.bz2").write_bytes(damage(data))
    expected = corpora.load("names").sha256
    with pytest.raises(ValueError, match=rf"names.txt.bz2 .*[0-9a-f]{{64}}, expected {expected}"):
        load("names")


@pytest.fixture
def builder(monkeypatch):
    """The build script's modules, importable from the repository only."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "corpora")
    yield pytest.importorskip("build"), pytest.importorskip("plays"), pytest.importorskip("novels")
    for module in ("build", "plays", "novels", "fixes"):
        sys.modules.pop(module, None)


PLAY = """THE PLAY

ACT I.

SCENE I. A room, with
a window.

[Enter a KING, [and] his LORDS,
talking.]

KING. {Aside.]
My lord , I 'll go;[Sings]stay.
   And so

[Exit LORDS

to bed.

FIRST LORD. Farewell.

SONG.
   Hey ho.

FIRST LORD.
Amen.
"""


def test_a_play_is_reduced_to_what_is_spoken(builder):
    _, plays, _ = builder
    spoken = "My lord, I'll go; stay.\nAnd so\nto bed.\n\nFarewell.\n\nHey ho.\n\nAmen.\n"
    assert plays.clean(PLAY, "x") == spoken
    with pytest.raises(ValueError, match="found no line 'ACT I'"):
        plays.clean("Nothing of a play.", "x")


def test_a_novel_is_a_line_per_sentence_without_headings_front_matter_titles_and_licence(builder):
    _, _, novels = builder
    source = (
        "[Emma by Jane Austen 1816]\n\nVOLUME I\n\nCHAPTER I\n\n\n"
        "Mr. Elton said--\n_no_.  'Oh!\nno,' she\nsaid. \"He did.\" So be it!\n\nEnd.\n\n"
        "CHAPTER II\n\nOn `and' on.\n\nFINIS\n"
    )
    assert novels.chapters(source) == [
        "Mr. Elton said--no.\n'Oh! no,' she said.\n\"He did.\"\nSo be it!\n\nEnd.\n",
        "On 'and' on.\n",
    ]
    source = (
        "A poem.\n\nCHAPTER 1\n\nLoomings.\n\n\nCall me.*\n\n*A note.\n\nII. A BAG\n\nThe Bag.\n\n"
        "I went.\n\nEnd of Project Gutenberg's book\n\n*** http\n"
    )
    found = novels.chapters(source, front_matter=True, titles=True)
    assert found == ["Call me.\n\nA note.\n", "I went.\n"]
    for wrong in (source, "No heading."):
        with pytest.raises(ValueError, match="first chapter's heading"):
            novels.chapters(wrong, titles=True)


def test_names_are_dealt_to_splits_one_by_one(builder):
    build, _, _ = builder
    year = "Emma,F,19414\nNoah,M,19015\nAvery,M,2\nAvery,F,8733\nEzra,M,7\nIda,F,6\n"
    sections = build.first_names(year)
    assert [split for split, _, _ in sections] == list(SPLITS)
    dealt = {name: split for split, _, text in sections for name in text.split()}
    assert sorted(dealt) == ["Avery", "Emma", "Ezra", "Ida", "Noah"]
    for name, split in dealt.items():
        assert f"\n{name}\n" in getattr(corpora.load("names"), split)


def test_packing_and_comparing_notice_every_difference(builder, tmp_path):
    build, _, _ = builder
    assert build.corrected("a cat", [("cat", "dog")], "x") == "a dog"
    with pytest.raises(ValueError, match=r"'a' occurs 2 times, expected once"):
        build.corrected("a a", [("a", "b")], "x")
    sections = [("train", "a title", "Text.\n"), ("test", "b", "More.\n")]
    assert bz2.decompress(build.packed(sections)) == b"\ftrain\ta title\nText.\n\ftest\tb\nMore.\n"
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        (folder / "x.txt.bz2").write_bytes(b"same")
    assert build.differing(one, two) == []
    (two / "x.txt.bz2").write_bytes(b"else")
    (one / "y.txt.bz2").write_bytes(b"alone")
    assert build.differing(one, two) == ["x.txt.bz2", "y.txt.bz2"]
