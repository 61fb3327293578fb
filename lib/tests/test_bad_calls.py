"""Whatever is wrong with an argument, the library says so: no bad call is answered in silence.

From one good call of everything public, each argument in turn takes each of some bad values. What
comes back is clear (an error of ours that names the argument or what was given), obscure (any other
error) or taken; what is taken must be listed as legitimate.
"""

from __future__ import annotations

import contextlib
import copy
import dis
import importlib
import inspect
import itertools
import math
import pkgutil
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase

import numpy as np
import pytest
import torch
from torch import nn
from unrolled.accounting import cost, memory
from unrolled.data import (
    batches,
    bpe,
    bpe_files,
    bpe_merges,
    corpora,
    tokenizer_files,
    tokens,
    wordpiece,
)
from unrolled.generation import beam, exact, generate, samplers, speculative
from unrolled.models import (
    architectures,
    attention,
    autograd,
    block,
    encoder_decoder,
    flash,
    gradcheck,
    heads,
    layers,
    lora,
    masks,
    moe,
    neural_lm,
    nf4,
    ngram,
    ngram_arpa,
    ngram_counts,
    positions,
    pretrained,
    recurrent,
    recurrent_cells,
    recurrent_lm,
    seq2seq,
    skipgram,
    ssm,
    ssm_lm,
    transformer,
    transformer_config,
    vit,
)
from unrolled.training import (
    batch_iterator,
    checkpoint,
    evaluate,
    fit,
    losses,
    model_files,
    preference,
    schedule,
    settings,
)
from unrolled_book import depth, scaling, vectors, word_vectors
from unrolled_book.tasks import copying, number_words, parentheses, symbols, tagging


def floats(*shape):
    return torch.linspace(0.1, 0.9, math.prod(shape)).reshape(shape)


def ids(*shape):
    return torch.arange(math.prod(shape)).reshape(shape) % 5


RNG, GENERATOR = np.random.default_rng(0), torch.Generator()
IDS, ROWS, TEXT = np.arange(12) % 5, ids(2, 3), "a bad call, a bad day, a bad call"
CHARS, WORDS = tokens.CharTokenizer.train(TEXT), tokens.WordTokenizer.train(TEXT)
BPE, PIECES = bpe.BPETokenizer.train(TEXT, 3), wordpiece.WordPieceTokenizer.train(TEXT, 3)
CONFIG = transformer_config.TransformerConfig(vocab_size=5, d_model=4, n_heads=2, context_length=9)
NO_WORDS = transformer_config.TransformerConfig(d_model=4, n_heads=2, context_length=5)
NEURAL = neural_lm.NeuralLMConfig(vocab_size=5, context_length=2, embedding_dim=3, hidden_size=4)
LM, PAIR = transformer.TransformerLM(CONFIG), encoder_decoder.EncoderDecoder(CONFIG)
TYPED = transformer.Encoder(CONFIG.replace(n_token_types=2))
GRU = recurrent_lm.RecurrentLM(5, "gru", embedding_dim=3, hidden_size=4)
SEQ = seq2seq.Seq2Seq(5, 5, embedding_dim=3, hidden_size=4, attention="additive")
COUNTS = ngram_counts.NGramCounts(IDS, 2, 5)
NGRAM = ngram.NGram(COUNTS, "kneser-ney")
EXPERTS = moe.MixtureOfExperts(4, 6, n_experts=3)
VIT = vit.VisionTransformer(NO_WORDS, image_size=(4, 4), patch_size=2, n_classes=3, n_channels=1)
STACK, CELL = recurrent.Recurrent(3, 4, "gru"), recurrent_cells.GRUCell(3, 4)
LINEAR, PROMPT = nn.Linear(4, 6), ids(1, 3)
BATCH = batch_iterator.to_device((ROWS, ROWS), torch.device("cpu"), torch.float32)
X, Q, MASK = floats(2, 3, 4), floats(2, 2, 3, 4), torch.ones(2, 3) > 0
LOGITS, TENSOR = floats(2, 5), autograd.Tensor(np.ones((2, 3)))
QUICK = skipgram.SkipGramSettings(d=2, window=2, negatives=1, n_epochs=1, threshold=None)
TORCHS = nn.Transformer(4, 2, 1, 1, 8, batch_first=True)
PAIRS_OF_TEXTS = [np.array([1, 2]), np.array([3])]


# One good call of each: the callable and its arguments.
GOOD = [
    # data
    (batches.ContiguousBatches, dict(tokens=IDS, batch_size=2, seq_len=3)),
    (batches.random_batch, dict(rng=RNG, tokens=IDS, batch_size=2, seq_len=3)),
    (batches.windows, dict(tokens=IDS, batch_size=2, seq_len=3, rng=RNG)),
    (batches.pad, dict(sequences=[IDS, IDS], pad_id=0)),
    (batches.targets_at_end, dict(mask=np.ones((2, 3), bool), labels=[1, 2])),
    (batches.shuffled_batches, dict(rng=RNG, n=5, batch_size=2)),
    (bpe.BPETokenizer, dict(merges=BPE.merges, special_tokens=["<s>"], pattern="gpt2", vocab=None)),
    (bpe.BPETokenizer.train, dict(text=TEXT, n_merges=3, special_tokens=[], pattern="gpt2",
                                  min_count=2)),
    (BPE.encode, dict(text=TEXT, special=False)),
    (BPE.encode_stream, dict(texts=[TEXT], special=False)),
    (BPE.encode_bytes, dict(piece=b"ab")),
    (BPE.decode_bytes, dict(ids=[1, 2])),
    (BPE.decode, dict(ids=[1, 2])),
    (BPE.decode_stream, dict(ids=[1, 2])),
    (bpe_files.spell, dict(token=b"ab")),
    (bpe_files.unspell, dict(spelling="ab")),
    (bpe_files.save_gpt2, dict(tokenizer=BPE, folder="gpt2")),
    (bpe_files.load_gpt2, dict(folder="gpt2", pattern="gpt2")),
    (bpe_files.save_json, dict(tokenizer=BPE, path="bpe.json")),
    (bpe_files.load_json, dict(path="bpe.json")),
    (tokenizer_files.save_tokenizer, dict(tokenizer=BPE, path="tokenizer.json")),
    (tokenizer_files.load_tokenizer, dict(path="tokenizer.json")),
    (bpe_merges.learn_merges, dict(pieces={b"ab": 3}, n_merges=1, min_count=2)),
    (copying.names, dict(split="train")),
    (copying.random_names, dict(rng=RNG, n=2, length=(3, 5))),
    (copying.copy_lines, dict(rng=RNG, pool=["ab", "c"], n=2, n_names=3)),
    (copying.as_batch, dict(texts=["ab", "c"])),
    (corpora.load, dict(name="names")),
    (number_words.words, dict(n=21, language="de")),
    (number_words.tokens, dict(n=21, language="de")),
    (number_words.morphemes, dict(word="einund")),
    (number_words.vocabulary, dict(language="de")),
    (number_words.encode, dict(n=21, language="de")),
    (number_words.decode, dict(ids=[3, 4, 2], language="de")),
    (number_words.pairs, dict(numbers=[1, 2], source="de", target="en")),
    (number_words.split_of, dict(n=21)),
    (number_words.numbers, dict(split="test", by="number", digits=[3])),
    (parentheses.is_balanced, dict(sequence=[0, 9], n_colours=5)),
    (parentheses.balanced, dict(rng=RNG, n=2, pairs=3, n_colours=5)),
    (parentheses.corrupt, dict(rng=RNG, sequence=np.array([0, 1, 8, 9]), kind="swap", n_colours=5)),
    (word_vectors.load().ids, dict(words=["king", "queen"])),
    (word_vectors.analogy_questions, dict(pairs=[("a", "b"), ("c", "d")])),
    (tagging.encode, dict(sentence="time flies")),
    (tagging.split, dict(rng=RNG, n_train=20, n_held_out=2)),
    (tagging.most_frequent_tags, dict(data=tagging.lecture())),
    (tagging.lecture().text, dict(i=0)),
    (symbols.parentheses, dict(rng=RNG, n=2, pairs=(2, 3), n_colours=2, negatives=["swap"],
                             coupled=False)),
    (symbols.adversarial, dict(rng=RNG, n=2, pairs=(3, 4), n_colours=2)),
    (symbols.copy_task, dict(rng=RNG, n=2, delay=3, n_symbols=4, n_distractors=2, n_copied=1)),
    (tokens.CharTokenizer, dict(vocab=["a", "b"])),
    (tokens.CharTokenizer.train, dict(text=TEXT)),
    (CHARS.encode, dict(text=TEXT)),
    (CHARS.decode, dict(ids=[1, 2])),
    (tokens.WordTokenizer, dict(vocab=WORDS.vocab, lowercase=True)),
    (tokens.WordTokenizer.train, dict(text=TEXT, min_count=1, max_size=None, lowercase=True)),
    (WORDS.encode, dict(text=TEXT)),
    (WORDS.encode_lines, dict(text=TEXT)),
    (WORDS.decode, dict(ids=[1, 2])),
    (tokens.words, dict(text=TEXT, lowercase=True)),
    (wordpiece.characters, dict(word="hug")),
    (wordpiece.pair_scores, dict(counts={("h", "##u"): 3}, criterion="gain")),
    (wordpiece.join, dict(tokens=("h", "##u"), pair=("h", "##u"))),
    (wordpiece.WordPieceTokenizer, dict(vocab=PIECES.vocab, lowercase=True)),
    (wordpiece.WordPieceTokenizer.train, dict(text=TEXT, n_merges=3, criterion="ratio",
                                              lowercase=True)),
    (PIECES.encode, dict(text=TEXT)),
    (PIECES.encode_word, dict(word="bad")),
    (PIECES.decode, dict(ids=[1, 2])),
    # models: n-grams and vectors
    (ngram_counts.NGramCounts, dict(sequences=IDS, order=2, vocab_size=5, bos=None, eos=None)),
    (COUNTS.next_counts, dict(context=[1])),
    (COUNTS.unseen_share, dict(sequences=IDS, n=2)),
    (ngram.NGram, dict(counts=COUNTS, smoothing="absolute", order=2, alpha=None, discount=0.5,
                       modified=False)),
    (ngram.NGram.fit, dict(sequences=IDS, order=2, vocab_size=5, smoothing="additive", bos=None,
                           eos=None, alpha=1.0)),
    (NGRAM, dict(tokens=ROWS.numpy())),
    (NGRAM.log_probs, dict(contexts=ROWS.numpy(), targets=np.array([1, 2]))),
    (NGRAM.score, dict(sequences=IDS)),
    (NGRAM.sample, dict(rng=RNG, n_tokens=2, prompt=[1])),
    (NGRAM.backoff_weights, dict(contexts=np.array([[1], [2]]))),
    (ngram.estimated_discounts, dict(counts=np.array([1, 2, 3]), modified=False)),
    (ngram_arpa.write_arpa, dict(model=NGRAM, path="x.arpa", vocab=list("abcde"))),
    (vectors.cooccurrences, dict(texts=IDS, vocab_size=5, window=2)),
    (vectors.pmi, dict(counts=np.ones((3, 3)), smoothing=0.75, negatives=1)),
    (vectors.ppmi, dict(counts=np.ones((3, 3)), smoothing=0.75, negatives=1)),
    (vectors.svd_vectors, dict(table=np.eye(4), d=2, power=0.5)),
    (vectors.unit, dict(vectors=np.eye(3))),
    (vectors.cosines, dict(vectors=np.eye(3), others=np.eye(3))),
    (vectors.neighbours, dict(vectors=np.eye(3), query=np.ones(3), n=1, exclude=[0])),
    (vectors.analogies, dict(vectors=np.eye(5), questions=[[0, 1, 2]], exclude_question=True,
                             rule="add", epsilon=0.1)),
    (vectors.odd_one_out, dict(vectors=np.eye(5), words=[0, 1, 2])),
    (skipgram.SkipGram, dict(vocab_size=5, d=2)),
    (skipgram.SkipGram(5, 2), dict(words=ids(2), contexts=ids(2), negatives=ids(2, 3))),
    (skipgram.pairs, dict(tokens=IDS, window=2, rng=RNG)),
    (skipgram.keep_probability, dict(counts=[1, 2], threshold=0.1, rule="paper")),
    (skipgram.SkipGramSettings, dict(d=2, window=2, negatives=1, power=0.75, threshold=None,
                                     n_epochs=1, batch_size=8, lr=0.01)),
    (skipgram.train, dict(tokens=IDS, vocab_size=5, settings=QUICK, seed=0, device="cpu")),
    (skipgram.sample, dict(cumulative=floats(3), size=(2,), generator=GENERATOR)),
    # models: the engine
    (autograd.Tensor, dict(data=[1.0, 2.0])),
    (autograd.matmul, dict(a=TENSOR, b=np.ones(3))),
    (gradcheck.numerical_jacobian, dict(f=np.sum, x=np.ones(3), eps=1e-6)),
    (gradcheck.gradcheck, dict(f=np.sum, x=np.ones(3), grad=np.ones(3), eps=1e-6, tolerance=1e-6)),
    # models: recurrent
    (recurrent.Recurrent, dict(input_size=3, hidden_size=4, cell="lstm", n_layers=2,
                               bidirectional=False, dropout=0.1, implementation="auto",
                               forget_bias=1.0)),
    (STACK, dict(x=floats(2, 5, 3), state=None, mask=torch.ones(2, 5) > 0)),
    (recurrent.keras_gru_weights, dict(kernel=floats(3, 12), recurrent_kernel=floats(4, 12),
                                       bias=floats(2, 12))),
    (recurrent_cells.ElmanCell, dict(input_size=3, hidden_size=4, nonlinearity="tanh")),
    (recurrent_cells.GRUCell, dict(input_size=3, hidden_size=4, reset_after=True)),
    (recurrent_cells.LSTMCell, dict(input_size=3, hidden_size=4, forget_bias=1.0)),
    (CELL.step, dict(x=floats(2, 3), state=floats(2, 4))),
    (CELL.gate_values, dict(x=floats(2, 3), state=floats(2, 4))),
    (CELL.rows, dict(gate="z")),
    (recurrent_lm.RecurrentLM, dict(vocab_size=5, cell="gru", embedding_dim=3, hidden_size=4,
                                    n_layers=1, dropout=0.1, tie_embeddings=False,
                                    implementation="auto")),
    (GRU, dict(tokens=ROWS, cache=None)),
    (GRU.hidden, dict(tokens=ROWS, cache=None)),
    (neural_lm.NeuralLMConfig, dict(vocab_size=5, context_length=2, embedding_dim=3, hidden_size=4,
                                    direct_connections=False, tie_embeddings=False, init_std=None)),
    (neural_lm.NeuralLM, dict(config=NEURAL)),
    (neural_lm.NeuralLM(NEURAL), dict(tokens=ROWS, cache=None)),
    (neural_lm.NeuralLM(NEURAL).context, dict(tokens=ROWS, cache=None)),
    (seq2seq.MemoryAttention, dict(query_size=3, memory_size=3, score="additive", width=4)),
    (seq2seq.MemoryAttention(4, 4), dict(query=X, memory=X, mask=MASK, keys=None)),
    (seq2seq.Seq2Seq, dict(source_size=5, target_size=5, embedding_dim=3, hidden_size=4, cell="gru",
                           n_layers=1, bidirectional=True, attention="dot", query="current",
                           implementation="auto")),
    (SEQ, dict(source=ROWS, target=ROWS, source_mask=MASK, cache=None, return_weights=False)),
    (SEQ.hidden, dict(source=ROWS, target=ROWS, source_mask=MASK, cache=None)),
    (SEQ.encode, dict(source=ROWS, mask=MASK)),
    (ssm.discretise, dict(step=X, decay=-floats(4, 5), write=floats(2, 3, 5), rule="euler")),
    (ssm.scan, dict(keep=X, add=X, state=floats(2, 4))),
    (ssm.parallel_scan, dict(keep=X, add=X, state=floats(2, 4))),
    (ssm.Mamba, dict(d_model=4, d_inner=None, d_state=3, step_rank=None, conv_width=2,
                     scan="loop")),
    (ssm.Mamba(4), dict(x=X, state=None)),
    (ssm_lm.SelectiveLM, dict(vocab_size=5, d_model=4, n_layers=1, tie_embeddings=True,
                              norm_eps=1e-5, d_state=3)),
    (ssm_lm.SelectiveLM(5, d_model=4), dict(tokens=ROWS, cache=None)),
    # models: the Transformer
    (attention.attend, dict(q=Q, k=Q, v=Q, mask=torch.ones(3, 3) > 0, bias=torch.zeros(3, 3),
                            causal=False, scale=1.0, dropout=0.1, implementation="auto",
                            return_weights=False)),
    (flash.flash_attend, dict(q=Q, k=Q, v=Q, mask=torch.ones(3, 3) > 0, causal=False, scale=1.0,
                              block=2)),
    (heads.MultiHeadAttention, dict(d_model=4, n_heads=2, n_kv_heads=None, head_dim=None,
                                    d_source=None, bias=True, dropout=0.1, scale=None, rotary=None,
                                    implementation="auto")),
    (heads.MultiHeadAttention(4, 2), dict(x=X, source=None, mask=torch.ones(1, 1, 3, 3) > 0,
                                          causal=False, bias=None, positions=None, cache=None,
                                          return_weights=False)),
    (heads.attention_weights, dict(model=LM)),
    (masks.causal_mask, dict(T=2, S=3, device=None)),
    (masks.window_mask, dict(T=2, S=3, window=2, device=None)),
    (masks.prefix_mask, dict(T=3, prefix=2, device=None)),
    (masks.padding_mask, dict(real=MASK)),
    (masks.distances, dict(T=2, S=3, device=None)),
    (masks.prepare, dict(mask=torch.ones(3, 3) > 0, bias=torch.zeros(3, 3), T=3, S=3, causal=True,
                         positions=None, device=None)),
    (positions.sinusoidal, dict(positions=3, d_model=4, base=1e4)),
    (positions.alibi_slopes, dict(n_heads=4)),
    (positions.alibi_bias, dict(n_heads=4, T=2, S=3, device=None)),
    (positions.RelativeBias, dict(n_heads=2, n_buckets=32, max_distance=128, bidirectional=False)),
    (positions.RelativeBias(2), dict(behind=masks.distances(3))),
    (positions.Rotary, dict(head_dim=4, context_length=9, base=1e4, layout="half",
                            rotary_dim=None)),
    (positions.Rotary(4), dict(x=Q, positions=torch.arange(3))),
    (layers.RMSNorm, dict(width=4, eps=1e-5, implementation="auto")),
    (layers.LayerNorm, dict(width=4, eps=1e-5, bias=True, implementation="auto")),
    (layers.RMSNorm(4), dict(x=X)),
    (layers.FeedForward, dict(d_model=4, d_ff=6, activation="gelu", bias=True)),
    (layers.FeedForward(4, 6), dict(x=X)),
    (block.Block, dict(config=NO_WORDS, causal=True, cross=False, rotary=None)),
    (block.Block(NO_WORDS, causal=True), dict(x=X, mask=None, cache=None, source=None,
                                              source_mask=None, source_cache=None)),
    (transformer_config.TransformerConfig, dict(
        vocab_size=5, d_model=4, n_layers=1, n_heads=2, context_length=9, n_kv_heads=None,
        head_dim=None, d_ff=None, activation="gelu", norm="layer", norm_first=True, final_norm=None,
        norm_eps=1e-5, parallel=False, embedding_norm=False, position="rotary", rope_theta=1e4,
        rotary_dim=None, n_buckets=32, max_distance=128, window=None, n_token_types=0, bias=True,
        tie_embeddings=True, scale_embedding=False, scale_scores=True, scale_logits=False,
        dropout=0.0, attention_dropout=None, residual_dropout=None, embedding_dropout=None,
        init_std=0.02, implementation="auto")),
    (transformer_config.preset, dict(name="gpt2", n_layers=2)),
    (transformer.Stack, dict(config=NO_WORDS, causal=True, cross=False)),
    (transformer.TransformerLM, dict(config=CONFIG)),
    (LM, dict(tokens=ROWS, mask=MASK, positions=torch.arange(3), cache=None)),
    (LM.hidden, dict(tokens=ROWS, mask=MASK)),
    (LM.embed, dict(tokens=ROWS)),
    (transformer.Encoder, dict(config=CONFIG)),
    (TYPED, dict(tokens=ROWS, mask=MASK, token_types=ROWS % 2)),
    (encoder_decoder.EncoderDecoder, dict(config=CONFIG)),
    (PAIR, dict(source=ROWS, target=ROWS, source_mask=MASK, target_mask=MASK, cache=None)),
    (PAIR.encode, dict(source=ROWS, mask=MASK)),
    (depth.Stack, dict(width=3, n_layers=2, activation="relu", residual=False)),
    (depth.Stack(4, 2), dict(x=X)),
    (depth.start_std, dict(shape=(3, 4), scheme="he", mode=None)),
    (depth.start, dict(weight=floats(3, 4), scheme="he", mode=None, distribution="normal",
                       generator=GENERATOR)),
    (depth.spread, dict(x=X)),
    (moe.MixtureOfExperts, dict(d_model=4, d_ff=6, n_experts=3, top_k=2, renormalise=None,
                                capacity_factor=None, activation="swiglu", bias=False)),
    (EXPERTS, dict(x=X)),
    (moe.balance_loss, dict(probs=floats(4, 3), experts=ids(4, 2) % 3, form="switch", mask=None)),
    (moe.with_balance, dict(loss=losses.next_token_loss, coefficient=0.01, form="switch")),
    (nf4.quantise, dict(weights=floats(3, 4), double=False)),
    (nf4.dequantise, dict(quantised=nf4.quantise(floats(3, 4)))),
    (nf4.QuantisedLinear, dict(linear=LINEAR, double=False)),
    (lora.LoRALinear, dict(base=nn.Linear(4, 6), rank=2, alpha=16.0, dropout=0.1)),
    (lora.add_lora, dict(model=LM, names="*.q_proj", rank=2, alpha=16.0, dropout=0.1,
                         quantise=False, double=False)),
    (lora.merge, dict(model=LM)),
    (lora.lora_state, dict(model=LM)),
    (lora.load_lora_state, dict(model=LM, state={})),
    (vit.patches, dict(images=floats(2, 1, 4, 4), size=2)),
    (vit.VisionTransformer, dict(config=NO_WORDS, image_size=(4, 4), patch_size=2, n_classes=3,
                                 n_channels=1)),
    (VIT, dict(images=floats(2, 1, 4, 4))),
    (pretrained.config_from, dict(reference=dict(vocab_size=5, n_embd=4, n_layer=1, n_head=2,
                                                 n_positions=9), family="gpt2")),
    (pretrained.from_torch, dict(theirs=TORCHS, vocab_size=5)),
    (architectures.printed, dict(count=1234, like="1,234")),
    (architectures.tiny, dict(config=CONFIG)),
    # training
    (losses.cross_entropy, dict(logits=LOGITS, targets=ids(2))),
    (losses.per_target, dict(function=losses.cross_entropy)),
    (losses.next_token_loss, dict(model=LM, batch=BATCH, cache=None, chunk_rows=2)),
    (fit.fit, dict(model=LM, batches=[(ROWS, ROWS)], loss=losses.next_token_loss, valid=None,
                   config=settings.FitConfig(n_steps=1, lr=0.1), checkpoint=None, progress=False)),
    (settings.FitConfig, dict(
        n_steps=3, lr=0.1, optimizer="adamw", betas=None, momentum=0.0, weight_decay=0.0,
        schedule="linear", warmup_steps=0, decay_steps=None, min_lr_ratio=0.0, grad_clip=1.0,
        grad_accum_steps=1, eval_every=1, log_every=None, checkpoint_seconds=60.0, precision="auto",
        compile=False, carry_state=False, seed=0)),
    (settings.FitConfig(n_steps=3, lr=0.1).factor, dict(step=0)),
    (settings.FitConfig(n_steps=3, lr=0.1).build, dict(model=LM)),
    (schedule.constant, dict(step=0, n_steps=3, warmup_steps=1)),
    (schedule.linear, dict(step=0, n_steps=3, warmup_steps=1, min_lr_ratio=0.1)),
    (schedule.cosine, dict(step=0, n_steps=3, warmup_steps=1, min_lr_ratio=0.1)),
    (checkpoint.save, dict(to="x.pt", contents={"a": 1}, config={"b": 2})),
    (model_files.save_model, dict(model=LM, path="model.pt")),
    (model_files.load_model, dict(path="model.pt")),
    (checkpoint.load, dict(source="y.pt", config={"b": 2})),
    (cost.parameters, dict(config=CONFIG, kind="decoder")),
    (cost.counted, dict(architecture=architectures.ARCHITECTURES["GPT-1"])),
    (cost.cache_bytes, dict(config=CONFIG, n_tokens=3, batch=1, n_source=0, dtype=torch.float32)),
    (cost.flops, dict(config=CONFIG, n_tokens=3, batch=1, kind="decoder", n_source=0, n_cached=0,
                      pairs="all", training=False, checkpointing=False)),
    (memory.state_bytes, dict(config=CONFIG, kind="decoder", dtype=torch.float32,
                              optimiser="adamw")),
    (memory.activation_bytes, dict(config=CONFIG, n_tokens=3, batch=1, dtype=torch.float32,
                                   stored_scores=False, checkpointing=False)),
    (scaling.valley, dict(sizes=[1, 2, 3], losses=[3, 2, 4])),
    (scaling.power_law, dict(x=[1, 2], y=[3, 4])),
    (scaling.Law, dict(floor=1.8, A=482.0, alpha=0.3, B=2085.0, beta=0.4)),
    (scaling.Law().loss, dict(parameters=1e6, tokens=1e7)),
    (scaling.Law().best, dict(compute=1e15)),
    (scaling.Law().tokens, dict(parameters=1e6)),
    (evaluate.bits, dict(nats=2.5)),
    (evaluate.perplexity, dict(mean_nats=2.5)),
    (evaluate.bits_per_byte, dict(total_nats=2.5, n_bytes=3)),
    (evaluate.evaluate, dict(model=LM, tokens=IDS, n_bytes=12, start=0, context_length=9, overlap=2,
                             batch_size=2)),
    (generate.generate, dict(
        model=LM, prompt=PROMPT, n_new=2, source=None, source_mask=None, rng=GENERATOR, cache=True,
        stop=None, stop_strings=(), decode=None, repetition_penalty=1.0, presence_penalty=0.0,
        frequency_penalty=0.0, temperature=1.0, top_k=None, top_p=None, min_p=None,
        typical_p=None)),
    (generate.stream, dict(model=LM, prompt=PROMPT, n_new=2, source=None, source_mask=None,
                           rng=GENERATOR, cache=True, stop=None, stop_strings=(), decode=None)),
    (beam.beam_search, dict(
        model=LM, prompt=PROMPT, n_new=2, n_beams=2, n_best=1, alpha=0.0, divisor="n**alpha",
        early_stopping=False, stop=None, source=None, source_mask=None, cache=True)),
    (exact.exact_mode, dict(model=LM, prompt=PROMPT, n_new=2, stop=None, source=None,
                           source_mask=None, max_reads=100, cache=True)),
    (speculative.speculate, dict(model=LM, draft=LM, prompt=PROMPT, n_new=2, n_ahead=2,
                                 rng=GENERATOR, cache=True)),
    (
        samplers.Sampling,
        dict(
            repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0, temperature=1.0,
            top_k=None, top_p=None, min_p=None, typical_p=None,
        ),
    ),
    (samplers.divide_by_temperature, dict(logits=LOGITS, temperature=0.5)),
    (samplers.top_k_filter, dict(logits=LOGITS, top_k=2)),
    (samplers.top_p_filter, dict(logits=LOGITS, top_p=0.5)),
    (samplers.min_p_filter, dict(logits=LOGITS, min_p=0.5)),
    (samplers.typical_filter, dict(logits=LOGITS, typical_p=0.5)),
    (samplers.penalise_repetition, dict(logits=LOGITS, seen=LOGITS > 0.5, theta=1.5)),
    (samplers.penalise_counts, dict(logits=LOGITS, counts=ids(2, 5), presence=0.5, frequency=0.5)),
    (samplers.token_counts, dict(tokens=ROWS, vocab_size=5, mask=MASK)),
    (samplers.no_repeat_ngram_filter, dict(logits=LOGITS, tokens=ROWS, size=2)),
    (samplers.suppress, dict(logits=LOGITS, ids=(1, 3))),
    (preference.answer_batch, dict(prompts=PAIRS_OF_TEXTS, answers=PAIRS_OF_TEXTS)),
    (preference.preference_batch, dict(prompts=PAIRS_OF_TEXTS, chosen=PAIRS_OF_TEXTS,
                                       rejected=PAIRS_OF_TEXTS)),
    (preference.reward_batch, dict(chosen=PAIRS_OF_TEXTS, rejected=PAIRS_OF_TEXTS)),
    (preference.sequence_log_probs, dict(model=LM, inputs=ROWS, targets=ROWS)),
    (preference.bradley_terry_loss, dict(chosen=floats(2), rejected=floats(2))),
    (preference.dpo_loss, dict(log_probs=floats(3, 2), reference_log_probs=floats(3, 2), beta=0.1)),
    (preference.dpo_objective, dict(reference=LM, beta=0.1)),
    (preference.RewardModel, dict(body=LM)),
    (preference.RewardModel(LM), dict(tokens=ROWS, mask=MASK)),
]  # fmt: skip

# Public, but not called by readers with arguments of their own: what the library makes and hands
# out (results, caches, states), the parts of which the callables above are made, and operations of
# chapter 7's engine, which has promised to stay within 150 lines.
PARTS = """
    Padded CopyLines Corpus Pairs WordVectors Tagged Parentheses Copy Architecture Reach Routing
    NeuralLMCache RecurrentCache Seq2SeqCache SelectiveState Quantised CountLevel Layout Report
    Batch Hypotheses Evaluation Mode History FitResult DivergedError Speculation LayerCache KVCache
    BatchIterator to_device Trainer Processes LostError Reader check_* stop_ids in_mode recording
    launch method_for device enter shard to_jsonable combine
    Cell MinimalGatedCell hidden detach select project update initial_state new_* Embedded make_*
    initialise copy_block load_* load read* save* try_writing lecture all_sentences analogy_pairs
    names vocabulary nf4_levels adapters unmerge remove_lora routings gather reshape backward
    add sub mul div exp log tanh relu sigmoid power sum broadcast_to log_softmax elementwise
    topological_order followers context_rows ngram_* concatenate states
    encode logits forward fork detach draw probs penalise uses_bf16 to_dict replace as_torch
    reward_loss bucket route quantised of_block source cast_for_products
""".split()

# What is taken on purpose, and why: a value, then the arguments, as callable.argument.
LEGITIMATE = {
    "0": (
        "nothing at all, or a bound that is allowed",
        "*.n_merges random_names.n copy_task.delay *.eos NGram.discount *.n_tokens *.smoothing "
        "*.power Tensor.data gradcheck.tolerance *.forget_bias *dropout *.init_std *.eps "
        "*.norm_eps prefix_mask.prefix sinusoidal.positions with_balance.coefficient printed.count "
        "FitConfig.momentum FitConfig.weight_decay *.min_lr_ratio FitConfig.checkpoint_seconds "
        "*.warmup_steps Law.floor bits.nats *.mean_nats *.total_nats evaluate.overlap *.n_new "
        "*.stop *_penalty *.temperature *.min_p beam_search.alpha penalise_counts.*",
    ),
    "-1": (
        "a number that may be negative",
        "pad.pad_id svd_vectors.power Tensor.data *.forget_bias printed.count "
        "bits.nats *_penalty beam_search.alpha penalise_counts.*",
    ),
    "2.5": (
        "a number like any other",
        "*.alpha *.negatives *.power *.epsilon *.threshold *.lr Tensor.data *.eps "
        "numerical_jacobian.x *.tolerance *.forget_bias *.init_std *.norm_eps *.scale *.base "
        "*.rope_theta "
        "*.capacity_factor *.coefficient *.weight_decay *.grad_clip *.checkpoint_seconds Law.* "
        "*_penalty *.temperature *.theta penalise_counts.* *.beta",
    ),
    "inf": ("nats of what was impossible", "Tensor.data bits.nats *.mean_nats *.total_nats"),
    "nan": ("a NaN in gives a NaN out", "Tensor.data bits.nats"),
    "NaN": ("a NaN in gives a NaN out, and agrees with nothing", "unit.* matmul.b gradcheck.grad"),
    "True": ("where None stands for one of the two", "*.final_norm *.renormalise Tensor.data"),
    "None": (
        "what None stands for is written in the signature or the docstring",
        "NGram.fit.alpha Recurrent.forget_bias prepare.* FitConfig.grad_clip",
    ),
    "other axes": (
        "more axes in front, or texts in rows",
        "*.sequences unit.* numerical_jacobian.x *.mask prepare.bias attend.bias Rotary().* "
        "*Norm().x FeedForward().x Stack().x spread.x MixtureOfExperts().x quantise.weights "
        "*_filter.logits suppress.logits divide_by_temperature.logits penalise_*",
    ),
    "empty": (
        "no rows in, no rows out",
        "NGram().tokens NGram.backoff_weights.contexts *.counts cooccurrences.texts unit.* "
        "cosines.* pairs.tokens numerical_jacobian.x keras_gru_weights.kernel NeuralLM* "
        "Mamba().x SelectiveLM().tokens MultiHeadAttention().x padding_mask.real RelativeBias().* "
        "Rotary().x *Norm().x FeedForward().x Block().x Embedded.embed.tokens Stack().x "
        "MixtureOfExperts().x patches.images VisionTransformer().images *_filter.logits "
        "suppress.logits divide_by_temperature.logits",
    ),
    "negative": (
        "vectors and derivatives of any sign",
        "svd_vectors.table unit.* cosines.* neighbours.* analogies.vectors odd_one_out.vectors "
        "matmul.b numerical_jacobian.x gradcheck.*",
    ),
    "[]": (
        "no number",
        "cooccurrences.texts pairs.tokens Tensor.data bits.nats unit.* numerical_jacobian.x *.stop "
        "*.counts Law.*",
    ),
    "'x'": ("a text is its characters", "CharTokenizer.vocab"),
    "{}": ("no id", "*.stop *.exclude"),
}  # fmt: skip


VALUES = {
    "None": None, "'x'": "x", "-1": -1, "0": 0, "2.5": 2.5, "nan": math.nan, "inf": math.inf,
    "10**30": 10**30, "True": True, "[]": [], "{}": {}, "object": object(),
    "numpy's generator": np.random.default_rng(0), "torch's generator": torch.Generator(),
}  # fmt: skip
MUTATING = ("add_lora", "merge", "LoRALinear", "start", "RewardModel", "build")


def variants(good):
    """Bad values that are made from the good one: another library's, other axes, other dtypes."""
    if isinstance(good, torch.Tensor):
        other = good.long() if good.is_floating_point() else good.float()
        yield from {"numpy's": good.numpy(), "a list": good.tolist(), "another dtype": other,
                    "other axes": good[None], "empty": good[:0]}.items()  # fmt: skip
    elif isinstance(good, np.ndarray):
        yield from {"texts": good.astype(str), "NaN": np.full(good.shape, math.nan),
                    "negative": -1.0 - np.abs(good), "other axes": good[None],
                    "empty": good[:0]}.items()  # fmt: skip


def name_of(f):
    if isinstance(f, nn.Module) or not hasattr(f, "__qualname__"):
        return f"{type(f).__name__}()"
    return f.__qualname__


def is_fine(f, name, good, what, value):
    """Whether this value is as good as the good one, by the argument's own kind."""
    default = inspect.signature(f.forward if isinstance(f, nn.Module) else f).parameters.get(name)
    return (
        value is good
        or (type(value) is type(good) and not hasattr(good, "shape") and value == good)
        or (value is None and default is not None and default.default is None)
        or (value is True and isinstance(good, bool))
        or (isinstance(value, np.random.Generator) and isinstance(good, np.random.Generator))
        or (isinstance(value, torch.Generator) and isinstance(good, torch.Generator))
    )


def raised_here(error):
    """Whether the error comes from a `raise` of our own."""
    last = error.__traceback__
    while last.tb_next:
        last = last.tb_next
    code = last.tb_frame.f_code
    ours = "unrolled" in code.co_filename
    return ours and dis.opname[code.co_code[last.tb_lasti]] == "RAISE_VARARGS"


def judged(f, arguments, name):
    """("clear", "obscure" or "taken", what was said)."""
    value = arguments[name]
    try:
        result = f(**arguments)
        if isinstance(result, contextlib.AbstractContextManager) and hasattr(result, "gen"):
            result.__enter__()
        elif isinstance(result, Iterator):
            list(itertools.islice(result, 20))
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        ours = isinstance(error, (ValueError, TypeError, IndexError)) and raised_here(error)
        shown = [name, type(value).__name__, repr(value)[:20]]
        if hasattr(value, "shape"):
            shown += [str(tuple(value.shape)), str(value.dtype)]
        return ("clear" if ours and any(x in str(error) for x in shown) else "obscure"), said
    return "taken", ""


def calls():
    """(callable.argument, the good value, what is wrong, the judgement) of every bad call."""
    for f, good in GOOD:
        changes = name_of(f).rpartition(".")[2] in MUTATING or f is fit.fit
        f(**(copy.deepcopy(good) if changes else good))
        for name, value in good.items():
            for what, bad in itertools.chain(VALUES.items(), variants(value)):
                if not is_fine(f, name, value, what, bad):
                    arguments = (copy.deepcopy(good) if changes else good) | {name: bad}
                    yield f"{name_of(f)}.{name}", value, what, *judged(f, arguments, name)


def is_legitimate(where, good, what):
    """A text for a text, an empty list for a list; or what is listed."""
    if isinstance(good, str) and what == "'x'":
        return True
    if isinstance(good, (list, tuple, dict)) and what in ("[]", "{}"):
        return True
    what = "2.5" if what == "10**30" else what  # a large number is a number like any other
    return any(fnmatchcase(where, pattern) for pattern in LEGITIMATE.get(what, ("", ""))[1].split())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.chdir(tmp_path_factory.mktemp("bad"))
        checkpoint.save("y.pt", {"a": 1}, config={"b": 2})
        return list(calls())


def test_no_bad_call_is_answered_in_silence(made):
    silent = [
        f"{where}: {what}"
        for where, good, what, kind, _ in made
        if kind == "taken" and not is_legitimate(where, good, what)
    ]
    assert not silent, f"{len(silent)}: {silent[:40]}"


def test_nearly_all_errors_are_ours_and_say_what_was_given(made):
    kinds = Counter(kind for *_, kind, _ in made)
    unclear = [
        f"{where}: {what}: {said}" for where, _, what, kind, said in made if kind == "obscure"
    ]
    assert kinds.total() > 5_000
    assert kinds["obscure"] < 0.02 * kinds.total(), (kinds, unclear)


def test_what_is_listed_as_legitimate_is_taken(made):
    taken = [(what, where) for where, _, what, kind, _ in made if kind == "taken"]
    idle = [
        (value, pattern)
        for value, (_, patterns) in LEGITIMATE.items()
        for pattern in patterns.split()
        if not any(what == value and fnmatchcase(where, pattern) for what, where in taken)
    ]
    assert not idle


def test_everything_public_is_called_or_is_a_part():
    called = {part for f, _ in GOOD for part in name_of(f).strip("()").split(".")}
    missing = []
    for floor in ("data", "models", "training", "generation", "accounting"):
        package = importlib.import_module(f"unrolled.{floor}")
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if "._" in info.name:
                continue
            for name, thing in vars(importlib.import_module(info.name)).items():
                ours = getattr(thing, "__module__", None) == info.name and callable(thing)
                if ours and not name.startswith("_") and name not in called:
                    missing.append(name)
    assert not [name for name in missing if not any(fnmatchcase(name, p) for p in PARTS)]


# What people do first, and what they read then.
FIRST = [
    (LM, (ROWS.numpy(),), {}, TypeError, r"give torch.from_numpy\(tokens\)"),
    (LM, ([[1, 2]],), {}, TypeError, r"give torch.tensor\(tokens\)"),
    (GRU, (ROWS.float(),), {}, TypeError, "tokens must be ids of int64, got torch.float32"),
    (attention.attend, (Q, Q.double(), Q), {}, TypeError, "of one dtype, got torch.float32, torch"),
    (attention.attend, (Q, Q, Q), {"scale": math.nan}, ValueError, "scale must be finite, got nan"),
    (attention.attend, (Q, Q, Q), {"scale": 0}, ValueError, "scale must be above 0, got 0"),
    (attention.attend, (Q, Q, Q), {"scale": "1"}, TypeError, "scale must be a number, got '1'"),
    (heads.MultiHeadAttention(4, 2), (X,), {"positions": torch.arange(3)}, ValueError,
     "this attention has none"),
    (LM, (ROWS, MASK.int()), {}, TypeError, "True where a token stands"),
    (block.Block(NO_WORDS, causal=True), (X,), {"source_mask": MASK}, ValueError, "there is none"),
    (batches.random_batch, (GENERATOR, IDS), {"batch_size": 2, "seq_len": 3}, TypeError,
     r"np.random.default_rng\(seed\) makes one"),
    (generate.generate, (LM, PROMPT, 2), {"rng": RNG}, TypeError,
     r"torch.Generator\(\).manual_seed\(seed\) makes one"),
    (generate.generate, (transformer.TransformerLM, PROMPT, 2), {}, TypeError,
     "got the class TransformerLM itself"),
    (generate.generate, (LM, PROMPT, 2), {"source": ROWS}, ValueError, "LM reads no source"),
    (generate.generate, (PAIR, PROMPT, 2), {}, ValueError, "give source"),
    (generate.generate, (LM, PROMPT, 2), {"source_mask": MASK}, ValueError, "there is none"),
    (generate.generate, (LM, PROMPT, 2), {"presence_penalty": None}, TypeError, "got None"),
    (pretrained.from_torch, (TORCHS.encoder, 5), {}, TypeError, "got a torch TransformerEncoder"),
    (tokens.CharTokenizer, (["ab"],), {}, ValueError, "single characters, got 'ab'"),
    (masks.causal_mask, (2.5,), {}, TypeError, "T must be an integer, got 2.5"),
    (masks.causal_mask, (10**30,), {}, ValueError, "T must fit into 64 bits"),
    (positions.alibi_slopes, (10**30,), {}, ValueError, "n_heads must fit into 64 bits"),
    (recurrent.Recurrent, (3, 4), {"bidirectional": "no"}, TypeError, "True or False, got 'no'"),
    (samplers.top_p_filter, (torch.tensor([1.0, math.nan, 0]), 0.5), {}, ValueError, "hold NaN"),
    (evaluate.perplexity, (-1,), {}, ValueError, "mean_nats must be at least 0, got -1"),
    (evaluate.bits_per_byte, (-1, 3), {}, ValueError, "total_nats must be at least 0, got -1"),
    (settings.FitConfig, (), {"n_steps": 1, "lr": 1, "schedule": lambda step: -1}, ValueError,
     "the schedule's factor at step 0 must be at least 0, got -1"),
    (settings.FitConfig, (), {"n_steps": 1, "lr": 1, "schedule": lambda step: math.nan}, ValueError,
     "the schedule's factor at step 0 must be finite"),
    (lora.add_lora, (LM, []), {}, ValueError, "a name or more"),
]  # fmt: skip


@pytest.mark.parametrize(("f", "given", "named", "error", "said"), FIRST)
def test_what_people_do_first_is_answered(f, given, named, error, said):
    with pytest.raises(error, match=said):
        f(*given, **named)
