"""The recorded experiments of chapters 23 and 24: what is measured, on cases counted by hand."""

import itertools
import math
from functools import partial
from itertools import islice

import numpy as np
import pytest
import torch
from test_experiments import ex, small
from torch import nn
from torch.testing import assert_close
from unrolled.data import corpora
from unrolled.data.batches import IGNORE
from unrolled.models.moe import MixtureOfExperts
from unrolled.training.distributed import launch
from unrolled.training.fit import cross_entropy, next_token_loss
from unrolled_book.experiments import record
from unrolled_book.experiments._common import n_parameters
from unrolled_book.experiments.ladder import CORPUS

precision, shards, steps = ex.c23_precision, ex.c23_shards, ex.c23_step
contamination, countable = ex.c24_contamination, ex.c24_countable
instructions, lora = ex.c24_instructions, ex.c24_lora


def literal(model, inputs, targets, n_processes=1):
    """The mean of the losses' means, process by process, and its gradient."""
    found = []
    for rank in range(n_processes):
        rows = slice(*(len(targets) * r // n_processes for r in (rank, rank + 1)))
        loss = cross_entropy(model(inputs[rows]).float(), targets[rows]).sum()
        found.append(loss / (targets[rows] != IGNORE).sum())
    loss = sum(found) / n_processes
    return loss.item(), torch.autograd.grad(loss, [*model.parameters()])


def flat(gradients):
    return torch.cat([gradient.flatten() for gradient in gradients])


def test_processes_share_the_gradient_of_one():
    numbers = [3, 345, 7_777, 80, 65_432]
    one = shards.gradient(shards.fresh(0), shards.tensors(numbers))
    for found in launch(shards.shared_gradient, 2, numbers):
        assert_close(found, one, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("n_processes", [1, 3, 8])
def test_the_weights_give_the_mean_of_the_processes_means(n_processes):
    batch, model = next(shards.batches(0, "sorted")), shards.fresh(0)
    loss, gradients = literal(model, *batch, n_processes)
    found = shards.gradient(model, batch, n_processes)
    assert_close(found, flat(gradients), rtol=1e-3, atol=1e-6)
    weights = shards.shares(batch[1], n_processes)
    assert weights.sum().item() == pytest.approx(1)
    assert not weights[batch[1] == IGNORE].any()
    difference, length = shards.off(model, batch, n_processes)
    assert length == pytest.approx(flat(literal(model, *batch)[1]).norm().item(), rel=1e-3)
    if n_processes == 1:
        assert (difference, shards.fit_shared(2)[0]) == (0, pytest.approx(loss, rel=1e-5))
    else:
        assert difference > 0.05 * length


def test_batches_are_of_the_same_numbers_drawn_sorted_or_cut_from_a_pool():
    (x, y), (x_sorted, y_sorted) = (next(shards.batches(3, o)) for o in ("drawn", "sorted"))
    assert ((y_sorted != IGNORE).sum(1).diff() >= 0).all()
    assert sorted(x.tolist()) == sorted(x_sorted.tolist())
    assert sorted(y.tolist()) == sorted(y_sorted.tolist())
    assert (x[:, 0] == 1).all()
    assert torch.equal(y[:, :2], x[:, 1:3])
    cut, own = (  # (POOL, 64) numbers of tokens
        torch.stack([(y != IGNORE).sum(1) for _, y in islice(shards.batches(5, o), shards.POOL)])
        for o in ("cut", "own")
    )
    assert (cut.diff() >= 0).all()
    assert (own.unflatten(1, (2, 32)).diff() >= 0).all()
    assert (cut[:, -1] - cut[:, 0]).median() <= 2  # neighbours in the pool, on most steps
    first, second = own[:, :32].sum(1), own[:, 32:].sum(1)
    assert ((first - second).abs() / (first + second)).mean() > 0.1  # from two places
    assert torch.equal(cut.flatten().sort().values, own.flatten().sort().values)
    assert len(set(cut[:4, 0].tolist())) > 1  # shuffled


def test_sorted_batches_lead_the_mean_of_means_astray_and_a_cut_pool_does_not():
    first, *_ = small("c23_shards")["metrics"]["rows"]
    assert {*first["loss"]} == {"all", "short", "long"}
    for errors in first["off"]:
        assert errors["all tokens"]["ratio"] == 0
        drawn, two, eight, cut, own = [*errors.values()][1:]
        assert drawn["ratio"] < two["ratio"]
        assert cut["tokens"] < 1.2 < own["tokens"]
        assert two["tokens"] == eight["tokens"] > 1.5


@pytest.mark.parametrize("kind", precision.KINDS)
def test_weights_are_rounded_where_the_kind_says_so(kind):
    model = precision.trained(kind, 0, 1e-3, 3)
    weights = flat(model.parameters()).detach()
    assert weights.dtype == torch.float32
    assert torch.equal(weights, weights.bfloat16().float()) == (kind == "bf16 weights")
    stuck = [r["stuck"] for r in small("c23_precision")["metrics"]["rows"] if r["kind"] == kind]
    assert min(stuck) > 0.05 if kind == "bf16 weights" else max(stuck) < 0.05


def test_the_forward_pass_in_sixteen_bits_is_that_of_a_rounded_model():
    model, batch = shards.fresh(0), next(shards.batches(0))
    found = precision.loss_and_gradients(model, batch, torch.bfloat16)
    loss, gradients = literal(shards.fresh(0).bfloat16(), *batch)
    assert found.item() == loss
    for p, gradient in zip(model.parameters(), gradients, strict=True):
        assert_close(p.grad, gradient.float(), rtol=0, atol=0)


@pytest.mark.cuda
def test_a_step_of_gpt2_keeps_its_memory_and_its_operations():
    """Counted on fake tensors of a GPU; nanoGPT's step holds 30.3 GiB, and 648 operations."""
    found = steps.counted(partial(steps.step_of_fit, next_token_loss))
    assert found["peak_bytes"] <= 14 * 2**30
    assert found["operations"] <= 1_150
    recorded = record.load("c23_step")["metrics"]["rows"][0]
    assert found["flops"] == recorded["flops"]
    assert found["parameters"] == recorded["parameters"] == 124_475_904


@pytest.mark.cuda
def test_bytes_flops_and_operations_of_two_products_are_counted_by_hand():
    """(7, 11) @ (11, 13) and its backward pass, in float32; storage comes in multiples of 512."""

    def make():
        layer = torch.nn.Linear(11, 13, bias=False, device="cuda")  # 572 bytes

        def step():
            layer.weight.grad = None
            x = torch.ones(7, 11, device="cuda")  # 308 bytes
            layer(x).backward(torch.ones(7, 13, device="cuda"))  # 364 bytes each, gradient 572

        return layer, step

    assert steps.counted(make) == {
        "parameters": 143, "peak_bytes": 1024 + 512 + 512 + 512 + 1024, "held_bytes": 1024 + 1024,
        "operations": 4,  # x and the gradient that comes in, and two products
        "flops": 2 * (2 * 7 * 11 * 13),
    }  # fmt: skip


def test_without_a_gpu_the_count_names_what_is_missing(monkeypatch):
    monkeypatch.setattr(steps.sys, "executable", "false")
    with pytest.raises(RuntimeError, match="make test-cuda"):
        steps.in_a_process_with_the_emulated_gpu()


def test_the_taste_by_hand_and_the_probabilities_of_all_strings():
    expected = {"": 0, "a": 0, "as": 1, "see": 0, "sate": 3, "ss": -1, "atesa": 0, "sssss": -8}
    assert {s: countable.taste(s) for s in expected} == expected
    log_p = countable.log_probs(countable.Speller())
    assert len(log_p) == 1365 == sum(4**n for n in range(6))
    assert log_p.exp().sum().item() == pytest.approx(1, abs=1e-6)


@pytest.fixture
def uneven() -> torch.Tensor:
    return torch.randn(1365).double().log_softmax(0)


def test_pairs_are_different_strings_and_the_better_one_wins_more_often(uneven):
    chosen, rejected = countable.draw_pairs(uneven, 0, 4000)
    assert (chosen != rejected).all()
    lead = (countable.REWARD[chosen] - countable.REWARD[rejected]).numpy()
    for size in (1, 2):
        won = (lead == size).sum() / (np.abs(lead) == size).sum()
        assert won == pytest.approx(1 / (1 + math.exp(-size)), abs=0.04)


def test_best_of_two_by_listing_all_pairs(uneven):
    log_p, reward = uneven[:5].log_softmax(0), torch.tensor([1.0, 3, 2, 0, 4]).double()
    expected = torch.zeros(5).double()
    for i, j in itertools.product(range(5), repeat=2):
        expected[i if reward[i] > reward[j] else j] += (log_p[i] + log_p[j]).exp()
    assert_close(countable.best_of(log_p, reward, 2).exp(), expected)


def test_no_policy_within_the_distance_has_more_reward_than_the_best(uneven):
    for beta in (0.5, 2.0):
        log_q = countable.tilted(uneven, countable.REWARD, beta)
        mean, distance = (log_q.exp() @ countable.REWARD).item(), countable.kl(log_q, uneven)
        assert countable.best_reward(uneven, distance) == pytest.approx(mean, abs=1e-6)
        mixed = (0.5 * (log_q.exp() + uneven.exp())).log()
        within = countable.best_reward(uneven, countable.kl(mixed, uneven))
        assert (mixed.exp() @ countable.REWARD).item() < within
    assert all(r["reward"] <= r["best"] + 1e-6 for r in small("c24_countable")["metrics"]["tuning"])


def test_the_first_recorded_world_comes_out_again():
    recorded = record.load("c24_countable")["metrics"]
    world, first = recorded["worlds"][0], recorded["optimum"][0]
    log_p = countable.log_probs(countable.base_model(world["seed"]))
    assert (log_p.exp() @ countable.REWARD).item() == pytest.approx(world["reward"], abs=0.02)
    log_q = countable.tilted(log_p, countable.REWARD, first["beta"])
    assert countable.kl(log_q, log_p) == pytest.approx(first["kl"], abs=0.05)


@pytest.fixture(scope="module")
def template():
    return instructions.Template()


def test_every_demonstration_complies_and_the_kinds_are_equally_frequent():
    shown = instructions.demonstrations(corpora.load(CORPUS).valid, 800, 0)
    assert all(instructions.RULES[ask](line) for ask, line in shown)
    for kind in ("Cry out.", "Begin"):
        assert sum(ask.startswith(kind) for ask, _ in shown) == pytest.approx(200, abs=45)


def test_what_counts_as_a_target(template):
    shown = [("Cry out.", "Fie!"), ("Be brief.", "O no.")]
    for (ask, line), kind in itertools.product(shown, instructions.TARGETS):
        inputs, targets = instructions.batch_of(template, [(ask, line)], kind)
        prompt, answer = template.encode(ask, line)
        text, n = [*prompt, *answer], len(prompt)
        expected = text[1:] if kind == "prompt too" else [IGNORE] * (n - 1) + answer
        if kind == "end masked":
            expected = [*expected[:-1], IGNORE]
        assert inputs.tolist() == [text[:-1]]
        assert targets.tolist() == [expected]
    _, answer = template.encode("", "Fie!")
    assert template.decode(answer) == "Fie!"
    assert template.decode([template.ask, *answer[:2]]) == "⟨ask⟩Fi"


@pytest.mark.parametrize("table", [True, False])
def test_adapters_learn_and_the_table_of_three_tokens_more_where_it_should(template, table):
    model = lora.tuned(template, 2, table, 1e-2, 0, 1)
    learn = {name for name, p in model.named_parameters() if p.requires_grad}
    others = {name for name in learn if ".lora_" not in name}
    assert others == ({"embedding.weight"} if table else set()) != learn
    assert model.head.weight is model.embedding.weight
    before, shipped = instructions.base_model(0), instructions.trained.load(*instructions.NEEDS)
    assert torch.equal(model.embedding.weight, before.embedding.weight) != table
    weights = [m.stack.blocks[0].attention.q_proj for m in (model, before)]
    assert torch.equal(weights[0].base.weight, weights[1].weight)
    tokens = torch.from_numpy(template.tokenizer.encode("My lord"))[None]
    assert_close(before(tokens)[..., :-3], shipped(tokens))


def test_letters_are_altered_and_words_replaced_as_often_as_they_should():
    text = "abc, " * 4000
    pairs = [*zip(text, contamination.altered(text, 0), strict=True)]
    changed = sum(a != b for a, b in pairs) / (3 * 4000)
    assert changed == pytest.approx(contamination.ALTERED * 25 / 26, abs=0.01)
    assert all(a == b for a, b in pairs if not a.isalpha())
    text = "the king and the queen walk to the old house and see a good man there " * 3
    words = [*map(contamination.words, (text, contamination.reworded(text)))]
    changed = [i for i, (a, b) in enumerate(zip(*words, strict=True)) if a != b]
    assert changed == list(range(4, len(words[0]), 5))


def test_a_copy_is_found_by_windows_counted_by_hand_and_helps():
    known = set(contamination.windows("a b c d".split(), 2))
    assert contamination.overlap("b c x a b", known, 2) == pytest.approx(2 / 4)
    assert contamination.flagged("b c x y y y", known, 2, size=3) == pytest.approx(1 / 2)
    assert contamination.flagged("c x b y b a", known, 2, size=3) == 0
    none, full, *_ = small("c24_contamination")["metrics"]["rows"]
    assert full["flagged"] == 1 > none["flagged"]
    assert full["bits"] < none["bits"]


def test_a_table_is_asked_for_each_of_its_names_once():
    (names, rooms), targets = ex.c24d_recall.tables(np.random.default_rng(0), 5, 3)
    for name, room, target in zip(names, rooms, targets, strict=True):
        table = dict(zip(name[:5].tolist(), room[:5].tolist(), strict=True))
        assert len(table) == 5
        assert (target[:5] == IGNORE).all()
        assert (room[5:] == ex.c24d_recall.N_ROOMS).all()
        assert sorted(name[5:]) == sorted(name[:5])
        assert target[5:].tolist() == [table[n] for n in name[5:].tolist()]


def test_a_reader_that_looks_things_up_is_right_and_a_guess_is_not():
    def lookup(names, rooms):
        n = names.shape[1] // 2
        found = ((names[:, :, None] == names[:, None, :n]) * rooms[:, None, :n]).sum(-1)
        return nn.functional.one_hot(found, ex.c24d_recall.N_ROOMS)

    assert ex.c24d_recall.right(lookup, 8, 20) == 100
    guess = ex.c24d_recall.right(lambda names, _: torch.eye(10)[names * 0], 8, 200)
    assert guess == pytest.approx(10, abs=3)
    fixed, selective = (ex.c24d_recall.build(f"{k} 8", 0).layer.x_proj for k in ("fixed", "state"))
    x, y = torch.randn(2, 1, 3, ex.c24d_recall.D_INNER)
    assert torch.equal(fixed(x), fixed(y))
    assert not torch.allclose(selective(x), selective(y))


@pytest.mark.parametrize(("errors", "expected"), [
    ({1: 5, 2: 3, 4: 4}, [1, 2, 4]),
    ({1: 5, 2: 4, 4: 3, 8: 2, 16: 6}, [1, 2, 4, 8, 16]),
    ({1: 3, 2: 4, 4: 5, 0.5: 2, 0.25: 7}, [0.25, 0.5, 1, 2, 4]),
    ({1: 0, 2: 0, 4: 5}, [1, 2, 4]),
])  # fmt: skip
def test_a_search_goes_on_while_the_best_rate_lies_at_an_end(errors, expected):
    found = ex.c24d_recall.search((1, 2, 4), errors.__getitem__)
    assert [f["lr"] for f in found] == expected
    assert {f["lr"]: f["errors"] for f in found} == errors


def test_the_last_written_value_is_known_from_the_symbols():
    symbols, last = ex.c24d_length.texts(np.random.default_rng(0), 50, 4)
    for row, answer in zip(symbols.tolist(), last.tolist(), strict=True):
        value = None
        for symbol, right in zip(row, answer, strict=True):
            value = symbol if symbol < ex.c24d_length.N_VALUES else value
            assert right == value
    assert 0.02 < (symbols[:, 1:] < ex.c24d_length.N_VALUES).mean() < 0.15


def test_errors_are_counted_at_the_last_positions_or_after_the_noise():
    def says_the_last(symbols):
        """Right at the last SCORED positions only where the symbol itself writes."""
        return torch.eye(8)[symbols % ex.c24d_length.N_VALUES]

    def remembers(symbols):
        return torch.eye(8)[symbols[:, :1].expand_as(symbols)]

    found = ex.c24d_length.errors(says_the_last, 128, 40)
    assert found == pytest.approx(100 * 3 / 4 * 15 / 16, abs=6)
    assert ex.c24d_length.errors_back(says_the_last, 30, 400) == pytest.approx(75, abs=8)
    assert ex.c24d_length.errors_back(remembers, 30, 50) == 0


def test_blocks_stay_together_and_folds_and_arms_are_of_nearly_one_size():
    for block, seed in ((1, 0), (30, 1), (100, 2)):
        fold = ex.c24b_digits.folds(1797, block=block, seed=seed)
        assert all(len(set(fold[k : k + block])) == 1 for k in range(0, 1797, block))
        assert np.ptp(np.bincount(fold)) <= 2 * block
    assert ex.c24b_digits.folds(1797).tolist() == sorted([0, 1, 2] * 599)
    sizes = [n_parameters(ex.c24b_digits.build(arm, 0)) for arm in ex.c24b_digits.ARMS]
    assert max(sizes) < 1.05 * min(sizes)


def test_no_tested_picture_has_a_say_in_the_choice_of_a_rate(monkeypatch):
    fold, seen = ex.c24b_digits.folds(1797, block=30, seed=0), []
    images = ex.c24b_digits.digits()[0]

    def train(arm, train_set, **options):
        seen.append(train_set[0])
        return options["lr"]

    def right(lr, tested, classes):
        seen.append(tested)
        return 100 * lr

    monkeypatch.setattr(ex.c24b_digits, "train", train)
    monkeypatch.setattr(ex.c24b_digits, "right", right)
    for k in range(3):
        seen.clear()
        assert ex.c24b_digits.chosen("ViT", fold, k, lrs=(0.1, 0.3, 0.2), n_steps=1) == 0.3
        assert sum(map(len, seen[:2])) == (fold != k).sum()
        kept_out = {image.tobytes() for image in images[fold == k]}
        assert not any(image.tobytes() in kept_out for part in seen for image in part)


def test_a_token_meets_as_many_weights_as_in_the_narrow_dense_layer():
    built = [ex.c24b_experts.build(arm, 65, 0) for arm in ex.c24b_experts.ARMS]
    narrow, wide, mixture, balanced = built
    routers = sum(m.router.weight.numel() for m in mixture.modules()
                  if isinstance(m, MixtureOfExperts))  # fmt: skip
    assert ex.c24b_experts.n_active(mixture) == n_parameters(narrow) + routers
    assert n_parameters(mixture) == n_parameters(wide) + routers
    assert ex.c24b_experts.n_active(wide) == n_parameters(wide)
    assert all(map(torch.equal, mixture.parameters(), balanced.parameters()))


def test_what_an_expert_reads_is_counted_by_the_character_at_its_position():
    model = ex.c24b_experts.build("experts, balanced", 65, 0)
    texts = torch.arange(65)[None]  # each character once
    counts = np.array(ex.c24b_reads.reads(model, texts, texts[0, :-1]))  # (layers, V, E)
    assert (counts.sum(-1)[:, :64] == ex.c24b_experts.TOP_K).all()
    twice = torch.cat([texts, texts])
    again = np.array(ex.c24b_reads.reads(model, twice, twice[:, :-1].flatten()))
    assert (again == 2 * counts).all()
    assert ex.c24b_reads.shared_bits(np.eye(8)) == pytest.approx(3)
    assert ex.c24b_reads.shared_bits(np.outer([1, 2, 5], [3, 4])) == pytest.approx(0, abs=1e-12)


def test_a_search_of_the_record_comes_out_again():
    config = record.load("c24d_length")["config"]
    tried = {row["lr"]: row["errors"] for row in config["search"]["selective"]}
    model = ex.c24d_length.train("selective", lr=2e-2, n_steps=config["search_steps"], seed=100)
    found = ex.c24d_length.errors(model, config["train_length"], 100)
    assert found == pytest.approx(tried[2e-2], abs=3)
