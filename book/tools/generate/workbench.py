"""What `book/workbench.md` says of each model, between the page's two marks, from the record."""

from __future__ import annotations

from unrolled_book.experiments import record
from unrolled_book.workbench.models import MODELS

from book.tools.generate.published import table
from book.tools.notebooks import ROOT

TARGET = ROOT / "book" / "workbench.md"
BEGIN, END = "<!-- workbench:begin -->", "<!-- workbench:end -->"
# Of each model: its chapter, what it is, what to try.
TRY = {
    "n-gram": ("02b_smoothing", "Each order from one to five, counted and smoothed.",
               "At which order does a longer context stop helping on your own text?"),
    "bigram": ("07b_gradients", "A row of logits for each character, and nothing else.",
               "Does a softmax that is trained end where counting begins?"),
    "feed-forward": ("08_neural_lm", "The last eight characters side by side, and a hidden layer.",
                     "What do twice as many units bring, and what twice as many steps?"),
    "elman": ("09_rnn", "One state, renewed at each character.",
              "Raise the rate tenfold in the middle of a run, watch the gradient, and undo it."),
    "lstm": ("12_rnn_lm", "A cell, and gates that decide what is kept.",
             "Look inside: do the gates know where a word ends?"),
    "one-layer-gpt": ("14_attention", "One block of attention and a feed-forward layer.",
                      "Look inside at the first steps and after 1,000: does a head come to look at "
                      "the character before?"),
    "two-layer-gpt": ("20_transformer_lm", "The Transformer of chapter 20, small.",
                      "Which is better for the same characters read: eight windows of 32, or four "
                      "of 64?"),
}  # fmt: skip


def section(model: str) -> str:
    """A model's heading, which links name, and its lines."""
    stem, what, question = TRY[model]
    chapter = f" ([chapter {stem.partition('_')[0].lstrip('0')}](../chapters/{stem}.ipynb))"
    if not (ROOT / "chapters" / f"{stem}.ipynb").exists():  # dropped, in a derived course
        chapter = ""
    title = MODELS[model].title if model in MODELS else model
    return f"### {title[0].upper()}{title[1:]}\n\n{what[:-1]}{chapter}. {question}\n"


def reached(rows: dict) -> str:
    """Where the models are after so many steps: the range of the seeds."""
    steps = max((row["steps"] for row in rows.values()), key=len)
    lines = []
    for model, row in rows.items():
        found = dict(zip(row["steps"], row["bits"], strict=True))
        cells = {f"{n:,} steps": _range(found[n]) if n in found else "" for n in steps}
        lines.append({"bits per byte": MODELS[model].title} | cells)
    return table(lines)


def _range(bits: list[float]) -> str:
    return f"{min(bits):.2f}–{max(bits):.2f}"


def page() -> str:
    """The page as the record would have it."""
    found = record.load("workbench")
    grams, rows = found["metrics"]["n_grams"], found["metrics"]["rows"]
    counted = ", ".join(f"{n}-gram {bits:.2f}" for n, bits in grams.items())
    config = found["config"]
    last = rows["lstm"]["steps"][-1]
    read = config["batch"] * config["window"]
    ahead = [model for model, row in rows.items() if max(row["bits"][1]) < grams["3"]]
    assert ahead == ["lstm"]
    assert all(min(row["bits"][1]) > grams["3"] for m, row in rows.items() if m != "lstm")
    assert len(found["seeds"]) == 5
    gpt = rows["two-layer-gpt"]
    longest = max(gpt["bits"][-1])
    assert longest < grams["3"]
    intro = (
        f"What torch reached with the form’s first settings on the {config['characters']:,} "
        f"characters of Shakespeare is below, and the page’s engine computes the same. Counting "
        f"gives {counted}. After {last:,} steps, which read {last * read:,} characters, the LSTM "
        "has passed the counted 3-gram, and no other model has. The two-layer GPT passes it by "
        f"step {gpt['steps'][-1]:,}. (The range of five seeds.)\n"
    )
    text = TARGET.read_text("utf8")
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    sections = "\n".join(map(section, TRY))
    return f"{head}{BEGIN}\n{intro}\n{reached(rows)}\n{sections}{END}{tail}"
