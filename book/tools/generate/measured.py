"""The page `book/measured.md`: what is recorded, and no chapter shows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from unrolled_book.experiments import record
from unrolled_book.experiments.c08_steps import OPTIMIZERS
from unrolled_book.scaling import power_law, valley

from book.tools.generate.published import table
from book.tools.notebooks import ROOT

TARGET = ROOT / "book" / "measured.md"
HEAD = """\
# What else we measured

The recorded runs behind the chapters hold more than the chapters have room for. Each section below
is one question, its answer and its numbers: means over three seeds, unless it says otherwise. The
page is generated from the records, and what a sentence says of its table is checked when it is.
`make results ONLY=` with the record's name runs one again.
"""
Rows = list[dict]


def mean(rows: Rows, key: str, **wanted: object) -> float:
    """The mean of a column over the rows that have these values; over seeds, that is."""
    return float(np.mean([r[key] for r in rows if all(r[k] == v for k, v in wanted.items())]))


def section(name: str, question: str, asked: str, rows: list[dict[str, str]], read: str) -> str:
    """One question with its table, and the record that it comes from."""
    return f"\n## {question}\n\n{asked}\n\n{table(rows)}\n{read} (`{name}`)\n"


def inserted_layers() -> str:
    """Layers that pass on what they get, put into a trained stack: training does not undo them."""
    name = "c06_depth"
    runs = record.load(name)["metrics"]["inserted"]
    seeds = {depth: [r for r in runs if r["depth"] == depth] for depth in (5, 40)}
    assert all(r["train"] < r["before"] for r in runs)
    assert all(a["train"] < b["train"] for a, b in zip(seeds[5], seeds[40], strict=True))
    five, forty = (mean(runs, "train", depth=depth) for depth in (5, 40))
    return section(
        name,
        "Does training keep a solution that was inserted?",
        "Five plain layers of [chapter 6b](../chapters/06b_residual.ipynb) train for 800 steps. "
        "Then 35 layers that start as the identity are put behind them, and both networks train on "
        "for 400 steps. Loss in bits per character on the training text.",
        [
            {"network": "5 layers, after 800 steps"}
            | {"bits": f"{mean(runs, 'before', depth=5):.2f}"},
            {"network": "5 layers, 400 steps more", "bits": f"{five:.2f}"},
            {"network": "40 layers, 400 steps more", "bits": f"{forty:.2f}"},
        ],
        "The forty layers go on from the good solution and improve it at every seed, a little less "
        "than the five do.",
    )


def words_read() -> str:
    """A feed-forward network's window: what more words give, and what more steps."""
    name, net, steps = "c08_context", "network, 1,500 steps", "network, 3,000 steps"
    short, long = record.load(name)["metrics"], record.load("c08_longer")["metrics"]
    rows = []
    for n in range(1, 7):
        found = {"Kneser–Ney": mean(short["kneser_ney"], "test_perplexity", context=n)}
        found[net] = mean(short["rows"], "test_perplexity", context=n)
        if n in (1, 6):
            found[steps] = mean(long["rows"], "test_perplexity", context=n)
        rows.append(found)
    assert all(b[net] < a[net] for a, b in pairwise(rows[:5]))
    assert all(row["Kneser–Ney"] > rows[1]["Kneser–Ney"] for row in rows[2:])
    assert abs(rows[0]["Kneser–Ney"] - rows[0][steps]) < 0.1 < rows[0][net] - rows[0]["Kneser–Ney"]
    gains = [rows[n][net] - rows[n][steps] for n in (0, 5)]
    assert gains[1] > 2 * gains[0]
    shown = [
        {"words read": str(n)}
        | {key: f"{row[key]:.1f}" if key in row else "" for key in (*rows[0],)}
        for n, row in enumerate(rows, 1)
    ]
    return section(
        name,
        "How many words should a feed-forward network read?",
        "[Chapter 8](../chapters/08_neural_lm.ipynb)'s network on words, each window at a rate "
        "from short searches. Test perplexity, beside a count that reads as many words.",
        shown,
        "The count gains nothing from a third word on, the network from each word up to the fifth. "
        "Twice the steps draw level with the count where both read one word, and gain more than "
        "twice as much where the network reads six: a longer window needs longer training.",
    )


def renamed() -> str:
    """How many occurrences tell the old name of a word that was given a new one."""
    name, rows = "c05_renamed", []
    found = record.load(name)["metrics"]
    for n, kind in ((10, "found"), (30, "found"), (100, "found"), (100, "control")):
        ranks = np.array([r["ranks"] for r in found[kind] if r["n"] == n])
        shares = {"nearest": (ranks == 1).mean(), "in ten": (ranks <= 10).mean()}
        rows.append({"n": f"{n}" + ", shuffled text" * (kind == "control")} | shares)
    ten, thirty, hundred, shuffled = rows
    assert ten["nearest"] < 0.05
    assert 0.14 < thirty["nearest"] < 0.2
    assert thirty["in ten"] < 0.5 < hundred["nearest"] < 0.85 < hundred["in ten"]
    assert shuffled["in ten"] < 0.01
    return section(
        name,
        "How often must a word occur before its company tells it?",
        "In the plays of [chapter 5](../chapters/05_word_vectors.ipynb) forty words, every tenth "
        "after the hundred commonest, get a new name for $n$ of their occurrences. How often is "
        "the old name the nearest to the new one, or among the ten nearest?",
        [row | {k: f"{row[k]:.0%}" for k in ("nearest", "in ten")} for row in rows],
        "Ten say little. A hundred bring nine in ten old names among the ten nearest, and more "
        "than half to the first place. In a shuffled text none is found, so it is the company "
        "that tells.",
    )


def rates() -> str:
    """The best rate of each optimiser, by schedule."""
    name, best, inside = "c08_steps", {}, True
    for one in record.load(name)["config"]["searches"]:
        tried = [row["lr"] for row in one["search"]]
        best[one["optimizer"], one["schedule"]] = chosen = min(
            one["search"], key=lambda row: row["valid"]
        )["lr"]
        inside &= tried[0] < chosen < tried[-1]
    kinds = ("constant", "cosine", "warm-up, cosine")
    assert inside
    assert all(best[o, k] == 4 * best[o, "constant"] for o in OPTIMIZERS for k in kinds[1:])
    return section(
        name,
        "How large a rate does a schedule allow?",
        "[Chapter 8](../chapters/08_neural_lm.ipynb)'s network on names: five optimisers, three "
        "schedules, seven rates each, every one twice the one before; the search has one seed. The "
        "best rate on other names:",
        [{"optimiser": o} | {k: f"{best[o, k]:g}" for k in kinds} for o in OPTIMIZERS],
        "A cosine's best peak is four times the best constant rate, for all five. A rate tuned "
        "without a schedule is too small with one.",
    )


def tickets() -> str:
    """Chapter 10's five starts at twenty distractors: the gradient before and after training."""
    name, reached = "c10_tickets", {}
    for row in record.load(name)["metrics"]["rows"]:
        if row["delay"] == 20:
            learnt = sum(share > 0.9 for share in row["accuracy"])
            reached[row["start"]] = (learnt, row["reach_before"], row["reach_after"])
    assert reached["default"][2] < reached["default"][1] < 1e-5
    assert reached["default relu"][1] < reached["default"][1] < 1 < reached["default relu"][2]
    assert reached["orthogonal"][0] == 3
    assert reached["orthogonal"][1] > 0.5
    return section(
        name,
        "What does training do to a gradient that has vanished?",
        "The five starts of [chapter 10](../chapters/10_bptt.ipynb), with twenty distractors: how "
        "many of five seeds give more than 90% right answers, and the gradient at the first token "
        "relative to the last, before and after training (medians).",
        [
            {"start": start, "seeds that learn": str(learnt)}
            | {when: f"{v:.0e}" for when, v in zip(("before", "after"), values, strict=True)}
            for start, (learnt, *values) in reached.items()
        ],
        "With tanh and the default start, training leaves less of it. With ReLU and the same start "
        "less arrives at first, and training makes it grow. Nor is a gradient that arrives enough: "
        "two orthogonal networks fail.",
    )


def words_at_one_rate() -> str:
    """Chapter 12's two networks of words at each rate, and the LSTM at the smallest."""
    name = "c12_words"
    found = record.load(name)
    search, exhibit = found["config"]["search"], found["metrics"]["exhibit"]
    full = {r["model"]: r["test_perplexity"] for r in found["metrics"]["rows"]}
    rates = [tried["lr"] for tried in search["lstm"]]
    costs = {cell: [t["valid_perplexity"] for t in tried] for cell, tried in search.items()}
    assert exhibit["lr"] == rates[0] == 0.004
    assert costs["elman"][0] < costs["lstm"][0]
    assert full["Elman"] - exhibit["test_perplexity"] < (full["Elman"] - full["LSTM"]) / 2
    assert all(0 < np.argmin(each) < len(rates) - 1 for each in costs.values())
    steps, small = found["config"]["search_steps"], exhibit["test_perplexity"]
    return section(
        name,
        "Do two networks want the same rate?",
        "The Elman network and the LSTM of [chapter 12](../chapters/12_rnn_lm.ipynb) on words: "
        f"validation perplexity by learning rate, after {steps:,} steps, one seed.",
        [
            {"rate": f"{lr:g}", "Elman": f"{elman:.1f}", "LSTM": f"{lstm:.1f}"}
            for lr, elman, lstm in zip(rates, costs["elman"], costs["lstm"], strict=True)
        ],
        "No. At 0.004 the Elman network is ahead, so whoever tries both at that one rate could "
        f"report that gates do harm. Trained in full at 0.004, the LSTM's test perplexity is "
        f"{small:.0f} instead of {full['LSTM']:.0f}, and most of its lead over the Elman network's "
        f"{full['Elman']:.0f} is gone.",
    )


def batch_norm() -> str:
    """Forty layers: batch normalisation, residual connections, and both."""
    name, found = "c06_depth", record.load("c06_depth")
    arms = {
        "plain": (False, "he", False),
        "batch norm": (False, "he", True),
        "residual": (True, "he", False),
        "residual, batch norm": (True, "he", True),
        "residual, small start": (True, "small", False),
    }
    keys = ("residual", "start", "batch_norm")
    runs = [r for r in found["metrics"]["runs"] if r["depth"] == 40]
    bits, rows = {}, []
    for arm, values in arms.items():
        of_arm = [r for r in runs if tuple(r[k] for k in keys) == values]
        bits[arm] = np.array([r["train"] for r in of_arm])
        assert len(bits[arm]) == 3
        low, high = bits[arm].min(), bits[arm].max()
        digits = 0 if low > 100 else 2
        spread = {"lowest": f"{low:,.{digits}f}", "highest": f"{high:,.{digits}f}"}
        rows.append({"40 layers": arm} | spread | {"rate": f"{of_arm[0]['lr']:g}"})
    frequency = found["metrics"]["by_frequency"]
    assert bits["batch norm"].min() > frequency
    assert bits["residual"].min() > 100
    assert bits["residual, batch norm"].max() < bits["plain"].min()
    assert bits["residual, batch norm"].min() > bits["residual, small start"].max()
    lrs = found["config"]["lrs"]
    assert [r["rate"] for r in rows if "batch norm" in r["40 layers"]] == [f"{max(lrs):g}"] * 2
    return section(
        name,
        "Does batch normalisation rescue forty layers?",
        "The stacks of [chapter 6b](../chapters/06b_residual.ipynb), their rates chosen from "
        f"{', '.join(f'{lr:g}' for lr in lrs)}. Training loss in bits a character; predicting by "
        f"frequency costs {frequency:.2f}.",
        rows,
        "Alone it does not: the stack learns no more than the frequencies. It does rescue a "
        "residual stack whose first weights are too large; a start with small ones, without it, is "
        "better here. Its best rate is the largest that was tried, so a larger one may still gain.",
    )


def pairs_of_heads() -> str:
    """Whether two heads of one layer do each other's work."""
    name, rows = "c16_ablation", []
    for model in record.load(name)["metrics"]["models"]:
        one = {tuple(row["head"]): row["lost"] for row in model["single"]}
        more = {"same": [], "other": []}
        for row in model["pairs"]:
            a, b = map(tuple, row["heads"])
            more["same" if a[0] == b[0] else "other"].append(row["lost"] - one[a] - one[b])
        share = {k: np.mean(np.array(v) > 0) for k, v in more.items()}
        assert share["same"] > share["other"] > 0.5
        assert np.mean(more["same"]) > 2 * np.mean(more["other"])
        found = {"seed": str(model["seed"])}
        for kind, where in (("same", "one layer"), ("other", "two layers")):
            found[f"{where}: pairs"] = f"{share[kind]:.0%}"
            found[f"{where}: mean"] = f"{np.mean(more[kind]):+.3f}"
        rows.append(found)
    return section(
        name,
        "Do two heads do each other's work?",
        "The small Transformers of [chapter 16b](../chapters/16b_what_heads_do.ipynb), one row a "
        "seed. Two heads are switched off together: in how many pairs does that cost more than the "
        "two costs added, and by how many bits a character in the mean?",
        rows,
        "Most pairs cost more together than the sum: each head had kept a part of what the other "
        "does. Heads of one layer do so more than heads of two layers, at each seed.",
    )


def choices_of_the_law() -> str:
    """What chapter 22's exponent owes to the runs that were chosen, and to their rates."""
    found = record.load("c22_scaling")
    runs, control = found["metrics"]["runs"], found["metrics"]["control"]
    sizes = {int(d): parts["total"] for d, parts in found["config"]["parameters"].items()}
    budgets = sorted({r["compute"] for r in runs})
    widths = {C: sorted({r["d_model"] for r in runs if r["compute"] == C}) for C in budgets}

    def exponent(of: Rows, budgets: list[float] = budgets) -> float:
        best = []
        for C in budgets:
            here = [r for r in of if r["compute"] == C]
            best.append(valley([sizes[r["d_model"]] for r in here], [r["bits"] for r in here])[0])
        return power_law(budgets, best)[1]

    def without(end: int) -> Rows:
        return [r for r in runs if r["d_model"] != widths[r["compute"]][end]]

    def with_gain(width: int, gain: float) -> float:
        cell = budgets[-1], width
        moved = [r | {"bits": r["bits"] - gain * ((r["compute"], r["d_model"]) == cell)}
                 for r in runs]  # fmt: skip
        return exponent(moved)

    top = [r for r in without(0) if r["compute"] == budgets[-1]]
    x = np.log([sizes[r["d_model"]] for r in top])
    assert np.polyfit(x, [r["bits"] for r in top], 2)[0] < 0  # no valley
    assert exponent(without(0), budgets[:-1]) - exponent(runs) > 0.1
    bits = {tuple(r[k] for k in ("compute", "d_model", "seed")): r["bits"] for r in runs}
    gains = [bits[r["compute"], r["d_model"], 0] - r["bits"] for r in control]
    moved = [with_gain(width, 0.03) for width in widths[budgets[-1]]]
    assert len({r["compute"] for r in control}) == 3
    assert 0.02 < max(gains) < 0.035
    assert all(abs(a - exponent(runs)) < 0.025 for a in moved)
    rows = {
        "all five budgets": f"{exponent(runs):.2f}",
        "the first three": f"{exponent(runs, budgets[:3]):.2f}",
        "the last three": f"{exponent(runs, budgets[2:]):.2f}",
        "without the widest model of each": f"{exponent(without(-1)):.2f}",
        "without the narrowest, the first four": f"{exponent(without(0), budgets[:-1]):.2f}",
        "0.03 bits less at one width of the largest": f"{min(moved):.2f}–{max(moved):.2f}",
    }
    return section(
        "c22_scaling",
        "What does a scaling exponent owe to our choices?",
        "The power of the budget with which the best size grows in the trainings of [chapter "
        "22](../chapters/22_scale.ipynb), fitted to some of them. Two or three seeds a model.",
        [{"budgets and models": k, "exponent": v} for k, v in rows.items()],
        "Which of them are fitted can move it by a tenth. Without its narrowest model the largest "
        "budget has no valley left. And the rates? At the best widths of the three smaller "
        "budgets, half or twice the rate gains less than 0.04 bits, one seed each; 0.03 at one "
        "width of the largest moves the exponent by 0.02.",
    )


def seconds() -> str:
    """Where seconds and operations disagree."""
    found = record.load("c22_times")["metrics"]["exponents"]
    counted = {"self-attention": (2, 1), "recurrence": (1, 2), "convolution": (1, 2),
               "restricted": (1, 1)}  # fmt: skip

    def between(values: list[float]) -> str:
        low, high = (f"{x:.1f}" for x in (min(values), max(values)))
        return low if low == high else f"{low}–{high}"

    rows = [
        {"layer": {"restricted": "window"}.get(kind, kind), "T, operations": str(of_length),
         "T, seconds": between(found[kind]["length"]), "D, operations": str(of_width),
         "D, seconds": between(found[kind]["width"])}
        for kind, (of_length, of_width) in counted.items()
    ]  # fmt: skip
    assert min(found["self-attention"]["length"]) > 2.2
    assert max(found["recurrence"]["width"]) < 0.9
    assert all(abs(x - 1) < 0.15 for kind in ("recurrence", "convolution", "restricted")
               for x in found[kind]["length"])  # fmt: skip
    return section(
        "c22_times",
        "Do seconds follow operations?",
        "Exponents of the length T and the width D in four ways to let positions see each other "
        "([chapter 22](../chapters/22_scale.ipynb)): of the operations, and of the seconds on one "
        "core, three runs, lengths of 512 to 4,096 and widths of 64 to 512.",
        rows,
        "In the length they agree but for attention, whose seconds grow faster than the square. In "
        "the width a recurrence costs far less than its operations say: its exponent is below 1.",
    )


def ladder() -> str:
    """When the order of the ladder's neural models is decided."""
    order = {
        "lstm": "LSTM",
        "transformer": "Transformer",
        "rnn": "Elman",
        "feedforward": "feed-forward",
    }
    shares, bits = (0.05, 0.25, 0.5, 0.75, 1.0), {}
    for model in order:
        found = record.load(f"ladder_{model}")
        for share in shares:
            step = share * found["config"]["fit"]["n_steps"]
            at = {r["seed"]: r for r in reversed(found["curve"]) if r["step"] >= step}
            bits[model, share] = np.array([r["valid_bits_per_character"] for r in at.values()])
    first = {model: bits[model, 0.05] for model in order}
    assert all(first["transformer"].min() > first[m].max() for m in order if m != "transformer")
    for share in shares[1:]:
        for better, worse in pairwise(order):
            assert bits[better, share].max() < bits[worse, share].min()
    return section(
        "ladder_lstm",
        "How early is the ladder's order decided?",
        "Bits a character on the first 30,000 of the validation plays, after a share of each "
        "model's steps, for the neural models of [the ladder](ladder.md).",
        [
            {"model": name}
            | {f"{share:.0%}": f"{bits[model, share].mean():.2f}" for share in shares}
            for model, name in order.items()
        ],
        "The Transformer begins last. At a quarter, half and three quarters of the steps the order "
        "is that of the end. Both hold at each seed.",
    )


SECTIONS: tuple[Callable[[], str], ...] = (
    renamed,
    inserted_layers,
    words_read,
    rates,
    tickets,
    words_at_one_rate,
    batch_norm,
    pairs_of_heads,
    choices_of_the_law,
    seconds,
    ladder,
)


def page() -> str:
    """The page as the records have it. AssertionError where a sentence is no longer true."""
    return HEAD + "".join(make() for make in SECTIONS)
