"""Ctrl-C that waits until what must not be left half done is done."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


class InterruptedTwice(KeyboardInterrupt):
    """A second Ctrl-C before what the first one waited for was done: it may be half done."""


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Within, the first SIGINT waits for the end; a second one raises InterruptedTwice at once.

    At the end the handler that was there gets the signal: Python's own raises KeyboardInterrupt.
    In a thread, where no signal arrives, and where there is no handler, nothing happens.
    """
    before, caught = signal.getsignal(signal.SIGINT), []
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return

    def note(*arguments: object) -> None:
        caught.append(arguments)
        if len(caught) > 1:
            raise InterruptedTwice

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if caught:
        before(*caught[0])
