"""Running an answer on encoded arguments: the half of the marking that may stand in a sandbox.

It needs the answer and the arguments, and of the package only `wire`; see `marking` for the rest.
`attempt` may run beside an answer that nobody trusts: it concludes nothing, and says what came out
and how the arguments look now. `run` is for answers of one's own.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import linecache
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

import numpy as np

from .wire import decode, encode

Outcome = dict[str, Any]


def run(answer: Any, arguments: list[Any], use: Callable[..., Any] | None = None) -> list[Outcome]:
    """What answer does with each of the encoded argument tuples; an error is an outcome too.

    An outcome is {"value": …} or {"error": {"type", "message", "line", "text"}}, and "mutated":
    positions of the arguments that the answer changed.
    """
    return [compared(attempt(answer, args, use), prints(decode(args))) for args in arguments]


def attempt(answer: Any, arguments: Any, use: Callable[..., Any] | None) -> Outcome:
    """One outcome, with "after" in place of "mutated": the prints of the arguments as they are."""
    args = decode(arguments)
    try:
        with quiet():
            value = use(answer, *args) if use else answer(*args)
            outcome: Outcome = {"value": encode(value)}
    except (Exception, SystemExit) as error:  # exit() must not end the reader's session
        outcome = {"error": describe_error(error, answer)}
    return outcome | {"after": prints(args)}


def prints(args: Any) -> list[str]:
    """What each of the arguments looks like, as a short text: equal for equal values."""
    texts = (json.dumps(encode(arg)).encode() for arg in args)
    return [hashlib.sha256(text).hexdigest()[:16] for text in texts]


def compared(outcome: Outcome, before: list[str]) -> Outcome:
    """The outcome with "mutated", from what the arguments looked like before the call.

    Arguments of which nothing is said count as changed.
    """
    pairs = enumerate(zip_longest(before, outcome["after"][: len(before)]))
    rest = {key: part for key, part in outcome.items() if key != "after"}
    return rest | {"mutated": [i for i, (old, new) in pairs if old != new]}


@contextmanager
def quiet() -> Iterator[None]:
    """A warning is no verdict: an overflow shows in the result."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def describe_error(error: BaseException, answer: Any, file: str | None = None) -> dict[str, Any]:
    """The error as an outcome names it, with its last line in the answer's file; or in `file`."""
    own_file = file or _file_of(answer)
    own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == own_file]
    said = {"type": type(error).__name__, "message": _message(error), "line": None, "text": ""}
    if own:
        said["line"] = own[-1].lineno
        said["text"] = linecache.getline(own[-1].filename, own[-1].lineno or 0).strip()
    return said


def _message(error: BaseException) -> str:
    try:
        return str(error)[:300]
    except Exception as another:  # an error of the reader's own, whose __str__ fails
        return f"({type(another).__name__} while it was printed)"


def _file_of(answer: Any) -> str | None:
    if inspect.isclass(answer):
        functions = [f for f in vars(answer).values() if inspect.isfunction(f)]
        answer = functions[0] if functions else None
    code = getattr(inspect.unwrap(answer), "__code__", None) if answer else None
    return code.co_filename if code else None
