"""The verbs of `python -m book`: each a function, its docstring the line in the list.

What a verb needs is done before it, once: `@verb(env, html)`. The standard library is all that may
be imported here, since the first of these verbs makes the environment.
"""

from __future__ import annotations

import difflib
import functools
import os
import re
import sys
from collections.abc import Callable

from book.verbs.system import Stop, ready

Verb = Callable[[], None]
VERBS: dict[str, Verb] = {}
_done: set[str] = set()


def verb(*needs: Verb, hidden: bool = False) -> Callable[[Verb], Verb]:
    """Make the function a verb, named like it; what it needs comes first, and nothing twice.

    hidden: it is a part of others, and the list leaves it out.
    """

    def register(function: Verb) -> Verb:
        name = function.__name__.rstrip("_").replace("_", "-")

        @functools.wraps(function)
        def once() -> None:
            if name not in _done:
                for need in needs:
                    need()
                function()
                _done.add(name)

        once.hidden = hidden
        VERBS[name] = once
        return once

    return register


def main(arguments: list[str]) -> int:
    """Do the verbs one after the other, up to one that fails; the exit status."""
    from book.verbs import checking, environments, reading, writing  # noqa: F401 - the verbs

    values = dict(word.split("=", 1) for word in arguments if re.match(r"[A-Z_]+=", word))
    names = [word for word in arguments if not re.match(r"[A-Z_]+=", word)]
    if names[:1] == ["--built"]:  # a stage beside others: the pages are built by their own
        _done.add("html")
        names = names[1:]
    unknown = [name for name in names if name not in VERBS]
    if unknown:
        near = difflib.get_close_matches(unknown[0], VERBS, n=1)
        hint = f"did you mean {near[0]}?" if near else "python -m book lists the verbs"
        print(f"book: there is no verb {unknown[0]!r}; {hint}", file=sys.stderr)
        return 2
    os.environ.update(values)
    ready()
    try:
        for name in names or ["help"]:
            VERBS[name]()
    except Stop as stop:
        if str(stop):
            print(stop, flush=True)
        return stop.status
    except KeyboardInterrupt:
        return 130
    return 0


@verb()
def help_() -> None:
    """List the verbs"""
    shown = ((name, f.__doc__.split()) for name, f in VERBS.items() if not f.hidden)
    print("\n".join(f"{name:16}{' '.join(words)}" for name, words in shown))
