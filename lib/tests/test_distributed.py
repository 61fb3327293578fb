"""Two processes train as one, and what happens when one of them is killed."""

from __future__ import annotations

import atexit
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.models.recurrent_lm import RecurrentCache
from unrolled.training import checkpoint as checkpoints
from unrolled.training import distributed
from unrolled.training.batch_iterator import Batch
from unrolled.training.distributed import method_for
from unrolled.training.fit import FitConfig, cross_entropy, fit, per_target

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
needs_two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
# A fork is there at once, but must not touch a GPU that the parent has used.
METHOD = "spawn" if torch.cuda.is_available() else "fork"
VOCAB, B, T, TIMEOUT = 7, 5, 3, 600.0


def launch(function, *arguments, n=2):
    return distributed.launch(function, n, *arguments, timeout=TIMEOUT, method=METHOD)


def bigram(dropout=0.0, seed=1):
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        return torch.nn.Sequential(
            torch.nn.Embedding(VOCAB, 3), torch.nn.Dropout(dropout), torch.nn.Linear(3, VOCAB)
        )


class Running(torch.nn.Module):
    """Logits from the running sum of embeddings, which is carried."""

    def __init__(self):
        super().__init__()
        self.body = bigram()

    def new_cache(self):
        return RecurrentCache()

    def forward(self, tokens, *, cache):
        x = self.body[0](tokens).cumsum(1)
        x = x if cache.state is None else x + cache.state[0][:, None]
        cache.state = (x[:, -1],)
        return self.body[2](x)


def data(n, kind="plain"):
    """(inputs, targets), with weights that differ much between rows, or with 1 to B rows."""
    rng = np.random.default_rng(0)
    for i in range(n):
        rows = 1 + i % B if kind == "uneven" else B
        tokens = rng.integers(VOCAB, size=(rows, T))
        batch = tokens, (tokens + rng.integers(2, size=tokens.shape)) % VOCAB
        weights = rng.random((rows, T)) * np.arange(rows)[:, None] + 0.01
        yield (*batch, weights) if kind == "weighted" else batch


def trained(case, checkpoint=None):
    """(losses, norms, validation losses, parameters, steps) of one of the cases."""
    options = {"n_steps": 12, "lr": 0.1, "eval_every": 4} | case.get("config", {})
    model = Running() if options.get("carry_state") else bigram(case.get("dropout", 0.0))
    batches, valid = (list(data(n, case.get("kind", "plain"))) for n in (6, 4))
    result = fit(
        model, batches, FitConfig(**options), valid=case.get("valid", valid), checkpoint=checkpoint
    )
    h = result.history
    parameters = torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()
    return h.train_loss, h.grad_norm, h.valid_loss, parameters, h.step


def mean_weight(model):
    """A validation that is a function; only process 0 may be asked."""
    assert os.environ["RANK"] == "0"
    return float(model[0].weight.detach().square().mean())


CASES = {
    "plain": {},
    "weighted": {"kind": "weighted"},
    "uneven": {"kind": "uneven"},  # with fewer rows than processes
    "accumulated": {"kind": "weighted", "config": {"grad_accum_steps": 3, "weight_decay": 0.1}},
    "sgd": {"config": {"optimizer": "sgd", "momentum": 0.9, "grad_clip": None}},
    "carried": {"config": {"carry_state": True}},
    "function": {"valid": mean_weight},
}


@pytest.fixture(scope="module", autouse=True)
def _warm():
    """What a first fit imports, a fork has then already."""
    trained({})


def all_cases():
    return {name: trained(case) for name, case in CASES.items()}


@pytest.fixture(scope="module")
def in_two():
    return launch(all_cases)


@pytest.mark.parametrize("name", CASES)
def test_two_processes_train_as_one(in_two, name, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    alone = trained(CASES[name])
    for ours in in_two:
        for a, b in zip(ours[name], alone, strict=True):
            assert a == pytest.approx(b, abs=1e-5)
    assert len(alone[2]) == 3
    assert min(alone[0]) < alone[0][0] - 0.1  # there was something to learn


def test_the_processes_end_with_the_same_bits(in_two):
    assert in_two[0] == in_two[1]


def test_three_processes_train_as_one_too():
    alone = trained(CASES["weighted"])
    for ours in launch(trained, CASES["weighted"], n=3):
        assert ours[0] == pytest.approx(alone[0], abs=1e-5)
        assert ours[3] == pytest.approx(alone[3], abs=1e-5)


@given(st.integers(0, 13), st.integers(1, 7), st.booleans())
@settings(max_examples=40, deadline=None)
def test_shares_are_even_and_together_the_batch(n_rows, n_processes, weighted):
    rows = torch.arange(n_rows)
    batch = ((rows, rows[:, None] * 2), rows[:, None] + 1, rows[:, None] / 2 if weighted else None)
    total = float(batch[2].sum()) if weighted else n_rows
    shares = [
        distributed.shard(Batch(*batch, total), rank, n_processes) for rank in range(n_processes)
    ]
    assert torch.equal(torch.cat([s.inputs[0] for s in shares]), rows)
    assert torch.equal(torch.cat([s.inputs[1] for s in shares]), batch[0][1])
    assert torch.equal(torch.cat([s.targets for s in shares]), batch[1])
    assert not weighted or torch.equal(torch.cat([s.weights for s in shares]), batch[2])
    sizes = [len(s.targets) for s in shares]
    assert max(sizes) - min(sizes) <= 1
    assert sum(float(s.weight) for s in shares) == pytest.approx(total)


def test_inputs_without_the_targets_rows_cannot_be_shared():
    x = torch.zeros(4, 3)
    for inputs, targets in ((x.T, x), (x[0, 0], x), (x, x[0, 0])):
        with pytest.raises(ValueError, match=r"rows in their first axis, got \("):
            distributed.shard(Batch((inputs,), targets, None, 4), 0, 2)


# What each process is given


def other_model():
    return trained({"dropout": 0.0, "config": {"lr": 0.1 + _rank()}})


def other_batches():
    model, batches = bigram(), [(np.full((B, T), _rank()), np.zeros((B, T), int))]
    fit(model, batches, FitConfig(n_steps=2, lr=0.1))


def other_start():
    model = bigram(seed=_rank())
    fit(model, list(data(3)), FitConfig(n_steps=1, lr=1e-9))
    return model[0].weight.tolist()


def a_mistake():
    if _rank() == 1:
        raise ZeroDivisionError("of process 1")
    trained({})


def _rank():
    return int(os.environ["RANK"])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (other_model, r"ValueError: process 1 was given something else than process 0: lr 1\.1, n"),
        (other_batches, r"process 1 was given something else than process 0: first batch \d+, not"),
        (a_mistake, r"process 1 of 2 raised ZeroDivisionError: of process 1\n\n.*\nTraceback"),
    ],
)
def test_what_differs_or_goes_wrong_is_named_with_its_process(function, message):
    with pytest.raises(RuntimeError, match=message):
        launch(function)


def test_all_begin_with_the_parameters_of_process_0():
    first, second = launch(other_start)
    assert first == second
    torch.testing.assert_close(torch.tensor(first), bigram(seed=0)[0].weight.detach())


# Checkpoints, and a process that is killed


def killed(path, rank, at):
    """Process `rank` is killed as it draws batch `at`; the others wait for it."""

    def batches():
        for i, batch in enumerate(data(10**9)):
            if (i, _rank()) == (at, rank):
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    model = bigram(dropout=0.5)
    config = FitConfig(n_steps=9, lr=0.1, eval_every=3, checkpoint_seconds=0)
    result = fit(model, batches(), config, valid=list(data(2)), checkpoint=path)
    return result.history.train_loss, model[2].weight.tolist(), result.best_step


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_ends_the_run_and_its_checkpoint_goes_on_bit_for_bit(
    tmp_path, rank, capfd
):
    whole = launch(killed, tmp_path / "whole", None, None)
    begin = time.monotonic()
    with pytest.raises(
        distributed.LostError,
        match=f"process {rank} of 2 was killed by SIGKILL; the others were ended. A fit with a ch",
    ):
        launch(killed, tmp_path / "run", rank, 5)
    assert time.monotonic() - begin < TIMEOUT
    assert "Terminating" not in capfd.readouterr().err  # the error has said it
    assert not multiprocessing.active_children()
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["run", "whole"]
    assert checkpoints.load(tmp_path / "run")["step"] == 5
    assert launch(killed, tmp_path / "run", None, None) == whole
    assert whole[0] == whole[1]


def seeds():
    seen = []

    def loss(logits, targets):
        seen.append(torch.initial_seed())
        return cross_entropy(logits, targets)

    config = FitConfig(n_steps=2, lr=0.1, seed=5)
    fit(bigram(), list(data(1)), config, loss=per_target(loss))
    return seen


def test_each_process_draws_masks_of_its_own_and_keeps_its_generator(tmp_path):
    (first, _), (second, _) = launch(seeds)
    assert first == 5
    assert second > 100_000, "not the seed that another fit would choose"
    launch(killed, tmp_path / "run", None, None)
    first, second = (own["rng"]["cpu"] for own in checkpoints.load(tmp_path / "run")["processes"])
    assert not torch.equal(first, second)


def test_a_checkpoint_of_two_is_not_taken_up_by_one_or_three(tmp_path):
    launch(killed, tmp_path / "run", None, None)
    with pytest.raises(ValueError, match="processes: 2 in the file, 1 now"):
        fit(bigram(0.5), data(10**9), FitConfig(n_steps=9, lr=0.1, eval_every=3),
            checkpoint=tmp_path / "run")  # fmt: skip
    with pytest.raises(RuntimeError, match="processes: 2 in the file, 3 now"):
        launch(killed, tmp_path / "run", None, None, n=3)


def carried(path, n_steps):
    case = {"config": {"carry_state": True, "n_steps": n_steps, "eval_every": 2}}
    return trained(case, path)


def test_a_carried_state_is_kept_for_every_process(tmp_path):
    """The fit is taken up in the middle of a pass of six batches."""
    whole = launch(carried, tmp_path / "whole", 10)
    launch(carried, tmp_path / "run", 4)
    contents, config = checkpoints.read(tmp_path / "run")
    assert [own["cache"]["state"][0].shape for own in contents["processes"]] == [(2, 3), (3, 3)]
    checkpoints.save(tmp_path / "run", contents, config=config | {"n_steps": 10})
    assert launch(carried, tmp_path / "run", 10) == whole


def stopped():
    """Ctrl-C in process 1 alone, as it draws batch 3."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)

    def batches():
        for i, batch in enumerate(data(10**9), 1):
            if (i, _rank()) == (3, 1):
                signal.raise_signal(signal.SIGINT)
            yield batch

    result = fit(bigram(), batches(), FitConfig(n_steps=9, lr=0.1))
    signal.signal(signal.SIGINT, handler)
    return result.history.step, result.interrupted


def test_ctrl_c_in_one_process_stops_all_after_the_same_step():
    assert launch(stopped) == [([1, 2, 3], True)] * 2


# Launching


def test_a_function_of_the_standard_library_runs_in_fresh_processes():
    first, second = distributed.launch(os.getpid, 2, timeout=TIMEOUT)
    assert len({first, second, os.getpid()}) == 3


def test_a_process_that_has_answered_cannot_fail_at_its_end():
    """torch's threads called abort() there, in one of a few fresh processes."""
    assert distributed.launch(aborts_at_its_end, 2, timeout=TIMEOUT, method="spawn") == [3, 3]


def aborts_at_its_end():
    atexit.register(os.abort)
    return 3


def test_a_function_of_a_notebook_is_forked_and_one_of_a_module_is_not(monkeypatch):
    here = ModuleType("__main__")
    exec("def function(): pass", here.__dict__)
    monkeypatch.setitem(sys.modules, "__main__", here)
    here.__file__ = "script.py"
    assert method_for(here.function) == "spawn"
    del here.__file__
    assert method_for(here.function) == "fork"
    assert method_for(os.getpid) == "spawn"


def test_arguments_and_answers_come_through_in_order():
    assert launch(numbered, torch.arange(3), "x", n=3) == [(r, [0, 1, 2], "x") for r in range(3)]


def numbered(tensor, word):
    assert int(os.environ["WORLD_SIZE"]) == torch.distributed.get_world_size()
    return torch.distributed.get_rank(), tensor.tolist(), word


def test_no_process_and_what_cannot_be_sent_are_refused():
    with pytest.raises(ValueError, match="n_processes must be at least 1, got 0"):
        launch(os.getpid, n=0)
    with pytest.raises(RuntimeError, match=r"process [01] of 2 raised .*(pickle|local object)"):
        launch(unsendable)
    with pytest.raises(distributed.LostError, match="process 1 of 2 ended with code 3"):
        launch(leaves)


def unsendable():
    return lambda: None


def leaves():
    if _rank() == 1:
        os._exit(3)
    torch.distributed.barrier()


def test_the_cause_is_told_though_its_consequence_may_come_first(monkeypatch):
    """A process that is going has closed its connections, maybe, and is still there."""
    monkeypatch.setattr(distributed, "GRACE", TIMEOUT)
    with pytest.raises(RuntimeError, match="process 1 of 2 raised KeyError: 'cause'"):
        launch(raises_late, distributed.LostError, 0.2)
    with pytest.raises(RuntimeError, match="process 0 of 2 raised ValueError: consequence"):
        launch(raises_late, ValueError, TIMEOUT)


def raises_late(consequence, seconds):
    if _rank() == 0:
        raise consequence("consequence")
    time.sleep(seconds)
    raise KeyError("cause")


PROGRAM = """
import json, os
from unrolled.training import distributed
from test_distributed import CASES, trained
found = trained(CASES["weighted"])
if os.environ["RANK"] == "0":
    json.dump(found[0], open(os.environ["FOUND"], "w"))
"""


def test_torchrun_starts_the_same_fit(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path]),
        "FOUND": str(tmp_path / "found"), "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2",
               "--standalone", str(tmp_path / "program.py")]  # fmt: skip
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    losses = json.loads((tmp_path / "found").read_text())
    assert losses == pytest.approx(trained(CASES["weighted"])[0], abs=1e-5)


@pytest.mark.parametrize(
    ("n_gpus", "n_processes", "expected"),
    [(0, 1, "cpu"), (1, 1, "cuda:0"), (1, 2, "cpu"), (2, 2, "cuda:1"), (3, 2, "cuda:1")],
)
def test_each_process_has_a_gpu_or_none_has(monkeypatch, n_gpus, n_processes, expected):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(n_processes))
    monkeypatch.setenv("LOCAL_RANK", str(n_processes - 1))
    assert distributed.device() == torch.device(expected)


@needs_two_gpus
def test_two_gpus_train_as_one():
    alone = trained(CASES["weighted"])
    for ours in distributed.launch(on_gpus, 2, timeout=TIMEOUT):
        assert ours == pytest.approx(alone[0], abs=1e-4)


def on_gpus():
    model = bigram().to(distributed.device())
    config = FitConfig(n_steps=12, lr=0.1, eval_every=4, precision="off")
    return fit(model, list(data(6, "weighted")), config).history.train_loss
