"""Two processes train as one, and what happens when one of them is killed."""

import atexit
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from types import ModuleType

import numpy as np
import pytest
import torch
from comparing import bigram
from hypothesis import given, settings
from hypothesis import strategies as st
from unrolled.models.recurrent_lm import RecurrentLM
from unrolled.training import checkpoint as checkpoints
from unrolled.training import distributed
from unrolled.training.batch_iterator import Batch
from unrolled.training.fit import FitConfig, cross_entropy, fit, per_target

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
# A fork is there at once, but must not touch a GPU that the parent has used.
METHOD = "spawn" if torch.cuda.is_available() or not hasattr(os, "fork") else "fork"
VOCAB, B, T, TIMEOUT = 7, 5, 3, 600.0
bigram = partial(bigram, VOCAB)


def launch(function, *arguments, n=2):
    return distributed.launch(function, n, *arguments, timeout=TIMEOUT, method=METHOD)


def _rank():
    return int(os.environ.get("RANK", 0))


def parameters(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()


def data(n, kind=None):
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
    model = bigram()
    if options.get("carry_state"):
        torch.manual_seed(0)  # the fixture `alone` trains before a test has set its seed
        model = RecurrentLM(VOCAB, "elman", embedding_dim=3, hidden_size=3)
    model.to(distributed.device() if case.get("on GPUs") else "cpu")
    batches, valid = (list(data(n, case.get("kind"))) for n in (6, 4))
    valid = mean_weight if case.get("function") else valid
    h = fit(model, batches, FitConfig(**options), valid=valid, checkpoint=checkpoint).history
    return h.train_loss, h.grad_norm, h.valid_loss, parameters(model), h.step


def mean_weight(model):
    """A validation that is a function; only process 0 may be asked."""
    assert _rank() == 0
    return float(model[0].weight.detach().square().mean())


CASES = {
    "weighted": {"kind": "weighted"},
    "uneven": {"kind": "uneven"},  # with fewer rows than processes
    "accumulated": {"kind": "weighted", "config": {"grad_accum_steps": 3, "weight_decay": 0.1}},
    "carried": {"config": {"carry_state": True}},
    "function": {"function": True},
}


@pytest.fixture(scope="module")
def alone():
    """What one process finds; what a first fit imports, a fork has then already."""
    return {name: trained(case) for name, case in CASES.items()}


def all_cases(tensor, word):
    assert int(os.environ["WORLD_SIZE"]) == torch.distributed.get_world_size()
    told = torch.distributed.get_rank(), tensor.tolist(), word
    return told, {name: trained(case) for name, case in CASES.items()}


@pytest.mark.parametrize("n", [2, 3])
def test_processes_train_as_one_and_end_with_the_same_bits(n, alone):
    answers = launch(all_cases, torch.arange(3), "x", n=n)
    assert [told for told, _ in answers] == [(rank, [0, 1, 2], "x") for rank in range(n)]
    (_, found), *others = answers
    assert all(other == found for _, other in others)
    for name, expected in alone.items():
        for a, b in zip(found[name], expected, strict=True):
            assert a == pytest.approx(b, abs=1e-5), name
        assert min(expected[0]) < expected[0][0] - 0.1, "there was something to learn"


@given(st.integers(0, 13), st.integers(1, 7), st.booleans())
@settings(max_examples=40, deadline=None)
def test_shares_are_even_and_together_the_batch(n_rows, n_processes, weighted):
    rows = torch.arange(n_rows)
    inputs, targets, weights = (rows, rows[:, None] * 2), rows[:, None] + 1, rows[:, None] / 2
    total = float(weights.sum()) if weighted else n_rows
    batch = Batch(inputs, targets, weights if weighted else None, total)
    shares = [distributed.shard(batch, rank, n_processes) for rank in range(n_processes)]
    together = [*zip(*(s.inputs for s in shares), strict=True), [s.targets for s in shares]]
    together += [[s.weights for s in shares]] if weighted else []
    for parts, whole in zip(together, (*inputs, targets, weights), strict=False):
        assert torch.equal(torch.cat(parts), whole)
    sizes = [len(s.targets) for s in shares]
    assert max(sizes) - min(sizes) <= 1
    assert sum(float(s.weight) for s in shares) == pytest.approx(total)
    one, more = torch.tensor(1), torch.zeros(n_rows + 1)
    for inputs, targets in ((more, rows), (one, rows), (rows, one)):
        with pytest.raises(ValueError, match=r"rows in their first axis, got \("):
            distributed.shard(Batch((inputs,), targets), 0, 2)


def other(settings=0, batches=0):
    batch = np.full((B, T), batches * _rank()), np.zeros((B, T), int)
    fit(bigram(), [batch], FitConfig(n_steps=2, lr=0.1 + settings * _rank()))


def fails(how):
    if how == "unsendable":
        return lambda: None
    if _rank() == 1:
        os._exit(3) if how == "leaves" else 1 / 0
    return trained({})


def raises_late(consequence, seconds):
    if _rank() == 0:
        raise consequence("consequence")
    time.sleep(seconds)
    raise KeyError("cause")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ([other, 1], "1 was given something else than process 0: lr 1.1, not"),
        ([other, 0, 1], r"something else than process 0: first batch \d+, not \d+"),
        ([fails, "mistake"], r"process 1 of 2 raised ZeroDivisionError: div.*\n\n.*\nTraceback"),
        ([fails, "unsendable"], r"process [01] of 2 raised .*(pickle|local object)"),
        ([fails, "leaves"], "process 1 of 2 ended with code 3"),
        # A process that is going has closed its connections, maybe, and is still there.
        ([raises_late, distributed.LostError, 0.2], "process 1 of 2 raised KeyError: 'cause"),
        ([raises_late, ValueError, TIMEOUT], "process 0 of 2 raised ValueError: consequence"),
    ],
)
def test_what_differs_or_goes_wrong_is_named_with_its_process(call, message, monkeypatch):
    if call[-1] == 0.2:  # the consequence may come first, and the cause is told
        monkeypatch.setattr(distributed, "GRACE", TIMEOUT)
    with pytest.raises(RuntimeError, match=message):
        launch(*call)


def first_steps():
    """(the first weights, the seed at each step) of a process that made another model."""
    seeds, model = [], bigram(seed=_rank())

    def loss(logits, targets):
        seeds.append(torch.initial_seed())
        return cross_entropy(logits, targets)

    config = FitConfig(n_steps=2, lr=1e-9, seed=5)
    fit(model, list(data(1)), config, loss=per_target(loss))
    return model[0].weight.tolist(), seeds


def test_all_begin_with_the_parameters_of_process_0_and_draw_masks_of_their_own():
    (weights, first), (others, second) = launch(first_steps)
    assert weights == others
    torch.testing.assert_close(torch.tensor(weights), bigram(seed=0)[0].weight.detach())
    assert set(first) == {5}
    assert min(second) > 100_000, "not the seed that another fit would choose"


def disturbed(path, rank=None, at=None, number=None):
    """Process `rank` gets a signal as it draws batch `at`; the others wait for it."""

    def batches():
        for i, batch in enumerate(data(10**9)):
            if (i, _rank()) == (at, rank):
                signal.raise_signal(number)
            yield batch

    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.manual_seed(1)
    model = RecurrentLM(VOCAB, "elman", embedding_dim=3, hidden_size=3, dropout=0.5)
    config = FitConfig(n_steps=9, lr=0.1, eval_every=3, checkpoint_seconds=0, carry_state=True)
    result = fit(model, batches(), config, valid=list(data(2)), checkpoint=path)
    return result.history.train_loss, parameters(model), result.best_step, result.interrupted


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """(the checkpoint of a run in which nobody is killed, what each process found)."""
    path = tmp_path_factory.mktemp("whole") / "run"
    return path, launch(disturbed, path)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows sends no signals")
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_ends_the_run_and_its_checkpoint_goes_on_bit_for_bit(
    tmp_path, rank, capfd, whole
):
    message = f"process {rank} of 2 was killed by SIGKILL; the others were ended. A fit with a ch"
    with pytest.raises(distributed.LostError, match=message):
        launch(disturbed, tmp_path / "run", rank, 5, signal.SIGKILL)
    assert "Terminating" not in capfd.readouterr().err  # the error has said it
    assert not multiprocessing.active_children()
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
    assert checkpoints.load(tmp_path / "run")["step"] == 5
    assert launch(disturbed, tmp_path / "run") == whole[1]


def test_a_checkpoint_of_two_holds_both_states_and_is_not_taken_up_by_one_or_three(tmp_path, whole):
    path = shutil.copy(whole[0], tmp_path / "run")
    first, second = checkpoints.load(path)["processes"]
    assert not torch.equal(first["rng"]["cpu"], second["rng"]["cpu"])
    assert [own["cache"]["state"][0].shape[-2] for own in (first, second)] == [2, 3]
    with pytest.raises(ValueError, match="processes: 2 in the file, 1 now"):
        disturbed(path)
    with pytest.raises(RuntimeError, match="processes: 2 in the file, 3 now"):
        launch(disturbed, path, n=3)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows sends no signals")
def test_ctrl_c_in_one_process_stops_all_after_the_same_step(tmp_path):
    found = launch(disturbed, tmp_path / "run", 1, 2, signal.SIGINT)
    assert [(len(losses), interrupted) for losses, *_, interrupted in found] == [(3, True)] * 2


def aborts_at_its_end():
    """torch's threads called abort() there, in one of a few fresh processes."""
    atexit.register(os.abort)
    return type(multiprocessing.current_process()).__name__


def test_a_fresh_process_that_has_answered_cannot_fail_at_its_end():
    kinds = distributed.launch(aborts_at_its_end, 2, timeout=TIMEOUT)
    assert kinds == ["SpawnProcess"] * 2


def test_a_function_of_a_notebook_is_forked_and_one_of_a_module_is_not(monkeypatch):
    here = ModuleType("__main__")
    exec("def function(): pass", here.__dict__)
    monkeypatch.setitem(sys.modules, "__main__", here)
    here.__file__ = "script.py"
    assert distributed.method_for(here.function) == "spawn"
    del here.__file__
    monkeypatch.setattr(os, "fork", lambda: None, raising=False)
    assert distributed.method_for(here.function) == "fork"
    assert distributed.method_for(os.getpid) == "spawn"
    monkeypatch.delattr(os, "fork")  # as on Windows
    with pytest.raises(ValueError, match=r"function is defined in a notebook.*put it into a file"):
        distributed.method_for(here.function)


PROGRAM = """
import json, os
from unrolled.training import distributed
from test_distributed import CASES, trained
found = trained(CASES["weighted"])
if os.environ["RANK"] == "0":
    json.dump(found[0], open(os.environ["FOUND"], "w"))
"""


def test_torchrun_starts_the_same_fit(tmp_path, alone):
    (tmp_path / "program.py").write_text(PROGRAM, "utf8")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path]),
        "FOUND": str(tmp_path / "found"), "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2",
               "--standalone", str(tmp_path / "program.py")]  # fmt: skip
    done = subprocess.run(
        command, env=environment, capture_output=True, encoding="utf8", timeout=TIMEOUT
    )
    assert done.returncode == 0, done.stderr
    losses = json.loads((tmp_path / "found").read_text("utf8"))
    assert losses == pytest.approx(alone["weighted"][0], abs=1e-5)


@pytest.mark.parametrize(
    ("n_gpus", "n_processes", "expected"),
    [(0, 1, "cpu"), (1, 1, "cuda:0"), (1, 2, "cpu"), (2, 2, "cuda:1"), (3, 2, "cuda:1")],
)
def test_each_process_has_a_gpu_or_none_has(monkeypatch, n_gpus, n_processes, expected):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(n_processes))
    monkeypatch.setenv("LOCAL_RANK", str(n_processes - 1))
    assert distributed.device() == torch.device(expected)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_two_gpus_train_as_one(alone):
    case = CASES["weighted"] | {"on GPUs": True, "config": {"precision": "off"}}
    for found in distributed.launch(trained, 2, case, timeout=TIMEOUT):
        assert found[0] == pytest.approx(alone["weighted"][0], abs=1e-4)
