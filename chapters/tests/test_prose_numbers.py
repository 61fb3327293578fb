"""The test of numbers in prose: what is a number, what founds it, what is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from chapter import Chapter
from prose_numbers import unfounded


def complaints(prose: str, printed: str = "", source: str = "") -> list[str]:
    output = new_output("stream", name="stdout", text=printed)
    cells = [new_markdown_cell(prose), new_code_cell(source, outputs=[output])]
    return unfounded(Chapter(Path("90_x.ipynb"), new_notebook(cells=cells)))


@pytest.mark.parametrize(
    ("prose", "printed"),
    [
        ("a loss of 0.42", "loss 0.4217"),
        ("a loss of 0.43", "loss 0.425001"),
        ("it falls to −1.35 nats", "[-1.3500]"),
        ("42 % are unseen", "share 0.4217"),
        ("42% are unseen", "42.17 %"),
        ("half, 50 %, is unseen", "0.5"),
        ("12.5 per cent", "0.125"),
        ("corn has 4/11", "corn 0.3636"),
        ("corn has 4/11", "{'corn': Fraction(4, 11)} 4/11"),
        ("30 000 words", "30000"),
        ("30\u202f000 words", "30,000 words"),
        ("1,115,394 characters", "1115394"),
        ("1.1 million characters", "1115394"),
        ("4.3 MB of text", "4300123 bytes"),
        ("12.5 ms", "0.0125 s"),
        ("about 430 000 tokens", "431234"),
        ("about 1000 of them", "978"),
        ("a step of 1e-6", "1e-06"),
        ("an error of 2.1e-10", "2.08e-10"),
        ("120, then 0.25", "columns 120 0.25"),
        ("on 123 and 456", "123 456"),
        ("perplexity 170.5.", "170.5"),
    ],
)
def test_a_number_that_was_printed_is_founded(prose, printed):
    assert complaints(prose, printed) == []


@pytest.mark.parametrize(
    ("prose", "printed"),
    [
        ("a loss of 0.42", "loss 0.4251"),
        ("a loss of 0.4217", "loss 0.42"),
        ("43 % are unseen", "share 0.4217"),
        ("corn has 4/11", "corn 0.37"),
        ("corn has 4/11", "corn 0.4"),
        ("30 000 words", "3000"),
        ("430 000 tokens", "431234"),
        ("about 430 000 tokens", "436000"),
        ("about 1000 of them", "940"),
        ("101 words", "100 102"),
        ("1.2 million characters", "1115394"),
        ("an error of 2.1e-10", "2.1e-9"),
        ("3 million words", "3"),
        ("**0.77** it is", ""),
        ("| model | 0.77 |", ""),
    ],
)
def test_a_number_that_was_not_printed_is_reported_with_its_sentence(prose, printed):
    found = complaints("First. " + prose + ". Last.", printed)
    assert len(found) == 1
    assert prose.split()[-1].strip("*|") in found[0]
    assert "Last" not in found[0]


@pytest.mark.parametrize(
    "prose",
    [
        "In 1948 and 2017",
        "as chapter 7, section 3.2 and Figure 10.5 say",
        "from chapters 12 to 120",
        "# 7. Backpropagation",
        "## 7.1 Softmax",
        "three of 12 words, a 5-gram",
        "$0.123$ and $$x = 0.77$$",
        "`0.123`",
        "```\n0.123\n```",
        "[the page](https://example.org/0.123/456)",
        "[Jelinek (1977)](cite:jelinek1977) reports 962.",
        "torch 2.13.0",
        "## Sources\n\nPages 379–423, volume 27, 623.",
        "the H200 and GPT-2",
        '<img width="500">',
    ],
)
def test_what_is_no_claim_of_the_notebook_is_left_alone(prose):
    assert complaints(prose) == []


def test_what_follows_the_sources_is_read_again():
    assert complaints("## Sources\n\n0.5\n\n## More\n\n0.7")[0].count("0.7") == 2


def test_a_citation_founds_its_own_sentence_only():
    assert len(complaints("[A](cite:a) says 962. We find 109.")) == 1


@pytest.mark.parametrize(
    ("prose", "source"),
    [
        ("a discount of 0.75", "discount = 0.75"),
        ("corn has 4/11", "assert p == 4 / 11"),
        ("corn has 4/11", "assert p == Fraction(4, 11)"),
        ("1024 states", "n = 2**10"),
        ("20 000 samples", "n = 20_000"),
    ],
)
def test_a_number_that_code_sets_or_asserts_is_founded(prose, source):
    assert complaints(prose, source=source) == []


def test_a_number_in_a_comment_or_a_string_founds_nothing():
    assert len(complaints("a loss of 0.42", source="x = '0.42'  # 0.42")) == 1


def test_a_caption_founds_and_a_drawing_does_not():
    def shown(data):
        cell = new_code_cell("f()", outputs=[new_output("display_data", data)])
        cells = [new_markdown_cell("It is 0.42."), cell]
        return unfounded(Chapter(Path("90_x.ipynb"), new_notebook(cells=cells)))

    assert shown({"text/plain": "[Figure: a line at 0.42]"}) == []
    assert len(shown({"text/html": "<svg><text>0.42</text></svg>"})) == 1
    assert shown({"text/html": "<td>0.42</td>"}) == []
