"""A plugin of pytest: what each chapter costs in CPU seconds, and a budget that none may pass.

    python -m pytest --nbval … -p book.tools.verify.cpu --cpu-budget 40

CPU seconds are the user and system time of the chapter's kernel and of the processes that it
starts, each when it ends; what else the machine does counts for nothing. A slower machine may take
longer: before the first chapter a small piece of work is timed, and all seconds are divided by how
much longer that took than on the machine that the budget was made for. Two machines differ
in more than one number says, so a chapter fails when it is over its budget by more than MARGIN.
The run ends with the chapters that cost most; of one that fails, the slowest cells are named.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections import defaultdict
from collections.abc import Generator, Mapping
from typing import NamedTuple

import psutil
import pytest

WORK = 0.032  # seconds that `_work` takes on the machine that the budget was made for
MARGIN = 1.2
SHOWN = 5  # chapters at the end of a run, and cells of a chapter over its budget


class Cost(NamedTuple):
    """What one cell took."""

    cell: str
    seconds: float
    line: str  # the first of its code


def cpu_seconds(pid: int) -> float:
    """User and system seconds of a process and of those that it started and that have ended."""
    return sum(psutil.Process(pid).cpu_times()[:4])


@functools.cache
def slowness() -> float:
    """How many times longer this machine computes than the budget's; 1 for a faster one."""
    times = []
    for _ in range(5):
        begin = time.process_time()
        _work()
        times.append(time.process_time() - begin)
    return max(1.0, statistics.median(times) / WORK)


def _work() -> None:
    """A loop of Python, since the chapters' many small operations wait for Python most of all."""
    counts: dict[int, float] = {}
    for i in range(400_000):
        counts[i % 999] = counts.get(i % 999, 0.0) + 0.5 * i


def summary(costs: Mapping[str, list[Cost]], budget: float) -> tuple[list[str], list[str]]:
    """What to print of chapter -> its cells' costs: the slowest chapters; those that fail."""
    totals = {chapter: sum(cost.seconds for cost in cells) for chapter, cells in costs.items()}
    by_total = sorted(totals, key=totals.__getitem__, reverse=True)
    slowest = [f"{totals[chapter]:6.1f}  {chapter}" for chapter in by_total[:SHOWN]]
    over = []
    for chapter in by_total:
        if totals[chapter] > MARGIN * budget:
            took = f"{chapter} took {totals[chapter]:.1f} CPU seconds"
            over.append(f"{took}; its budget is {budget:g}. Its slowest cells:")
            cells = sorted(costs[chapter], key=lambda cost: cost.seconds, reverse=True)
            over += [f"{cost.seconds:6.1f}  {cost.cell}: {cost.line}" for cost in cells[:SHOWN]]
    return slowest, over


# ---- hooks of pytest ---------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of the budget."""
    parser.addoption("--cpu-budget", type=float, default=float("inf"), help="CPU seconds a chapter")


def pytest_configure(config: pytest.Config) -> None:
    """Register what collects the costs: where the run is directed, not in its workers."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Costs(config.getoption("--cpu-budget")))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Note in the cell's report what its kernel's seconds grew by."""
    kernel, slower = item.parent.kernel, slowness()
    begin = cpu_seconds(kernel.km.provisioner.pid) if kernel.is_alive() else 0.0
    try:
        return (yield)
    finally:
        if kernel.is_alive():
            seconds = (cpu_seconds(kernel.km.provisioner.pid) - begin) / slower
            line = next(iter(item.cell.source.splitlines()), "")
            item.user_properties.append(("cost", (item.name, seconds, line)))


class _Costs:
    """Collects the cells' costs from their reports, also from those of xdist's workers."""

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self.costs: defaultdict[str, list[Cost]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            for name, value in report.user_properties:
                if name == "cost":
                    self.costs[report.nodeid.partition("::")[0]].append(Cost(*value))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if summary(self.costs, self.budget)[1] and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        slowest, over = summary(self.costs, self.budget)
        terminalreporter.section("CPU seconds of the slowest chapters")
        terminalreporter.write_line("\n".join(slowest))
        if over:
            terminalreporter.section("chapters over their budget", red=True)
            terminalreporter.write_line("\n".join(over))
