"""The names most looked for, quick to import, and the page that shows how they are used."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
import torch
import unrolled
from unrolled.data import corpora
from unrolled.data.batches import random_batch

PAGE = Path(__file__).parents[2] / "book" / "use-the-library.md"


def test_importing_the_front_loads_no_floor():
    program = "import sys, unrolled; print([m for m in sys.modules if m in ('torch', 'numpy')"
    program += " or m.startswith('unrolled.')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, encoding="utf8")
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.parametrize("name", unrolled.__all__)
def test_a_name_of_the_front_is_the_public_one(name):
    thing = getattr(unrolled, name)
    assert (thing.__name__, name in dir(unrolled)) == (name, True)
    assert thing.__module__.startswith(f"unrolled.{unrolled._HOMES[name]}")


def test_another_name_is_refused_with_those_there_are():
    with pytest.raises(AttributeError, match=r"no attribute 'GPT'; it has .*'TransformerLM'"):
        unrolled.GPT  # noqa: B018


def test_windows_are_random_batches_one_after_the_other():
    ids, sizes = np.arange(50), {"batch_size": 3, "seq_len": 7}
    ours = unrolled.windows(ids, rng=np.random.default_rng(1), **sizes)
    rng = np.random.default_rng(1)
    for _ in range(4):
        for a, b in zip(next(ours), random_batch(rng, ids, **sizes), strict=True):
            np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="1 × 7 tokens and a last target need 8 tokens, got 7"):
        unrolled.windows(ids[:7], rng=rng, **sizes)


@pytest.fixture
def downloaded(tmp_path, transformers, monkeypatch):
    """A folder with a text and a small GPT-2, as the page expects them."""
    monkeypatch.chdir(tmp_path)
    text = corpora.load("shakespeare-small").train[:60_000]
    Path("text.txt").write_text(text, "utf8")
    config = transformers.GPT2Config(vocab_size=53, n_embd=20, n_layer=2, n_head=5, n_positions=31)
    transformers.GPT2LMHeadModel(config).save_pretrained("gpt2-folder")
    return text


def test_the_pages_code_runs_as_it_stands(downloaded, capsys):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf8"), re.DOTALL | re.MULTILINE)
    names: dict = {}
    for block in blocks:
        assert len([line for line in block.splitlines() if line]) <= 15
        exec(re.sub(r"n_steps=\d+", "n_steps=30", block), names)
    said = capsys.readouterr().out
    assert "the model holds the parameters of step 30, the best on validation" in said
    tokens = torch.tensor(names["tokenizer"].encode("To be"))[None]
    torch.testing.assert_close(names["again"](tokens), names["fresh"].eval()(tokens))
    assert names["same"].vocab == names["tokenizer"].vocab
    assert max(map(len, "\n".join(blocks).splitlines())) <= 80, "no line scrolls"
    assert names["gpt2"].config.n_layers == 2
    assert names["bpe"].decode(names["ids"]) == "The king is here."


def test_the_api_references_examples_say_what_they_show(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    page = (PAGE.parent / "api.md").read_text("utf8")
    sections = re.findall(r"^### .*?(?=^##|\Z)", page, re.DOTALL | re.MULTILINE)
    assert [s.splitlines()[0] for s in sections if "\n>>> " not in s] == []
    fenced = "\n".join(re.findall(r"^```pycon\n(.*?)^```", page, re.DOTALL | re.MULTILINE))
    assert max(map(len, fenced.splitlines())) <= 84, "no line scrolls"
    session = doctest.DocTestParser().get_doctest(fenced, {}, "api.md", "api.md", 0)
    told: list[str] = []
    doctest.DocTestRunner().run(session, out=told.append)
    assert "".join(told) == ""


def public_names() -> dict[str, str]:
    """name -> module, of all that the floors define without an underscore."""
    found = {}
    for floor in ("data", "models", "training", "generation", "accounting"):
        package = importlib.import_module(f"unrolled.{floor}")
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, thing in vars(importlib.import_module(info.name)).items():
                ours = getattr(thing, "__module__", None) == info.name and "._" not in info.name
                if ours and not name.startswith("_") and not isinstance(thing, TypeVar):
                    found[name] = info.name
    return found


def test_the_api_reference_has_every_public_name_and_no_other():
    page = (PAGE.parent / "api.md").read_text("utf8")
    shown = re.findall(r"^\.\. auto(?:function|class):: (\S+)$", page, re.MULTILINE)
    for name in shown:
        module, _, last = name.rpartition(".")
        assert hasattr(importlib.import_module(module), last), name
    assert len(set(shown)) == len(shown)
    told = {name.rpartition(".")[2] for name in shown} | set(re.findall(r"`(\w+)`", page))
    assert not public_names().keys() - told, "add them to book/api.md"
