"""`use` in one sandbox and the answer in another, for exercises whose `use` holds a secret.

Where `use` gives the answer a function and asks what is inside it, an answer that stands beside it
could look; where `use` judges what the answer returns, an answer could stand in for it. Such a
cell says `apart = True`. Then two processes run it: one has `use` and its arguments, the other the
answer, which sees only what it is called with. A function among that becomes one which asks the
other side, a generator of random numbers one in the same state.

Between them go lines of JSON: {"call": […]}, answered by an outcome; and on the way to it
{"ask": 0, "args": […]}, answered by an outcome as well. Neither side trusts a line.
"""

from __future__ import annotations

import builtins
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .running import Outcome, run
from .wire import decode, encode, read

_LONGEST = 96 * 2**20  # bytes of a line: the largest array that crosses, in letters


class Gone(BaseException):
    """The other side has ended, or sends what cannot be read; not an Exception that `use` sees."""


class Peer:
    """The other side: a line goes out, a line comes in."""

    def __init__(self, inbox: int, outbox: int) -> None:
        self._lines, self._outbox = os.fdopen(inbox, "rb"), outbox
        self._write, self._dumps = os.write, json.dumps

    def send(self, message: dict[str, Any]) -> None:
        """One message. Raises Gone where nobody reads it any more."""
        data = self._dumps(message).encode() + b"\n"
        try:
            while data:
                data = data[self._write(self._outbox, data) :]
        except OSError:
            raise Gone from None

    def receive(self) -> dict[str, Any]:
        """The next message. Raises Gone at the end, and for what is no message."""
        line = self._lines.readline(_LONGEST)
        try:
            message = read(line)
        except ValueError:
            raise Gone from None
        if not isinstance(message, dict):
            raise Gone
        return message


def serve(peer: Peer, answer: Any) -> Iterator[Outcome]:
    """Answer the other side's calls until it ends; nothing is left to hand in."""
    while True:
        try:
            call = peer.receive()
            args = [_unpacked(peer, each) for each in call["call"]]
            peer.send(run(_bound(answer, args), [[]])[0])
        except Gone:
            return iter(())


def remote(peer: Peer) -> Callable[..., Any]:
    """The answer as `use` calls it; what it raises there, it raises here by the same name."""

    def answer(*args: Any) -> Any:
        functions = [arg for arg in args if callable(arg)]
        peer.send({"call": [_packed(arg, functions) for arg in args]})
        while "ask" in (said := peer.receive()):
            peer.send(_reply(functions, said))
        return _value(said)

    return answer


def _bound(answer: Any, args: list[Any]) -> Callable[[], Any]:
    def bound() -> Any:
        return answer if answer is Ellipsis else answer(*args)

    bound.__wrapped__ = answer  # whose lines an error is looked for in
    return bound


def _packed(arg: Any, functions: list[Any]) -> dict[str, Any]:
    if isinstance(arg, np.random.Generator):
        return {"rng": arg.bit_generator.state}
    if callable(arg):
        return {"function": next(i for i, each in enumerate(functions) if each is arg)}
    return {"value": encode(arg)}


def _unpacked(peer: Peer, packed: dict[str, Any]) -> Any:
    kind, body = next(iter(packed.items()))
    if kind == "rng":
        rng = np.random.default_rng()
        rng.bit_generator.state = body
        return rng
    return decode(body) if kind == "value" else _asking(peer, body)


def _asking(peer: Peer, index: int) -> Callable[..., Any]:
    def function(*args: Any) -> Any:
        peer.send({"ask": index, "args": encode(list(args))})
        return _value(peer.receive())

    return function


def _reply(functions: list[Callable[..., Any]], said: dict[str, Any]) -> Outcome:
    index = said["ask"]
    if type(index) is not int or not 0 <= index < len(functions):
        raise Gone
    try:
        decode(said.get("args"))
    except ValueError:
        raise Gone from None
    return run(functions[index], [said.get("args")])[0]


def _value(outcome: dict[str, Any]) -> Any:
    """What the other side's function returned. Raises what it raised, or Gone for no outcome."""
    error = outcome.get("error")
    if isinstance(error, dict):
        name, message = str(error.get("type"))[:100], str(error.get("message"))[:300]
        kind = getattr(builtins, name, None)
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            kind = type(name, (Exception,), {})
        try:
            raised = kind(message)
        except TypeError:  # UnicodeDecodeError, say, which wants five arguments
            raised = type(name, (Exception,), {})(message)
        raise raised
    try:
        return decode(outcome["value"])
    except (KeyError, ValueError):
        raise Gone from None
