"""The budget of CPU seconds: what counts, what fails, and what is then said."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time

import nbformat
import pytest
from book.tools.notebooks import ROOT
from book.tools.verify import kernels
from book.tools.verify.cpu import MARGIN, WORK, Cost, cpu_seconds, slowness, summary
from nbformat.v4 import new_code_cell, new_notebook

COSTS = {
    "a.ipynb": [Cost("Cell 0", 1.0, "import torch"), Cost("Cell 1", 50.0, "# The measurement")],
    "b.ipynb": [Cost("Cell 0", 30.0, "import torch"), Cost("Cell 1", 10.0, "draw()")],
}


def test_the_slowest_chapters_are_listed_and_one_over_the_budget_with_its_slowest_cells():
    slowest, over = summary(COSTS, 40)
    assert [line.split() for line in slowest] == [["51.0", "a.ipynb"], ["40.0", "b.ipynb"]]
    assert over[0] == "a.ipynb took 51.0 CPU seconds; its budget is 40. Its slowest cells:"
    assert [line.strip() for line in over[1:]] == [
        "50.0  Cell 1: # The measurement",
        "1.0  Cell 0: import torch",
    ]


def test_measuring_is_not_exact_so_a_chapter_fails_beyond_a_margin():
    cells = [Cost("Cell 0", 40.0, "x = 1")]
    assert not summary({"a.ipynb": cells}, 40 / (0.99 * MARGIN))[1]
    assert summary({"a.ipynb": cells}, 40 / (1.01 * MARGIN))[1]


def test_a_machine_is_compared_with_the_one_of_the_budget(monkeypatch):
    measure = slowness.__wrapped__
    monkeypatch.setattr("book.tools.verify.cpu._work", lambda: None)
    assert measure() == 1.0, "a faster machine's seconds count in full"
    monkeypatch.undo()
    monkeypatch.setattr("book.tools.verify.cpu.WORK", WORK / 100)
    assert measure() > 20


def test_the_seconds_of_a_child_count_when_it_has_ended():
    program = """
        import subprocess, sys
        busy = "import time\\nwhile time.process_time() < 0.4: pass"
        subprocess.run([sys.executable, "-c", busy])
        print(flush=True)
        input()
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        seconds = cpu_seconds(process.pid)
        process.communicate(b"\n")
    assert 0.3 < seconds < 4, "the child computes for 0.4 seconds, counted in hundredths"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run, in a worker of xdist, of two chapters: one computes, the other waits as long."""
    folder = tmp_path_factory.mktemp("chapters")
    busy = "# The measurement\nimport time\nfrom IPython.display import clear_output\n"
    busy += "for _ in range(4000):  # more than a socket keeps\n    clear_output()\n"
    busy += "end = time.process_time() + {slow}\n"
    busy += "while time.process_time() < end: pass"
    cells = {"busy": busy.format(slow=slowness()), "waits": "import time\ntime.sleep(1)"}
    speaks = "import json\nfrom ipykernel.connect import get_connection_info\n"
    speaks += 'assert json.loads(get_connection_info())["transport"] == "ipc"'
    for name, source in cells.items():
        notebook = new_notebook(cells=[new_code_cell(speaks), new_code_cell(source)])
        nbformat.write(notebook, folder / f"{name}.ipynb")
    command = [sys.executable, "-m", "pytest", "-q", "--nbval", "--nbval-current-env", "-n", "1"]
    command += ["--dist", "loadscope", "-p", "book.tools.verify.cpu", "--cpu-budget=0.3"]
    command += ["-p", "book.tools.verify.kernels"]
    command += ["-p", "no:cacheprovider", "--rootdir", str(ROOT), str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf8")


def test_a_chapter_over_its_budget_fails_the_run_and_its_cell_is_named(run):
    assert run.returncode == 1, run.stdout + run.stderr
    said = run.stdout.partition("chapters over their budget")[2]
    assert "busy.ipynb took" in said
    assert "Cell 1: # The measurement" in said.splitlines()[2]


def test_waiting_costs_nothing_no_kernel_waits_for_a_port_and_no_message_is_lost(run):
    assert "4 passed" in run.stdout
    assert "waits.ipynb took" not in run.stdout


def test_a_kernel_leads_its_group_and_ends_with_the_process_that_forks(tmp_path):
    """Else a signal to it would reach pytest, and a run that is killed would leave it behind."""
    nursery = kernels.Nursery()
    nursery.preloaded = ()
    command = ["python", "-m", "ipykernel_launcher", "-f", str(tmp_path / "connection.json")]
    kernel = nursery.launch(command, cwd=str(tmp_path), env=dict(os.environ))
    assert os.getpgid(kernel.pid) == kernel.pid
    while not (tmp_path / "connection.json").exists():
        assert kernel.poll() is None
        time.sleep(0.1)
    nursery.process.kill()
    nursery.close()
    kernel.wait(60)
    assert kernel.poll() == 0
