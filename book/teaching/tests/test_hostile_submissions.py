"""Hostile submissions: each is run in the sandbox and marked, and its mark is the expected one.

The cases stand in `hostile/*.txt`, one file for each kind of attack, as cells

    #%% name -> passed, unwritten 0, failed n: words of the report, or words of the problem
    # exercise c01_chain_rule/posterior        (bits_per_byte where nothing is said)

`failed n` means that n tests passed. SOLUTION stands for the exercise's own solution: an attack
that raises when it succeeds stands beside the right answer, which passes only if it has failed.
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest
import unrolled_book
from unrolled_book import exercises
from unrolled_book.coursework.sandbox import Limits, Sandbox
from unrolled_book.exercises.engine.marking import mark, planned_outcomes
from unrolled_book.exercises.engine.wire import encode

pytestmark = pytest.mark.skipif(
    os.environ.get("UNROLLED_NO_SANDBOX") == "1", reason="UNROLLED_NO_SANDBOX=1"
)

SEED = 15
LIMITS = Limits(memory_bytes=256 * 2**20, wall_seconds=600.0)  # a busy machine is no attack
CANARY = "canary-of-the-grader"


@dataclass(frozen=True)
class Case:
    kind: str
    name: str
    exercise: str
    expected: str
    source: str


def read_cases(path: Path) -> list[Case]:
    _, *cells = re.split(r"(?m)^#%% ", path.read_text("utf-8"))
    cases = []
    for cell in cells:
        head, source = cell.split("\n", 1)
        name, expected = head.split(" -> ", 1)
        chosen = re.search(r"(?m)^# exercise (\S+)$", source)
        exercise = chosen[1] if chosen else "c01_chain_rule/bits_per_byte"
        cases.append(Case(path.stem, name, exercise, expected.strip(), source))
    return cases


CASES = [
    c for path in sorted(Path(__file__).parent.glob("hostile/*.txt")) for c in read_cases(path)
]


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return Sandbox.find()


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """What an attack looks for outside: servers that listen, a secret, a word in our own
    environment."""
    folder = tmp_path_factory.mktemp("outside")
    secret = folder / "secret.txt"
    secret.write_text("the marks of everybody")
    folder.chmod(0o755)
    names = {"abstract": f"unrolled-{os.getpid()}", "socket": str(folder / "s")}
    heard: list[str] = []
    with pytest.MonkeyPatch.context() as patch, socket.socket() as tcp:
        patch.setenv("CANARY", CANARY)
        tcp.bind(("127.0.0.1", 0))
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        local, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        local.bind(names["socket"])
        abstract.bind("\0" + names["abstract"])
        for server in (tcp, local, abstract):
            server.listen()
        names |= {"port": tcp.getsockname()[1], "udp_port": udp.getsockname()[1]}
        names |= {"secret": str(secret), "package": str(Path(unrolled_book.__file__).parent)}
        names |= {"canary": CANARY, "left": f"left-behind-{os.getpid()}"}
        yield names
        for server in (tcp, udp, local, abstract):
            server.setblocking(False)
            try:
                heard.append(str(server.recvfrom(99) if server is udp else server.accept()))
            except BlockingIOError:
                server.close()
    assert not heard
    assert not Path("/tmp", names["left"]).exists()
    assert secret.read_text() == "the marks of everybody"


@cache
def prepared(name: str):
    exercise = exercises.load(name)
    calls = exercise.calls(SEED)
    return exercise, calls, planned_outcomes(exercise, calls)


def limits_for(expected: str) -> Limits:
    """Short ones for what is expected to run into them."""
    if "1 s of CPU" in expected:
        return replace(LIMITS, cpu_seconds=1)
    return replace(LIMITS, wall_seconds=2.0) if "within 2 s" in expected else LIMITS


def graded(sandbox: Sandbox, name: str, program: str, limits: Limits) -> str:
    """The problem, or "passed", or "failed n" and the report."""
    exercise, calls, planned = prepared(name)
    result = sandbox.run(
        program,
        exercise.name,
        [encode(call.args) for call in calls],
        use_source=exercise.use_source,
        is_value=exercise.is_value,
        library="unrolled." in exercise.source.replace("unrolled_book", ""),
        limits=limits,
    )
    if result.outcomes is None:
        return result.problem
    report = mark(exercise, calls, result.outcomes, planned)
    return (
        "passed" if report.state == "passed" else f"{report.state} {report.n_passed}: {report.text}"
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}-{case.name}")
def test_an_attack_gets_the_mark_that_it_deserves(sandbox, outside, case):
    solution = exercises.load(case.exercise).solution_source
    source = re.sub(r"(?m)^SOLUTION$", lambda _: f"import numpy as np\n{solution}", case.source)
    for name, value in outside.items():
        source = source.replace("{" + name + "}", str(value))
    got = graded(sandbox, case.exercise, source, limits_for(case.expected))
    assert any(agrees(got, expected) for expected in case.expected.split(" or ")), got


def agrees(got: str, expected: str) -> bool:
    wanted, _, words = expected.partition(": ")
    if not wanted.startswith(("failed", "unwritten")):
        return got.startswith(expected)
    return got.startswith(f"{wanted}: ") and words in " ".join(got.split())


def test_there_are_attacks_of_every_kind():
    assert len(CASES) >= 150
    assert len({case.name for case in CASES}) == len(CASES)
