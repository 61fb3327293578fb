"""The sandbox: what an answer in it sees, what it may use, and what of it comes out."""

from __future__ import annotations

import os

import pytest
from unrolled.teaching.coursework.sandbox import Limits, Sandbox, SandboxMissing
from unrolled.teaching.exercises.engine.wire import decode, encode

pytestmark = pytest.mark.skipif(
    os.environ.get("UNROLLED_NO_SANDBOX") == "1", reason="UNROLLED_NO_SANDBOX=1"
)


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return Sandbox.find()


def value_of(sandbox: Sandbox, body: str, **options):
    """What the body of a function `f(x)` returns in the sandbox for x = 3."""
    program = "def f(x):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    result = sandbox.run(program, "f", [encode((3,))], **options)
    assert result.outcomes, result.problem
    outcome = result.outcomes[0]
    return decode(outcome["value"]) if "value" in outcome else outcome["error"]["type"]


def test_an_answer_gets_its_arguments_and_its_value_comes_out(sandbox):
    calls = [encode((1, [2.5])), encode((4, [0.5]))]
    result = sandbox.run("def f(a, b):\n    b.append(1)\n    return a + b[0]", "f", calls)
    assert result.outcomes == [{"value": 3.5, "mutated": [1]}, {"value": 4.5, "mutated": [1]}]
    assert (result.problem, 0 < result.seconds < 5) == ("", True)


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("g = 1", "the program defines no `f`"),
        ("f = 1", "`f` is a thing of type int, not a function or a class"),
        ("1 / 0", "the program stops with ZeroDivisionError: division by zero (line 1: `1 / 0`)"),
        ("f = (", "the program stops with SyntaxError: '(' was never closed (line 1: `f = (`)"),
        ("def f(x):\n    while True: pass", "the answer did not finish within 1 s of CPU time"),
        ("def f(x):\n    import os; os._exit(0)", "the answer ended the process (exit)"),
    ],
)
def test_what_keeps_an_answer_from_answering_is_said(sandbox, program, problem):
    result = sandbox.run(program, "f", [encode((1,))], limits=Limits(cpu_seconds=1))
    assert (result.outcomes, result.problem) == (None, problem)


def test_the_library_is_there_only_where_it_is_asked_for_and_never_with_its_teaching(sandbox):
    teaching = "import unrolled.teaching"
    lower = "import unrolled.models.ngram, unrolled.data.bpe\nreturn 1"
    assert value_of(sandbox, lower) == "ModuleNotFoundError"
    assert value_of(sandbox, teaching) == "ModuleNotFoundError"
    assert value_of(sandbox, lower, library=True) == 1
    assert value_of(sandbox, teaching, library=True) == "ModuleNotFoundError"


def test_without_bubblewrap_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxMissing, match="apt-get install bubblewrap"):
        Sandbox.find()
