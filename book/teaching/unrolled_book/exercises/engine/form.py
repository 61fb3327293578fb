"""The one-file form of an exercise: a plain Python module, read in cells marked `# %%`.

    r\"""Title on the first line

    The statement, in Markdown.
    \"""
    import numpy as np
    from unrolled_book.exercises.engine import call, swap

    kind, level, points = "code", 1, 2      # code | paper | experiment; level 1–3

    # %% starter                            (optional: made from the solution where it is missing)
    # %% solution                           the function, class or value named like the file
    # %% explanation                        explanation = r\"""why, in Markdown\"""
    # %% use                                def use(answer, *args): …    (optional)
    # %% tests                              def tests(rng): yield call(…)
    # %% oracle                             def oracle(*args): the answer, in a second way
    # %% wrong                              wrong = {"what is wrong": a wrong answer, …}

The answer is a callable (tests yield its calls) or a value (of a paper exercise, say; then there
are no tests and `tolerance` may be set). Where the answer is a tuple, `outputs` names its parts.
`judge(output, *args)` returns a complaint or None where the right answer is not unique.

`use(answer, *args)` says how the answer is used where a plain call would not do, and returns only
what can cross as JSON (see `wire`). Its cell runs beside the student's answer, away from the rest
of the file: it sees the file's imports (but for those from `unrolled_book`) and itself. Where
its arguments tell the answer, or it judges what the answer returns, the cell says `apart = True`:
the grader then runs it in a process of its own, and what it calls the answer with must cross as
JSON, but for functions and random generators. What the answer must not build is forbidden by
`memory_mb = 256` there, its limit in the sandbox, and a test that cannot do with it; what `use`
itself measures beside an answer, the answer can prevent. The call that the reader would write is
`show(*args)`, a function in the cell of the tests, or the plain call where `show = True`; without
`show` none is shown.

What the file imports above its first cell, the answer may import too. A package of the book or
torch, which only the tests need, is imported in their functions: what is not there cannot answer.

A wrong answer is a change of the solution's text, `swap("+=", "=")`; or a function or value of its
own; or, where the answer is a dict, the entries that differ from the solution's. Wrong answers
explain themselves: who computes what a wrong answer computes is told its key, so a key is a clause
such as "the maximum is not subtracted first".

The oracle guards the solution, and only the tests of the book read it: neither the notebook nor
`check` does. It takes a test's arguments (none where the answer is a value; `use` stays out of it)
and finds the answer independently: automatic or finite differences, enumeration, a literal loop,
another library, imported inside the function. It sees the file's imports and nothing else, so that
it cannot call the solution. `oracle_tolerance` may stand in its cell, with the reason for it; where
there is a `judge`, the oracle's answer has to please the judge.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np

from unrolled_book.exercises.engine.swap import Swap

KINDS = ("code", "paper", "experiment")
VALUE_TOLERANCE = 5e-3  # a value worked out by hand is given to about three digits
CALL_TOLERANCE = 1e-9
ORACLE_TOLERANCE = 1e-6
OPTIONAL = ("tolerance", "outputs", "tests", "show", "judge", "oracle", "oracle_tolerance")


@dataclass(frozen=True)
class Call:
    """One test: the arguments, and how the output is judged."""

    args: tuple[Any, ...]
    hint: str = ""
    visible: bool = False
    tolerance: float = CALL_TOLERANCE


def call(
    *args: Any, hint: str = "", visible: bool = False, tolerance: float = CALL_TOLERANCE
) -> Call:
    """A test with these arguments. visible: shown as an example beside the statement."""
    return Call(args, hint, visible, tolerance)


@dataclass(frozen=True)
class Exercise:
    """An exercise read from its file. All texts are Markdown or Python source."""

    chapter: str  # slug of the folder, "c07_backprop"
    name: str
    title: str
    statement: str
    kind: str
    level: int
    points: int
    starter: str
    solution: Any  # the object itself
    solution_source: str
    explanation: str
    wrong: dict[str, Any]
    is_value: bool
    path: Path
    source: str  # the text of the whole file
    names: dict[str, Any] = field(repr=False)  # everything that the file defines
    tolerance: float = VALUE_TOLERANCE
    outputs: tuple[str, ...] = ()
    tests: Callable[[np.random.Generator], Iterator[Call]] | None = None
    use: Callable[..., Any] | None = None
    use_source: str = ""  # all that a sandbox has to run besides the answer
    show: Callable[..., str] | bool = False
    judge: Callable[..., str | None] | None = None
    oracle: Callable[..., Any] | None = None
    oracle_tolerance: float = ORACLE_TOLERANCE

    @property
    def imports(self) -> str:
        """The imports above the file's first cell, but for the engine's own, as source."""
        return _imports(_cells(self.source)[0])

    def calls(self, seed: int) -> list[Call]:
        """The tests for this seed: fresh arguments, the same for the same seed.

        Raises ValueError, naming the exercise, where `tests` yields no `Call` or something else.
        """
        if self.is_value:
            return [Call((), tolerance=self.tolerance)]
        calls = list(self.tests(np.random.default_rng(seed)) or ())
        if not calls or not all(isinstance(each, Call) for each in calls):
            kinds = ", ".join({type(each).__name__ for each in calls}) or "nothing"
            raise ValueError(
                f"exercise {self.chapter}/{self.name}: `tests(rng)` yields call(…), got {kinds}"
            )
        return calls

    @staticmethod
    def read(path: str | Path) -> Exercise:
        """Run and read the file of an exercise.

        ValueError names the file and what it lacks, or where running it raised an error.
        """
        path = Path(path).resolve()
        spec = importlib.util.spec_from_file_location(f"{path.parent.name}.{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # where a dataclass in the file looks for itself
        try:
            # Not exec_module: what it caches is stale for a file saved twice within a second.
            exec(spec.loader.source_to_code(path.read_bytes(), str(path)), vars(module))
        except Exception as error:
            raise ValueError(_does_not_run(path, error)) from error
        return _read(path, vars(module))


def _does_not_run(path: Path, error: Exception) -> str:
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    if isinstance(error, SyntaxError) and error.filename == str(path):
        lines.append(error.lineno)
    where = f"{path}, line {lines[-1]}" if lines else str(path)
    says = error.msg if isinstance(error, SyntaxError) else error
    return (
        f"exercise {path.parent.name}/{path.stem} cannot be read: {type(error).__name__}: {says}"
        f" ({where}); the file is a Python module that runs from top to bottom"
    )


def _read(path: Path, found: dict[str, Any]) -> Exercise:
    chapter, name = path.parent.name, path.stem
    source = path.read_text(encoding="utf-8")

    def need(ok: Any, what: str) -> None:
        if not ok:
            raise ValueError(f"exercise {chapter}/{name}: {what}")

    title, _, statement = inspect.cleandoc(found["__doc__"] or "").partition("\n")
    need(title and statement.strip(), "the docstring holds a title, an empty line, a statement")
    need(found.get("kind") in KINDS, f"kind is one of {KINDS}, got {found.get('kind')!r}")
    need(found.get("level") in (1, 2, 3), f"level is 1, 2 or 3, got {found.get('level')!r}")
    points = found.get("points")
    need(isinstance(points, int) and points > 0, f"points is a whole number, got {points!r}")
    need(name in found, f"nothing is named {name!r}, like the file")
    head, cells = _cells(source)
    sections = dict(cells)
    need(len(sections) == len(cells), f"a cell stands once, got {[cell for cell, _ in cells]}")
    need("solution" in sections, "there is no cell '# %% solution'")
    need(isinstance(found.get("wrong"), dict), "`wrong` is a dict: what is wrong -> wrong answer")
    need(found.get("explanation"), "`explanation` is missing")
    solution = found[name]
    is_value = not callable(solution)
    need(is_value or "tests" in found, "`tests(rng)` is missing")
    _check_oracle(found, sections, need)
    need(
        not {"use"} & (found.keys() | sections) or "def use(" in sections.get("use", ""),
        "how an answer is used is `def use(answer, *args)` in a cell '# %% use'",
    )
    for package, names in _of_packages(head).items():
        answering = "".join(sections.get(cell, "") for cell in ("starter", "solution", "use"))
        need(
            any(re.search(rf"\b{re.escape(name)}\b", answering) for name in names),
            f"{package} is imported above the first cell, so an answer may use it; what only the "
            "tests need is imported in their cell",
        )
    use_source = f"{_imports(head)}\n\n{sections['use']}\n" if "use" in found else ""
    starter = found.get("starter")
    return Exercise(
        chapter=chapter,
        name=name,
        title=title.strip(),
        statement=statement.strip(),
        kind=found["kind"],
        level=found["level"],
        points=points,
        starter=dedent(starter).strip() if starter else _starter(name, solution, sections),
        solution=solution,
        solution_source=sections["solution"],
        explanation=dedent(found["explanation"]).strip(),
        wrong=_wrong_answers(name, found, sections["solution"], need),
        is_value=is_value,
        path=path,
        source=source,
        names=found,
        use=_run(use_source)["use"] if use_source else None,
        use_source=use_source,
        **{part: found[part] for part in OPTIONAL if part in found},
    )


def _check_oracle(found: dict[str, Any], sections: dict[str, str], need: Callable) -> None:
    present = "oracle" in found or "oracle" in sections
    need(
        not present or "def oracle(" in sections.get("oracle", ""),
        "the answer in a second way is `def oracle(*args)` in a cell '# %% oracle'",
    )
    tolerance = found.get("oracle_tolerance", ORACLE_TOLERANCE)
    need(
        isinstance(tolerance, float) and 0 < tolerance < 1,
        f"oracle_tolerance lies between 0 and 1, got {tolerance!r}",
    )


def _cells(source: str) -> tuple[str, list[tuple[str, str]]]:
    """What stands above the first cell, and the cells by name."""
    head, *parts = re.split(r"(?m)^# %% *(\w+).*$\n?", source)
    return head, list(zip(parts[::2], (p.strip() for p in parts[1::2]), strict=True))


def _of_packages(head: str) -> dict[str, list[str]]:
    """The modules of the book and of torch that are imported there, and the names they give."""
    found: dict[str, list[str]] = {}
    for node in ast.parse(head).body:
        for alias in node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else ():
            module = getattr(node, "module", None) or alias.name
            if module.partition(".")[0] in ("unrolled", "torch"):
                given = (alias.asname or alias.name).partition(".")[0]
                found.setdefault(module, []).append(given)
    return found


def _imports(head: str) -> str:
    """The imports above the first cell, but for the engine's own."""
    found = (n for n in ast.parse(head).body if isinstance(n, (ast.Import, ast.ImportFrom)))
    lines = [ast.unparse(node) for node in found]
    return "\n".join(line for line in lines if "unrolled_book" not in line)


def _run(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(source, "<use>", "exec"), names)
    return names


def _wrong_answers(name: str, found: dict[str, Any], source: str, need: Callable) -> dict[str, Any]:
    """The wrong answers themselves: changes of the solution's text made, dicts completed."""
    answers, right = {}, found[name]
    for mistake, answer in found["wrong"].items():
        if isinstance(answer, Swap):
            try:
                answer = answer.answer(name, source, found)
            except (ValueError, SyntaxError) as error:
                need(False, f"wrong[{mistake!r}]: {error}")
        if isinstance(right, dict) and isinstance(answer, dict):
            need(answer.keys() <= right.keys(), f"wrong[{mistake!r}] has other keys")
            answer = right | answer
        answers[mistake] = answer
    return answers


def _starter(name: str, solution: Any, sections: dict[str, str]) -> str:
    """The solution with its answer taken out: signature and docstring, or the keys of a dict."""
    if isinstance(solution, dict):
        return _starter_of_dict(name, [_literal(key) for key in solution])
    if not callable(solution):
        return f"{name} = ..."
    source = sections["solution"].splitlines()
    for node in ast.parse(sections["solution"]).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            first = node.body[0]
            if source[first.lineno - 1][: first.col_offset].strip():
                raise ValueError(f"exercise {name}: the body of `def` begins on a line of its own")
            documented = ast.get_docstring(node) is not None
            last = first.end_lineno if documented else _header_end(first, source)
            lines = source[node.lineno - 1 : last]
            return "\n".join([*lines, "    return ...  # your code here"])
    raise ValueError(f"exercise {name}: write `starter`; it is made from a `def` or a value only")


def _starter_of_dict(name: str, keys: list[str]) -> str:
    """Formatted as ruff would, since the starter becomes a cell of the notebook."""
    line = f"{name} = {{{', '.join(f'{key}: ...' for key in keys)}}}"
    if len(line) <= 88:  # the width of the chapters, see chapters/ruff.toml
        return line
    return "\n".join([f"{name} = {{", *(f"    {key}: ...," for key in keys), "}"])


def _literal(key: Any) -> str:
    return json.dumps(key, ensure_ascii=False) if isinstance(key, str) else repr(key)


def _header_end(first: ast.stmt, source: list[str]) -> int:
    """The number of the last line before a function's first statement and the comments above it."""
    end = first.lineno - 1
    while not source[end - 1].strip() or source[end - 1].lstrip().startswith("#"):
        end -= 1
    return end
