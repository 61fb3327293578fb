"""The workbench where its reader uses it: in the page's Python under node, and in a browser.

make live html && pytest book/tests/test_workbench.py
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from conftest import AXE, PATIENCE, VIEWS
from test_in_pyodide import in_node
from torch.nn import functional as F
from unrolled_book.workbench import page as bench
from unrolled_book.workbench.models import MODELS
from unrolled_book.workbench.run import Run, Settings, Text
from unrolled_book.workbench.twins import twin

V, WIDTH, WINDOW = 11, 16, 8
SMALL = {"width": 16, "window": 16, "batch": 4}
PAGE = "book/workbench.html"


def torchs(model):
    """Random parameters and ids, and torch's loss and gradients under the model's names."""
    rng = np.random.default_rng(5)
    shapes = MODELS[model].shapes(V, WIDTH, WINDOW)
    arrays = {name: rng.normal(scale=0.5, size=shape) for name, shape in shapes.items()}
    ids = rng.integers(V, size=(3, WINDOW + 1))
    theirs = twin(model, arrays)
    logits = theirs(torch.tensor(ids[:, :-1])).flatten(0, 1)
    loss = F.cross_entropy(logits, torch.tensor(ids[:, 1:]).flatten())
    loss.backward()
    # Adding a multiple of its gradient to each parameter says where each gradient belongs.
    moved = {n: p.grad for n, p in theirs.named_parameters() if not n.endswith("bias_hh")}
    own = {}
    for name, array in arrays.items():
        marked = {n: np.zeros_like(a) for n, a in arrays.items()} | {name: np.ones_like(array)}
        holder = dict(twin(model, marked).named_parameters())
        (place,) = {n for n in moved if holder[n].abs().sum() > 0}
        found = moved[place][holder[place] > 0].reshape(-1)
        turned = name.endswith((".weight", ".from_h")) or name == "h.weight"
        shape = array.shape[::-1] if turned else array.shape
        grad = found.reshape(shape).numpy()
        own[name] = (grad.T if turned else grad).tolist()
    arrays = {name: array.tolist() for name, array in arrays.items()}
    return {"arrays": arrays, "ids": ids.tolist(), "loss": loss.item(), "grads": own}


GRADIENTS = """
import json
import numpy as np
from unrolled.models import autograd as ag
from unrolled_book.workbench import page
from unrolled_book.workbench.models import MODELS
from unrolled_book.workbench.run import Run, Settings
given = json.loads({given!r})
worst = {{}}
for model, case in given.items():
    p = {{name: ag.Tensor(array) for name, array in case["arrays"].items()}}
    ids = np.array(case["ids"])
    loss = ag.cross_entropy(MODELS[model].forward(p, ids[:, :-1]), ids[:, 1:])
    loss.backward()
    apart = [np.abs(t.grad - case["grads"][name]).max() for name, t in p.items()]
    worst[model] = [abs(float(loss.value) - case["loss"]), float(max(apart))]
page.BENCH.read(text={text!r})
losses = {{}}
for model in given:
    run = Run(page.BENCH.text, Settings(model=model, **{small!r}))
    losses[model] = [run.step(0.01) for _ in range(4)]
json.dumps([worst, losses, page.autograd.product is not np.matmul])
"""


def test_in_the_page_gradients_equal_torchs_and_a_seed_gives_the_same_losses():
    text = bench.shipped("names")[:61_000]
    given = json.dumps({model: torchs(model) for model in MODELS})
    program = GRADIENTS.format(given=given, text=text, small=SMALL)
    worst, losses, quick = json.loads(in_node(program, answers=[])["said"])
    assert quick  # the page's own product is in use, and so what is compared
    assert all(max(apart) < 1e-10 for apart in worst.values()), worst
    here = Text(text)
    for model, found in losses.items():
        run = Run(here, Settings(model=model, **SMALL))
        ours = [run.step(0.01) for _ in range(4)]
        assert np.abs(np.array(found) - ours).max() < 1e-6, model


# ---- in a browser ------------------------------------------------------------------------------


@pytest.fixture
def opened(browser, address):
    contexts = []

    def go(view="desktop", model="bigram"):
        contexts.append(browser.new_context(**VIEWS[view]))
        contexts[-1].set_default_timeout(PATIENCE)
        contexts[-1].add_init_script("delete Navigator.prototype.serviceWorker")
        page = contexts[-1].new_page()
        page.goto(f"{address}/{PAGE}#{model}")
        page.wait_for_selector(".u-bench-form")
        page.get_by_label("Text", exact=True).select_option("names")
        for label, n in (("Width", 16), ("Window", 16), ("Batch", 4)):
            if model != "n-gram":  # which has none of them
                page.get_by_label(label).select_option(str(n))
        return page

    yield go
    for context in contexts:
        context.close()


GO = ".u-workbench .u-go"


def wait_for(page, words, what=".u-bench-status"):
    page.wait_for_function(
        "([where, words]) => document.querySelector(where).textContent.includes(words)",
        arg=[what, words],
    )


def trained(page, n_steps):
    """Train so many steps at least, then pause."""
    page.locator(GO).press("Enter")
    page.wait_for_function(
        "n => document.querySelector('.u-bench-live').textContent.match(/step (\\d+)/)?.[1] >= n",
        arg=n_steps,
    )
    page.locator(GO).press("Enter")
    wait_for(page, "Continue", GO)
    page.wait_for_function("() => !document.querySelector('.u-workbench .u-go').disabled")
    return int(page.locator(".u-bench-runs tbody tr").last.locator("td").nth(1).inner_text())


def test_nothing_is_loaded_before_train_is_pressed(opened):
    page = opened()
    asked = page.evaluate("performance.getEntriesByType('resource').map(e => e.name)")
    assert not [name for name in asked if "/live/" in name]
    assert page.get_by_label("Model").input_value() == "bigram"
    page.wait_for_function(
        "document.querySelector('.u-bench-form').getBoundingClientRect().top >= 0"
    )
    assert page.locator(GO).bounding_box()["y"] < 700  # the form is seen, not its model's lines


def test_a_reader_trains_changes_the_rate_undoes_and_compares(opened):
    page = opened()
    first = trained(page, 5)
    assert first >= 5
    wait_for(page, "bits per byte on held-out text")
    page.get_by_label("Learning rate").fill("0.5")
    assert trained(page, first + 5) > first
    page.get_by_role("button", name="Undo").click()
    wait_for(page, f"is back at step {first}, with the rate 0.03")
    assert page.get_by_label("Learning rate").input_value() == "0.03"
    page.get_by_role("button", name="Write").click()
    wait_for(page, "writes:", ".u-bench-written")
    page.get_by_label("Model").select_option("one-layer-gpt")
    assert page.locator(GO).inner_text() == "Train a new run"
    assert page.get_by_label("Learning rate").input_value() == "0.003"
    trained(page, 2)
    assert page.locator(".u-bench-runs tbody tr").count() == 2
    assert page.locator(".u-bench-chart path.scores").count() == 2
    named = page.locator(".u-bench-chart svg").get_attribute("aria-label")
    assert "A: bigram" in named
    assert "B: one-layer GPT" in named
    page.locator(".u-bench-look summary").click()
    wait_for(page, "Next, after", ".u-bench-look")
    assert page.locator(".u-bench-grid rect").count() > 20
    page.get_by_label("Show").select_option(index=3)
    page.wait_for_function(
        "() => document.querySelector('.u-bench-grid').ariaLabel.includes('head 3')"
    )
    page.evaluate(AXE.read_text("utf8"))
    assert page.evaluate("axe.run('.u-workbench').then(r => r.violations.map(v => v.id))") == []


def test_a_run_goes_on_with_its_rate_while_another_is_typed(opened):
    page = opened()
    page.locator(GO).press("Enter")
    wait_for(page, "step ", ".u-bench-live")
    rate = page.get_by_label("Learning rate")
    rate.fill("")
    rate.press("Tab")
    wait_for(page, "must be a number above 0")
    assert rate.get_attribute("aria-invalid") == "true"
    assert page.locator(GO).inner_text() == "Pause"
    rate.fill("0.1")
    rate.press("Tab")
    wait_for(page, "rate 0.03, then 0.1", ".u-bench-runs")
    assert rate.get_attribute("aria-invalid") == "false"


def test_n_grams_are_counted_on_the_same_text_and_write(opened):
    page = opened(model="n-gram")
    assert page.locator(GO).inner_text() == "Count"
    assert not page.get_by_label("Learning rate").is_visible()
    page.locator(GO).press("Enter")
    wait_for(page, "Counted. Best on held-out text is the")
    here = Text(bench.shipped("names"))
    rows = page.locator(".u-bench-grams tbody tr").all()
    told = [row.locator("td").all_inner_texts() for row in rows]
    assert [row[1] for row in told] == [f"{here.n_gram(order):.2f}" for order in range(1, 6)]
    assert all(len(row[3]) > 40 for row in told)
    page.get_by_label("Model").select_option("bigram")
    assert page.locator(GO).inner_text() == "Train"


def test_what_cannot_be_trained_is_said_in_a_sentence(opened):
    page = opened()
    page.get_by_label("Text", exact=True).select_option("own")
    page.get_by_label("Your own text").fill("too short")
    page.locator(GO).click()
    wait_for(page, "Your text has 9 characters; it needs 60,000")
    page.get_by_label("Learning rate").fill("fast")
    page.locator(GO).click()
    wait_for(page, 'must be a number above 0 and up to 100, got "fast"')


def test_a_phone_shows_all_of_it_and_labels_that_can_be_read(opened):
    page = opened("phone", "elman")
    trained(page, 3)
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0
    tiny = page.evaluate(
        "[...document.querySelectorAll('.u-workbench svg text')]"
        ".filter(e => e.getBoundingClientRect().height < 9).map(e => e.textContent)"
    )
    assert tiny == []
