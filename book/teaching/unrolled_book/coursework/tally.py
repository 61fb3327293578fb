"""What a class believes: the predictions of its readers, counted from the files they exported."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from unrolled_book.coursework.marks import cell
from unrolled_book.predictions import Prediction, stored

FORMATS = ("unrolled-answers", "unrolled-predictions")
_MOST = 2_000_000  # bytes of a file; what a reader of all chapters exports has 200,000


def tally(paths: Iterable[str | Path]) -> tuple[str, list[str]]:
    """A table (CSV) of how many gave which answer, and the files that could not be read, and why.

    paths: exports of the page "Your progress", or folders of them. Columns: prediction, answer,
    readers, right (yes or no), belief: what the book knows of who answers so. Numbers are counted
    by the belief they fall under. The most misleading prediction stands first.
    """
    counts: dict[str, Counter[tuple[str, bool, str]]] = {}
    problems = []
    for path in _files(paths):
        try:
            given = _read(path)
        except (OSError, ValueError) as error:
            problems.append(f"{path}: {error}")
            continue
        for name, answer in given.items():
            if (one := stored().get(name)) and (row := _row(one, answer)):
                counts.setdefault(name, Counter())[row] += 1
    return _table(counts), problems


def _files(paths: Iterable[str | Path]) -> list[Path]:
    found = []
    for path in map(Path, paths):
        if not path.exists():
            raise ValueError(f"{path} is not there; expected exports (.json), or a folder of them")
        found += sorted(path.rglob("*.json")) if path.is_dir() else [path]
    return found


def _read(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _MOST:
        raise ValueError(f"larger than {_MOST / 1e6:.0f} MB; it is no export of the page")
    try:
        found = json.loads(path.read_text("utf8"))
    except (ValueError, RecursionError) as error:
        raise ValueError("this is not JSON; expected an export of the page") from error
    given = found.get("predictions") if isinstance(found, dict) else None
    if not isinstance(given, dict) or found.get("format") not in FORMATS:
        raise ValueError("it holds no predictions; expected an export of the page")
    return given


def _row(one: Prediction, answer: object) -> tuple[str, bool, str] | None:
    """(answer, right, belief), judged here: what the file says of itself does not count."""
    given = answer.get("given") if isinstance(answer, dict) else None
    if not isinstance(given, str) or len(given) > 500:
        return None
    try:
        right = one.is_right(given)
        belief = "" if right else one.why(given)
    except ValueError:
        return None
    if one.kind == "number":
        given = (
            one.counts if right else next((w.when for w in one.wrong if w.why == belief), "else")
        )
    return one.options.get(given, given), right, belief


def _table(counts: dict[str, Counter[tuple[str, bool, str]]]) -> str:
    def missed(name: str) -> float:
        rows = counts[name]
        return sum(n for (_, right, _), n in rows.items() if not right) / rows.total()

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["prediction", "answer", "readers", "right", "belief"])
    for name in sorted(counts, key=lambda name: (-missed(name), name)):
        for (given, right, belief), n in counts[name].most_common():
            writer.writerow([name, cell(given), n, "yes" if right else "no", belief])
    return out.getvalue()
