"""Mutation score: change code at random places and see whether the tests notice.

    make mutants                                  300 mutants of models/ and training/
    make mutants SAMPLE=20 SEED=1 ONLY=attention  a few, of the files with this in their path
    make mutants OF=exercises SAMPLE=100          the exercises' solutions, against their checks

A mutant is a file with one operator, number, condition or loop changed by cosmic-ray. A mutant of
the library runs in a copy of the tree, in a process forked from one that has imported torch: first
the tests that run the changed statement, then all of the file named after the module. Which tests
run a statement is measured with coverage, once for each of the library's test files that imports
these parts of it. A mutant of a solution is handed in as an answer.

What was found is written after each mutant, and a later run with the same seed tries again only
those that survived. A survivor is looked at: it gets a test, or it means the same as the original.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib
import io
import itertools
import json
import os
import random
import re
import signal
import sys
import time
import tokenize
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from book.tools.notebooks import ROOT, copy_of_the_tree

LIBRARY = ("models", "training", "generation", "accounting")
ENOUGH = 60  # seconds of the tests that run the changed statement, the quickest first
LIMIT, FACTOR = 30, 5  # seconds, and times the usual time: a mutant may run forever
LIMIT_OF_A_FILE, LIMIT_OF_A_MEASURE = 200, 900
FOR_ALL = "lib/tests/test_bad_calls.py"  # what holds for all signatures and decorators
NO_TESTS, BROKEN = 5, 70  # exit codes: pytest's, and our own where it could not run at all
_DATES = itertools.count(int(time.time()), 2)


@dataclass(frozen=True)
class Mutant:
    """One change of one file: what its line was, and what it became."""

    file: str
    line: int
    operator: str
    before: str
    after: str
    source: str

    @property
    def name(self) -> str:
        told = "\0".join((self.file, str(self.line), self.operator, self.source))
        return hashlib.sha256(told.encode()).hexdigest()[:12]


# ---- what can be changed ---------------------------------------------------------------------


def meaning(source: str) -> str | None:
    """What a file says apart from annotations and layout; None where it does not parse."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign):
            node.annotation = ast.Constant("")
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
    return ast.dump(tree)


def code_lines(source: str) -> int:
    """The lines that hold code, not only comments or docstrings."""
    lines = set()
    layout = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    skipped = (*layout, tokenize.COMMENT, tokenize.ENDMARKER)
    at_start = True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_text = at_start and token.type == tokenize.STRING
        if token.type not in skipped:
            at_start = False
            lines |= set() if is_text else set(range(token.start[0], token.end[0] + 1))
        elif token.type == tokenize.NEWLINE:
            at_start = True
    return len(lines)


def mutants_of(file: str, source: str, draw: random.Random) -> Iterator[Mutant]:
    """The file's mutants in random order, one for each place, none that means the same."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import MutationVisitor
    from cosmic_ray.operators.provider import OperatorProvider

    places: dict[tuple, list] = {}
    provider, tree = OperatorProvider(), get_ast(source)
    for name in provider:
        if not provider[name].arguments():
            operator = provider[name]()
            found = (p for node in ast_nodes(tree) for p in operator.mutation_positions(node))
            for occurrence, place in enumerate(found):
                places.setdefault(place, []).append((name, operator, occurrence))
    lines, said = source.split("\n"), meaning(source)
    for place in draw.sample(sorted(places), len(places)):
        name, operator, occurrence = draw.choice(places[place])
        mutated = MutationVisitor.mutate_code(source, operator, occurrence)
        if mutated is not None and meaning(mutated) not in (None, said):
            line = place[0][0]
            after = mutated.split("\n")[line - 1].strip()
            yield Mutant(file, line, name, lines[line - 1].strip(), after, mutated)


def sample(sources: dict[str, str], size: int, seed: int) -> list[Mutant]:
    """Mutants of all files in random order, of each as many as its share of the code."""
    lines = {file: code_lines(source) for file, source in sources.items()}
    total, chosen, carried = sum(lines.values()), [], 0.5
    for file, source in sources.items():
        carried += size * lines[file] / total
        wanted = int(carried)
        carried -= wanted
        found = mutants_of(file, source, random.Random(f"{seed} {file}"))
        chosen += [mutant for mutant, _ in zip(found, range(wanted), strict=False)]
    return random.Random(seed).sample(chosen, len(chosen))


# ---- run tests in a process of their own -----------------------------------------------------


def in_a_child(work: Callable[[], int], log: Path, limit: float) -> int | None:
    """What work returns, done in a forked process; None where it took longer than limit."""
    if not (pid := os.fork()):
        code = BROKEN
        try:
            os.setsid()
            with log.open("w", encoding="utf8") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            code = work()
        except Exception:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)  # what it left running
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def run_tests(tree: Path, tests: list[str], *plugins) -> int:
    """pytest's exit code for these tests of the copied tree, up to the first that fails."""
    import pytest

    os.chdir(tree)
    ours = [str(tree / "lib"), str(tree / "book" / "teaching")]
    sys.path[:0] = ours
    os.environ["PYTHONPATH"] = os.pathsep.join(ours)
    code = pytest.main(["-q", "-x", "--tb=line", "-p", "no:cacheprovider", *tests], list(plugins))
    import unrolled

    assert str(tree) in unrolled.__path__[0], "another library was tested"
    return int(code)


class Measure:
    """A plugin of pytest that notes the time of each test, and which test runs which lines."""

    def __init__(self, coverage, seconds: dict):
        self.coverage, self.seconds = coverage, seconds

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.coverage.switch_context(nodeid)

    def pytest_runtest_logfinish(self) -> None:
        self.coverage.switch_context("")

    def pytest_runtest_logreport(self, report) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0) + report.duration


def measure(tree: Path, test_file: str, into: Path) -> int:
    """Run one test file under coverage; write its seconds, and the tests of each line."""
    import coverage

    folders = [str(tree / "lib/unrolled" / name / "*") for name in LIBRARY]
    watch, seconds = coverage.Coverage(data_file=None, include=folders, config_file=False), {}
    watch.start()
    code = run_tests(tree, [test_file], Measure(watch, seconds))
    watch.stop()
    data, lines, read = watch.get_data(), {}, {}
    for path in map(Path, data.measured_files()):
        file = str(path.relative_to(tree / "lib/unrolled"))
        by_line = data.contexts_by_lineno(str(path))
        lines[file] = {line: sorted(c for c in found if c) for line, found in by_line.items()}
        read[file] = digest(path)
    if code not in (0, NO_TESTS):  # there are none where all need a GPU
        return code
    into.write_text(json.dumps({"seconds": seconds, "lines": lines, "read": read}), "utf8")
    return 0


def digest(path: Path) -> str:
    """What tells whether a file has changed; "" where there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12] if path.exists() else ""


def is_fresh(kept: Path, tree: Path) -> bool:
    """Whether a test file was measured, and all that it ran is still the same."""
    if not kept.exists():
        return False
    read = json.loads(kept.read_text("utf8"))["read"]
    return all(digest(tree / "lib/unrolled" / file) == was for file, was in read.items())


def coverage_map(tree: Path, work: Path) -> dict[str, dict]:
    """Each test file's seconds and lines; kept until it, or what it runs, has changed."""
    maps, log = {}, work / "map.log"
    (work / "maps").mkdir(exist_ok=True)
    for path in sorted((tree / "lib/tests").glob("test_*.py")):
        text, test = path.read_text("utf8"), f"lib/tests/{path.name}"
        if not re.search(rf"\bunrolled\b.*\b({'|'.join(LIBRARY)})\b", text):
            continue
        kept = work / "maps" / f"{path.stem}-{digest(path)}.json"
        if not is_fresh(kept, tree):
            start = time.monotonic()
            if in_a_child(partial(measure, tree, test, kept), log, LIMIT_OF_A_MEASURE) != 0:
                raise RuntimeError(
                    f"{test} fails without a mutant\n{log.read_text('utf8')[-2000:]}"
                )
            print(f"{test}: {time.monotonic() - start:.0f} s", flush=True)
        maps[path.name] = json.loads(kept.read_text("utf8"))
    return maps


# ---- is the mutant caught? -------------------------------------------------------------------


def statement(source: str, line: int) -> tuple[int, int] | None:
    """First and last line of the statement inside a function that holds this line.

    A compound statement counts up to its body. None outside functions, and in a function's head:
    there code runs, or defaults are set, when the module is imported.
    """
    best = None
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    inside = [f for f in ast.walk(ast.parse(source)) if isinstance(f, functions)]
    for function in inside:
        for node in (n for top in function.body for n in ast.walk(top)):
            if isinstance(node, ast.stmt) and node.lineno <= line <= node.end_lineno:
                body = getattr(node, "body", None)
                end = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno
                if line <= end and (best is None or node.lineno >= best[0]):
                    best = None if isinstance(node, functions) else (node.lineno, end)
    return best


def tests_for(mutant: Mutant, original: str, maps: dict) -> tuple[dict[str, float], list[str]]:
    """The tests that run the changed statement, with their seconds; the files to run after them.

    Where the statement runs at import only, these are the tests of the module, and after them those
    of all signatures. At most a minute of them is taken, the quickest first, but all of the file
    that is named after the module.
    """
    span, hit, files = statement(original, mutant.line), {}, {}
    own = f"lib/tests/test_{Path(mutant.file).stem}.py"
    first = (own,) if span else (own, FOR_ALL)
    for test_file, found in maps.items():
        lines = found["lines"].get(mutant.file, {})
        touching = {test for tests in lines.values() for test in tests}
        tests = touching
        if span:
            tests = {t for n in range(span[0], span[1] + 1) for t in lines.get(str(n), ())}
        hit |= {test: found["seconds"][test] for test in tests}
        if touching or test_file == Path(own).name:
            files[f"lib/tests/{test_file}"] = sum(found["seconds"].values())
    exact, spent = {}, 0.0
    for test in sorted(hit, key=lambda test: (not test.startswith(first), hit[test])):
        spent += hit[test]
        if spent < ENOUGH or test.startswith(first):
            exact[test] = hit[test]
    after = [own] if own in files else []
    if not exact:
        after = sorted(files, key=files.get)
    return exact, after


def verdict(mutant: Mutant, original: str, tree: Path, maps: dict, work: Path) -> str:
    """caught, timed out or survived."""
    exact, whole = tests_for(mutant, original, maps)
    own = f"lib/tests/test_{Path(mutant.file).stem}.py"  # a file alone is quickly collected
    path, log = tree / "lib/unrolled" / mutant.file, work / "mutant.log"
    put(path, mutant.source)
    try:
        usual = LIMIT + FACTOR * sum(exact.values())
        parts = [[t for t in exact if t.startswith(own) == first] for first in (True, False)]
        for tests, limit in (*((part, usual) for part in parts), (whole, LIMIT_OF_A_FILE)):
            code = in_a_child(partial(run_tests, tree, tests), log, limit) if tests else 0
            if code in (NO_TESTS, BROKEN):
                raise RuntimeError(log.read_text("utf8")[-2000:])
            if code != 0:
                return "timed out" if code is None else "caught"
        return "survived" if exact or whole else "no test"
    finally:
        put(path, original)


def put(path: Path, source: str) -> None:
    """Write a module, with a date of its own: no compiled one of before is taken for it."""
    path.write_text(source, "utf8")
    date = next(_DATES)
    os.utime(path, (date, date))


# ---- the library -----------------------------------------------------------------------------


def of_the_library(size: int, seed: int, only: str, work: Path) -> list[dict]:
    """Run the tests on a sample of the library's mutants; what each was and what became of it."""
    for heavy in ("torch", "scipy.stats", "pytest", "regex", "coverage"):
        importlib.import_module(heavy)
    tree, kept = copy_of_the_tree(work), work / "verdicts.json"
    maps = coverage_map(tree, work)
    paths = [p for name in LIBRARY for p in (tree / "lib/unrolled" / name).rglob("*.py")]
    sources = {str(p.relative_to(tree / "lib/unrolled")): p.read_text("utf8") for p in paths}
    sources = {file: sources[file] for file in sorted(sources) if only in file}
    chosen = sample(sources, size, seed)
    known = json.loads(kept.read_text("utf8")) if kept.exists() else {}
    for i, mutant in enumerate(chosen, 1):
        if known.get(mutant.name, {}).get("verdict") not in ("caught", "timed out"):
            start = time.monotonic()
            told = verdict(mutant, sources[mutant.file], tree, maps, work)
            known[mutant.name] = asdict(mutant) | {"verdict": told}
            kept.write_text(json.dumps(known), "utf8")
            took = f"{time.monotonic() - start:.0f} s"
            print(f"{i}/{len(chosen)} {told} {mutant.file}:{mutant.line} {took}", flush=True)
    return [known[mutant.name] for mutant in chosen]


# ---- the exercises ---------------------------------------------------------------------------


def hand_in(exercise, source: str) -> int:
    """1 where the exercise's tests refuse the answer that source defines, 0 where they pass it."""
    from unrolled_book.check import examine

    namespace = dict(exercise.names)
    exec(compile(source, "<mutant>", "exec"), namespace)
    return int(examine(exercise, namespace[exercise.name], seed=0).state == "failed")


def of_the_exercises(size: int, seed: int, only: str, work: Path) -> list[dict]:
    """Hand in mutants of the solutions as answers; what each was and what its tests said."""
    from unrolled_book import exercises

    names = [f"{slug}/{name}" for slug, inside in exercises.chapters().items() for name in inside]
    known = {name: exercises.load(name) for name in names if only in name}
    sources = {name: exercise.solution_source + "\n" for name, exercise in known.items()}
    found = []
    for mutant in sample(sources, size, seed):
        answer = partial(hand_in, known[mutant.file], mutant.source)
        code = in_a_child(answer, work / "mutant.log", LIMIT)
        told = {0: "survived", None: "timed out"}.get(code, "caught")
        found.append(asdict(mutant) | {"verdict": told})
    return found


# ---- what came of it -------------------------------------------------------------------------


def report(found: list[dict]) -> str:
    """The table by file, the score, and the survivors."""
    verdicts = ("caught", "timed out", "survived", "no test")
    counts = Counter((one["file"], one["verdict"]) for one in found)
    rows = [f"{'file':36}{'mutants':>9}" + "".join(f"{name:>11}" for name in verdicts)]
    for file in sorted({one["file"] for one in found}):
        numbers = [counts[file, name] for name in verdicts]
        rows.append(f"{file:36}{sum(numbers):9}" + "".join(f"{n:11}" for n in numbers))
    alive = [one for one in found if one["verdict"] in ("survived", "no test")]
    rows.append(f"caught: {len(found) - len(alive)} of {len(found)}")
    for one in sorted(alive, key=lambda one: (one["file"], one["line"])):
        rows += [f"{one['file']}:{one['line']} {one['operator']}"]
        rows += [f"  - {one['before']}", f"  + {one['after']}"]
    return "\n".join(rows)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--of", choices=("library", "exercises"), default="library")
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="part of a file's path")
    parser.add_argument("--work", type=Path, default=ROOT / "_build/mutants")
    asked = parser.parse_args(arguments)
    if not hasattr(os, "fork"):
        parser.error("each mutant runs in a fork, which Windows has not; use the container")
    asked.work.mkdir(parents=True, exist_ok=True)
    run = of_the_library if asked.of == "library" else of_the_exercises
    print(report(run(asked.sample, asked.seed, asked.only, asked.work)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
