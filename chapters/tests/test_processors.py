"""The table of processors: what a row switches, when it is skipped, what it compares."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from book.tools.notebooks import ROOT
from book.tools.verify import processors
from book.tools.verify.processors import PROCESSORS, Processor, differing, others, row, switches

NAMES = [processor.name for processor in PROCESSORS]
EVERYTHING = dict.fromkeys((processor.needs for processor in PROCESSORS), True)


def test_the_rows_cover_every_switch_with_one_thread_and_with_two():
    assert {"Nehalem", "Sandybridge", "Haswell", "Zen", "SkylakeX"} <= set(NAMES)
    for column in ("torch", "numpy_without"):
        pairs = {(getattr(p, column), p.threads) for p in PROCESSORS if p.name}
        assert {one for one, _ in pairs} == {getattr(p, column) for p in PROCESSORS if p.name}
        older = {pair for pair in pairs if pair[0] not in ("avx512", ())}
        assert {threads for _, threads in older} == {1, 2}
    assert {p.torch for p in PROCESSORS} >= {"default", "avx2", "avx512"}


def test_a_switch_that_a_row_leaves_alone_is_not_set():
    bare = Processor("", "", (), "", "", "", 2)
    assert switches(bare) == {f"{n}_NUM_THREADS": "2" for n in ("OMP", "MKL", "OPENBLAS")}


def test_numpy_is_asked_to_leave_out_only_what_it_has():
    for processor in PROCESSORS:
        left_out = switches(processor).get("NPY_DISABLE_CPU_FEATURES", "").split()
        assert set(left_out) <= set(processors.__cpu_dispatch__)
        assert all(processors.__cpu_features__[name] for name in left_out)


def test_a_row_whose_instructions_are_missing_is_skipped_with_a_sentence():
    newest = PROCESSORS[NAMES.index("SkylakeX")]
    assert processors.lacking(newest, EVERYTHING) == ""
    lacks = EVERYTHING | {"AVX512_SKX": False}
    assert processors.lacking(newest, lacks).endswith("this machine has no AVX512_SKX")
    assert all(processors.lacking(p, {}) for p in PROCESSORS if p.name), "an ARM processor"
    assert not processors.lacking(PROCESSORS[-1], {})


@pytest.mark.parametrize("own", ["SkylakeX", "Haswell", "Nehalem", "Neoverse"])
def test_the_quick_form_takes_two_kernels_that_differ_from_the_machines_own(own, monkeypatch):
    """OpenBLAS runs its kernel for Haswell where it is asked for Zen's."""
    monkeypatch.setattr(processors, "lacking", lambda processor: "")
    found = others(lambda switched: switched.get("OPENBLAS_CORETYPE", own))
    assert len({own, *(processor.name for processor in found)}) == 3


def test_a_machine_that_can_be_no_other_processor_compares_nothing(monkeypatch):
    monkeypatch.setattr(processors, "lacking", lambda processor: "skipped")
    assert others(lambda switched: "Neoverse") == []


def test_what_is_chosen_is_what_openblas_runs():
    for processor in others():
        assert processors.kernel(switches(processor)) != processors.kernel({})


def test_a_text_that_differs_is_named_with_its_line():
    wanted = {"a": "one\ntwo", "b": "same", "gone": "x"}
    lines = differing({"a": "one\n2", "b": "same", "new": ""}, wanted)
    assert lines[0] == "a:\n  here  two\n  there 2"
    assert [line.partition(":")[0] for line in lines] == ["a", "gone", "new"]


def test_a_row_tells_what_failed_in_it(capsys):
    bare = Processor("", "", (), "", "", "", 1)
    said = row(bare, [lambda there: "", lambda there: "FAILED: coursework"])
    assert said.startswith("as it is, 1 thread(s), OpenBLAS's kernel ")
    assert said.endswith(": FAILED: coursework")
    assert processors.run([bare], [lambda there: "FAILED: tests"]) == 1
    assert processors.run([bare], [lambda there: ""], at_once=2) == 0
    capsys.readouterr()


def test_what_compares_stored_with_computed_is_marked():
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
    found = subprocess.run(
        [*command, "-m", "stored and not trains", *processors.marked()],
        cwd=ROOT, env=os.environ, capture_output=True, encoding="utf8",
    ).stdout  # fmt: skip
    for name in (
        "test_what_a_tool_writes_is_up_to_date[landing]",
        "09b_neighbours-exercises_are_in_step_with_their_files]",
        "test_an_example_does_not_show_the_last_digits[c09b_neighbours/fit_lags]",
        "test_a_kneser_ney_row_of_the_ladder_comes_out_again",
    ):
        assert name in found, name
    assert "is_light" not in found
    assert "test_c10_a_network" not in found
