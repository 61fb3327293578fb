"""What the page of the workbench asks of Python, one short piece of work at a time, as JSON.

A request names what to `do`; see the methods of `Bench`. The page asks again and again, and so
stops as soon as one piece is done. A refusal is {"error": a sentence}.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from unrolled.data import corpora
from unrolled.models import autograd

from unrolled_book.workbench.models import MODELS
from unrolled_book.workbench.run import Run, Settings, Text

LENGTH = 200_000  # characters that are taken of a shipped text
KEPT = 20  # states that `undo` can go back to
LINE = 24  # characters of a line to look at


def shipped(name: str) -> str:
    """The beginning of a shipped text; of the names, which stand in order, some at random."""
    text = corpora.load(name).train
    if name == "names":
        lines = np.array(text.split("\n"))
        text = "\n".join(np.random.default_rng(0).permutation(lines))
    return text[:LENGTH]


class Bench:
    """A text, the run on it, and the states before each change."""

    def __init__(self) -> None:
        self.text: Text | None = None
        self.run: Run | None = None
        self.before: list[dict[str, Any]] = []
        self.scoring: Iterator[float] = iter(())
        self.writing: Iterator[str] = iter(())
        self.bits = 0.0

    def read(self, *, corpus: str = "", text: str = "") -> dict[str, Any]:
        """Take a shipped text, by name, or the reader's own."""
        self.text = Text(shipped(corpus) if corpus else text)
        start = self.text.tokenizer.decode(self.text.held_out[:200])
        line = max(start.split("\n"), key=len)[:LINE]
        return {"characters": self.text.length, "vocab": self.text.vocab_size, "line": line}

    def n_gram(self, *, order: int) -> dict[str, Any]:
        """Count an n-gram model on the text."""
        counts = self.text.counted(order).n_parameters
        return {"order": order, "bits": self.text.n_gram(order), "parameters": counts}

    def n_gram_sample(self, *, order: int, n: int = 80) -> dict[str, Any]:
        """Characters that an n-gram model writes after the beginning of a line."""
        model, rng = self.text.counted(order), np.random.default_rng(order)
        ids = model.sample(rng, n, self.text.start)
        return {"text": self.text.tokenizer.decode(ids)}

    def begin(self, **settings: Any) -> dict[str, Any]:
        """A fresh model."""
        self.run, self.before = Run(self.text, Settings(**settings)), []
        return {"parameters": self.run.n_parameters, "flops": self.run.flops()}

    def step(self, *, lr: float, seconds: float = 0.2) -> dict[str, Any]:
        """Steps until the time is over, one at least: their losses in bits per byte, and norms.

        Ends at a step whose loss is no number.
        """
        if not (math.isfinite(lr) and lr > 0):
            raise ValueError(f"the learning rate must be a number above 0, got {lr}")
        end, done = time.perf_counter() + seconds, []
        while not done or time.perf_counter() < end:
            with np.errstate(all="ignore"):
                loss, norm = self.run.step(lr)
            if not (math.isfinite(loss) and math.isfinite(norm)):
                return {"steps": done, "n": self.run.n_steps, "broken": True}
            bits = loss / math.log(2) / self.run.text.bytes_per_character
            done.append([self.run.n_steps, bits, norm])
        return {"steps": done, "n": self.run.n_steps}

    def score(self, *, first: bool) -> dict[str, Any]:
        """Score some of the held-out characters; the bits per byte once it is done."""
        if first:
            self.scoring, self.bits = self.run.scores(), 0.0
        some = next(self.scoring, None)
        if some is None:
            return {"bits": self.bits / self.run.text.n_bytes, "n": self.run.n_steps}
        self.bits += some
        return {}

    def sample(self, *, first: bool, n: int = 120, seconds: float = 0.2) -> dict[str, Any]:
        """Some more characters that the model writes after the beginning of a line."""
        if first:
            self.writing = self.run.sample(n)
        end, written = time.perf_counter() + seconds, ""
        for character in self.writing:
            written += character
            if time.perf_counter() > end:
                return {"text": written}
        return {"text": written, "done": True}

    def look(self, *, line: str) -> dict[str, Any]:
        """What the model computes on a line, rounded; and the five likeliest next characters."""
        ids = self.run.text.tokenizer.encode(line[:LINE])[-self.run.settings.window :]
        if not len(ids):
            raise ValueError("there is no character in this line; write some")
        seen, p = self.run.look(ids)
        decode = self.run.text.tokenizer.decode
        rounded = [{**s, "values": s["values"].round(3).tolist()} for s in seen]
        likeliest = [[decode([i]), float(p[i])] for i in (-p).argsort()[:5]]
        return {"line": decode(ids), "seen": rounded, "next": likeliest}

    def mark(self) -> dict[str, Any]:
        """Keep the state as it is now, for `undo`."""
        self.before = [*self.before[-KEPT + 1 :], self.run.snapshot()]
        return {"n": self.run.n_steps, "left": len(self.before)}

    def undo(self) -> dict[str, Any]:
        """Go back to the last state that was kept."""
        if self.before:
            self.run.restore(self.before.pop())
        return {"n": self.run.n_steps, "left": len(self.before)}


def rows_by_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b, for matrices from two rows that lie together: two to four times as fast here."""
    if a.ndim != 2 or b.ndim != 2:
        return np.matmul(a, b)
    return np.einsum("ik,jk->ij", np.ascontiguousarray(a), np.ascontiguousarray(b.T))


if sys.platform == "emscripten":
    autograd.product = rows_by_rows
BENCH = Bench()
DOES = (
    "read",
    "n_gram",
    "n_gram_sample",
    "begin",
    "step",
    "score",
    "sample",
    "look",
    "mark",
    "undo",
)


def handle(request: str) -> str:
    """The answer to a request, both JSON."""
    try:
        asked = json.loads(request)
        do = asked.pop("do")
        if do not in DOES:
            raise ValueError(f"the bench does {', '.join(DOES)}, got {do!r}")
        return json.dumps(getattr(BENCH, do)(**asked))
    except MemoryError:
        return json.dumps({"error": "this needs more memory than the page gives it (1 GB)"})
    except Exception as error:
        return json.dumps({"error": str(error) or type(error).__name__})


def models() -> dict[str, Any]:
    """What the page offers, by name: title and rate to begin with."""
    return {name: {"title": model.title, "lr": model.lr} for name, model in MODELS.items()}
