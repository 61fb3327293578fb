"""Settings are given by name, and what is left out stays what it was.

A default is part of every program that leaves it out, a chapter's or a reader's. Whoever changes
one changes this list, too, and looks at the chapters.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from textwrap import dedent

import pytest
from unrolled import models, training
from unrolled.models.neural_lm import NeuralLMConfig
from unrolled.models.skipgram import SkipGramSettings
from unrolled.models.transformer_config import TransformerConfig
from unrolled.training.samplers import Sampling
from unrolled.training.scaling import Law
from unrolled.training.settings import FitConfig

DEFAULTS = """
models.architectures.Architecture: kind='decoder', miss='', note=''
models.attention.attend: causal=False, dropout=0.0, implementation='auto', return_weights=False
models.block.Block: cross=False
models.depth.Stack: activation='relu', residual=False
models.depth.start: distribution='normal'
models.flash.flash_attend: causal=False, block=64
models.gradcheck.numerical_jacobian: eps=1e-06
models.gradcheck.gradcheck: eps=1e-06, tolerance=1e-06
models.heads.MultiHeadAttention: bias=True, dropout=0.0, implementation='auto'
models.kv_cache.KVCache: cross=False
models.layers.RMSNorm: eps=1e-05, implementation='auto'
models.layers.LayerNorm: eps=1e-05, bias=True, implementation='auto'
models.layers.FeedForward: activation='gelu', bias=True
models.lora.LoRALinear: rank=8, alpha=16.0, dropout=0.0
models.lora.add_lora: rank=8, alpha=16.0, dropout=0.0, quantise=False, double=False
models.masks.ScoreMask: finite=True
models.masks.prepare: causal=False
models.moe.MixtureOfExperts: top_k=2, activation='swiglu', bias=False
models.moe.balance_loss: form='switch'
models.moe.with_balance: coefficient=0.01, form='switch'
models.neural_lm.NeuralLMConfig: direct_connections=False, tie_embeddings=False
models.neural_lm.NeuralLMCache: length=0
models.nf4.quantise: double=False
models.nf4.QuantisedLinear: double=False
models.ngram.NGram: smoothing='mle', modified=False
models.positions.sinusoidal: base=10000.0
models.positions.RelativeBias: n_buckets=32, max_distance=128, bidirectional=False
models.positions.Rotary: context_length=4096, base=10000.0, layout='half'
models.recurrent.Recurrent: cell='lstm', n_layers=1, bidirectional=False, dropout=0.0,
    implementation='auto'
models.recurrent_cells.ElmanCell: nonlinearity='tanh'
models.recurrent_cells.GRUCell: reset_after=True
models.recurrent_lm.RecurrentCache: length=0
models.recurrent_lm.RecurrentLM: cell='lstm', n_layers=1, dropout=0.0, tie_embeddings=False,
    implementation='auto'
models.seq2seq.MemoryAttention: score='dot'
models.seq2seq.Seq2SeqCache: length=0
models.seq2seq.Seq2Seq: cell='gru', n_layers=1, bidirectional=True, query='current',
    implementation='auto'
models.skipgram.keep_probability: rule='paper'
models.skipgram.SkipGramSettings: d=50, window=5, negatives=5, power=0.75, threshold=0.001,
    n_epochs=5, batch_size=2048, lr=0.01
models.skipgram.train: device='cpu'
models.ssm.discretise: rule='euler'
models.ssm.Mamba: d_state=16, conv_width=4, scan='parallel'
models.ssm_lm.SelectiveLM: n_layers=1, tie_embeddings=True, norm_eps=1e-05
models.transformer.Stack: cross=False
models.transformer_config.TransformerConfig: n_layers=1, context_length=1024,
    activation='gelu-tanh', norm='layer', norm_first=True, norm_eps=1e-05, parallel=False,
    embedding_norm=False, position='learned', rope_theta=10000.0, n_buckets=32,
    max_distance=128, n_token_types=0, bias=True, tie_embeddings=True, scale_embedding=False,
    scale_scores=True, scale_logits=False, dropout=0.0, init_std=0.02, implementation='auto'
models.vectors.pmi: smoothing=0.75, negatives=1
models.vectors.ppmi: smoothing=0.75, negatives=1
models.vectors.svd_vectors: power=0.5
models.vectors.analogies: rule='add', epsilon=0.001
models.vit.VisionTransformer: n_channels=3
training.batch_iterator.Batch: weight=0.0
training.beam.beam_search: n_best=1, alpha=0.0, divisor='n**alpha', early_stopping=False,
    cache=True
training.cost.parameters: kind='decoder'
training.cost.cache_bytes: batch=1, n_source=0
training.cost.flops: batch=1, kind='decoder', n_source=0, n_cached=0, pairs='all',
    training=False, checkpointing=False
training.distributed.launch: timeout=600.0
training.evaluate.evaluate: context_length=256, overlap=128, batch_size=16
training.generate.generate: cache=True
training.generate.stream: cache=True
training.memory.state_bytes: kind='decoder', optimiser='adamw'
training.memory.activation_bytes: batch=1, stored_scores=False, checkpointing=False
training.mode.exact_mode: max_reads=10000, cache=True
training.preference.dpo_objective: beta=0.1
training.samplers.Sampling: repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0,
    temperature=1.0
training.samplers.penalise_counts: presence=0.0, frequency=0.0
training.scaling.Law: floor=1.8172, A=482.01, alpha=0.3478, B=2085.43, beta=0.3658
training.schedule.constant: warmup_steps=0
training.schedule.linear: warmup_steps=0, min_lr_ratio=0.0
training.schedule.cosine: warmup_steps=0, min_lr_ratio=0.0
training.settings.FitConfig: optimizer='adamw', momentum=0.0, weight_decay=0.0,
    schedule='constant', warmup_steps=0, min_lr_ratio=0.0, grad_clip=1.0, grad_accum_steps=1,
    eval_every=100, checkpoint_seconds=60.0, precision='auto', compile=False, carry_state=False,
    seed=0
training.speculative.speculate: n_ahead=4, cache=True
"""


def defaults() -> dict[str, str]:
    """The values, but for None, that public functions and classes take where none is given."""
    found = {}
    for package in (models, training):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, value in vars(importlib.import_module(info.name)).items():
                is_class = inspect.isclass(value) and not issubclass(value, Exception)
                if name.startswith("_") or not (is_class or inspect.isroutine(value)):
                    continue
                if value.__module__ != info.name:
                    continue
                given = [
                    f"{p.name}={p.default!r}"
                    for p in inspect.signature(value).parameters.values()
                    if isinstance(p.default, int | float | str)
                ]
                if given:
                    place = info.name.removeprefix("unrolled.")
                    found[f"{place}.{name}"] = ", ".join(given)
    return found


def test_what_is_left_out_stays_what_it_was():
    listed = dedent(DEFAULTS).replace("\n    ", " ").split("\n")
    assert defaults() == dict(line.split(": ") for line in listed if line)


@pytest.mark.parametrize(
    "settings",
    [TransformerConfig, NeuralLMConfig, SkipGramSettings, FitConfig, Sampling, Law],
)
def test_settings_are_given_by_name(settings):
    kinds = {parameter.kind for parameter in inspect.signature(settings).parameters.values()}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}
