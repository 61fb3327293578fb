"""Whatever is wrong with an argument, the library says so: no bad call is answered in silence.

From one good call of everything public, each argument in turn takes each of some bad values. What
comes back is clear (an error of ours that names the argument or what was given), obscure (any other
error) or taken; what is taken must be listed as legitimate.
"""

import copy
import dis
import importlib
import inspect
import itertools
import math
import pkgutil
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import FrozenInstanceError, is_dataclass
from fnmatch import fnmatchcase
from fractions import Fraction

import numpy as np
import pytest
import torch
from comparing import refuses
from torch import nn
from unrolled import accounting, data, generation, models, training
from unrolled.validate import one_of, real, whole
from unrolled_book import depth, scaling, vectors, word_vectors
from unrolled_book.tasks import copying, number_words, parentheses, symbols, tagging

FLOORS = (accounting, data, generation, models, training)
MODULES = [
    importlib.import_module(info.name)
    for floor in FLOORS
    for info in pkgutil.walk_packages(floor.__path__, f"{floor.__name__}.")
    if "._" not in info.name
]


def floats(*shape):
    return torch.linspace(0.1, 0.9, math.prod(shape)).reshape(shape)


def ids(*shape):
    return torch.arange(math.prod(shape)).reshape(shape) % 5


attend, generate = models.attention.attend, generation.generate.generate
FILES = data.tokenizer_files
Config, FitConfig = models.transformer_config.TransformerConfig, training.settings.FitConfig
RNG, GENERATOR = np.random.default_rng(0), torch.Generator()
IDS, ROWS, TEXT = np.arange(12) % 5, ids(2, 3), "a bad call, a bad day, a bad call"
CHARS, WORDS = data.tokens.CharTokenizer.train(TEXT), data.tokens.WordTokenizer.train(TEXT)
BPE, PIECES = data.bpe.BPETokenizer.train(TEXT, 3), data.wordpiece.WordPieceTokenizer.train(TEXT, 3)
CONFIG = Config(vocab_size=5, d_model=4, n_heads=2, context_length=9)
NO_WORDS = Config(d_model=4, n_heads=2, context_length=5)
NEURAL = models.neural_lm.NeuralLMConfig(
    vocab_size=5, context_length=2, embedding_dim=3, hidden_size=4
)
LM, PAIR = models.transformer.TransformerLM(CONFIG), models.encoder_decoder.EncoderDecoder(CONFIG)
TYPED = models.transformer.Encoder(CONFIG.replace(n_token_types=2))
GRU = models.recurrent_lm.RecurrentLM(5, "gru", embedding_dim=3, hidden_size=4)
SEQ = models.seq2seq.Seq2Seq(5, 5, embedding_dim=3, hidden_size=4, attention="additive")
COUNTS = models.ngram_counts.NGramCounts(IDS, 2, 5)
NGRAM = models.ngram.NGram(COUNTS, "kneser-ney")
EXPERTS = models.moe.MixtureOfExperts(4, 6, n_experts=3)
VIT = models.vit.VisionTransformer(
    NO_WORDS, image_size=(4, 4), patch_size=2, n_classes=3, n_channels=1
)
STACK, CELL = models.recurrent.Recurrent(3, 4, "gru"), models.recurrent_cells.GRUCell(3, 4)
LINEAR, PROMPT = nn.Linear(4, 6), ids(1, 3)
BATCH = training.batch_iterator.to_device((ROWS, ROWS), torch.device("cpu"), torch.float32)
X, Q, MASK = floats(2, 3, 4), floats(2, 2, 3, 4), torch.ones(2, 3) > 0
LOGITS, TENSOR = floats(2, 5), models.autograd.Tensor(np.ones((2, 3)))
QUICK = models.skipgram.SkipGramSettings(d=2, window=2, negatives=1, n_epochs=1, threshold=None)
TORCHS = nn.Transformer(4, 2, 1, 1, 8, batch_first=True)
PAIRS_OF_TEXTS = [np.array([1, 2]), np.array([3])]
SAMPLING = vars(generation.samplers.Sampling())


# What an argument of this name is where a call must have it and says nothing else.
USUAL = dict(tokens=ROWS, batch_size=2, seq_len=3, rng=RNG, sequences=IDS, n=2, text=TEXT,
    tokenizer=BPE, folder="gpt2", language="de", ids=[1, 2], order=2, vocab_size=5, n_tokens=3,
    model=LM, window=2, d=2, vectors=np.eye(3), size=2, f=np.sum, x=X, input_size=3,
    hidden_size=4, embedding_dim=3, config=CONFIG, source=ROWS, target=ROWS, step=0, keep=X,
    add=X, d_model=4, q=Q, k=Q, v=Q, n_heads=2, T=2, width=4, d_ff=6, causal=True, scheme="he",
    logits=LOGITS, n_steps=3, parameters=1e6, prompt=PROMPT, n_new=2)  # fmt: skip


def each(*calls, **given):
    """The same good call of several."""
    return [(f, given) for f in calls]


# A good call of each: the callable and its unusual arguments. Those that may be left out have their
# defaults, and are held to the rule as well.
GOOD = [
    # data
    *each(data.batches.ContiguousBatches, data.batches.random_batch, data.batches.windows,
        tokens=IDS),
    (data.batches.pad, dict(sequences=[IDS, IDS], pad_id=0)),
    (data.batches.targets_at_end, dict(mask=np.ones((2, 3), bool), labels=[1, 2])),
    (data.batches.shuffled_batches, dict(n=5)),
    (data.bpe.BPETokenizer, dict(merges=BPE.merges, special_tokens=["<s>"])),
    (data.bpe.BPETokenizer.train, dict(n_merges=3, special_tokens=[])),
    (BPE.encode_stream, dict(texts=[TEXT])), (BPE.encode_bytes, dict(piece=b"ab")),
    (FILES.spell, dict(token=b"ab")), (FILES.unspell, dict(spelling="ab")),
    *each(FILES.save_gpt2, FILES.load_gpt2, number_words.vocabulary, BPE.encode,
        CHARS.encode, WORDS.encode, WORDS.encode_lines, PIECES.encode, data.tokens.words,
        data.wordpiece.bert_words,
        data.tokens.CharTokenizer.train, BPE.decode_bytes, BPE.decode, BPE.decode_stream,
        CHARS.decode, WORDS.decode, PIECES.decode),
    *each(FILES.save_json, FILES.load_json, path="bpe.json"),
    *each(FILES.save_tokenizer, FILES.load_tokenizer,
        path="tokenizer.json"),
    (data.bpe_merges.learn_merges, dict(pieces={b"ab": 3}, n_merges=1)),
    (copying.names, dict(split="train")), (copying.random_names, dict(length=(3, 5))),
    (copying.copy_lines, dict(pool=["ab", "c"])), (copying.as_batch, dict(texts=["ab", "c"])),
    (data.corpora.load, dict(name="names")), (number_words.morphemes, dict(word="einund")),
    *each(number_words.words, number_words.tokens, number_words.encode, number_words.split_of,
        n=21),
    (number_words.decode, dict(ids=[3, 4, 2])), (number_words.pairs, dict(numbers=[1, 2])),
    (number_words.numbers, dict(split="test", digits=[3])),
    (parentheses.is_balanced, dict(sequence=[0, 9])), (parentheses.balanced, dict(pairs=3)),
    (parentheses.corrupt, dict(sequence=np.array([0, 1, 8, 9]), kind="swap")),
    (word_vectors.load().ids, dict(words=["king", "queen"])),
    (word_vectors.analogy_questions, dict(pairs=[("a", "b"), ("c", "d")])),
    (tagging.encode, dict(sentence="time flies")), (tagging.split, dict(n_train=20, n_held_out=2)),
    (tagging.most_frequent_tags, dict(data=tagging.lecture())), (tagging.lecture().text, dict(i=0)),
    (symbols.parentheses, dict(pairs=(2, 3), n_colours=2, negatives=["swap"])),
    (symbols.adversarial, dict(pairs=(3, 4), n_colours=2)),
    (symbols.copy_task, dict(delay=3, n_symbols=4, n_distractors=2)),
    (data.tokens.CharTokenizer, dict(vocab=["a", "b"])),
    (data.tokens.WordTokenizer, dict(vocab=WORDS.vocab)),
    (data.tokens.WordTokenizer.train, dict(min_count=1)),
    (data.wordpiece.characters, dict(word="hug")),
    (data.wordpiece.pair_scores, dict(counts={("h", "##u"): 3}, criterion="gain")),
    (data.wordpiece.join, dict(tokens=("h", "##u"), pair=("h", "##u"))),
    (data.wordpiece.WordPieceTokenizer, dict(vocab=PIECES.vocab)),
    (data.wordpiece.WordPieceTokenizer.train, dict(n_merges=3)),
    (PIECES.encode_word, dict(word="bad")),
    # models: n-grams and vectors
    *each(models.ngram_counts.NGramCounts, NGRAM.score, vectors.unit, models.skipgram.SkipGram),
    (COUNTS.next_counts, dict(context=[1])), (COUNTS.unseen_share, dict(n=2)),
    (models.ngram.NGram, dict(counts=COUNTS, smoothing="absolute", order=2, discount=0.5)),
    (models.ngram.NGram.fit, dict(smoothing="additive", alpha=1.0)),
    (NGRAM, dict(tokens=ROWS.numpy())),
    (NGRAM.log_probs, dict(contexts=ROWS.numpy(), targets=np.array([1, 2]))),
    (NGRAM.sample, dict(n_tokens=2, prompt=[1])),
    (NGRAM.backoff_weights, dict(contexts=np.array([[1], [2]]))),
    (models.ngram.estimated_discounts, dict(counts=np.array([1, 2, 3]), modified=False)),
    (models.ngram_arpa.write_arpa, dict(model=NGRAM, path="x.arpa", vocab=list("abcde"))),
    (vectors.cooccurrences, dict(texts=IDS)),
    *each(vectors.pmi, vectors.ppmi, counts=np.ones((3, 3))),
    (vectors.svd_vectors, dict(table=np.eye(4))), (vectors.cosines, dict(others=np.eye(3))),
    (vectors.neighbours, dict(query=np.ones(3), n=1, exclude=[0])),
    (vectors.analogies, dict(vectors=np.eye(5), questions=[[0, 1, 2]], exclude_question=True,
        epsilon=0.1)),
    (vectors.odd_one_out, dict(vectors=np.eye(5), words=[0, 1, 2])),
    (models.skipgram.SkipGram(5, 2), dict(words=ids(2), contexts=ids(2), negatives=ids(2, 3))),
    (models.skipgram.pairs, dict(tokens=IDS, rng=RNG)),
    (models.skipgram.keep_probability, dict(counts=[1, 2], threshold=0.1)),
    (models.skipgram.SkipGramSettings, dict(d=2, window=2, negatives=1, threshold=None, n_epochs=1,
        batch_size=8)),
    (models.skipgram.train, dict(tokens=IDS, settings=QUICK, seed=0)),
    (models.skipgram.sample, dict(cumulative=floats(3), size=(2,), generator=GENERATOR)),
    # models: the engine
    (models.autograd.Tensor, dict(data=[1.0, 2.0])),
    (models.autograd.matmul, dict(a=TENSOR, b=np.ones(3))),
    (models.gradcheck.numerical_jacobian, dict(x=np.ones(3))),
    (models.gradcheck.gradcheck, dict(x=np.ones(3), grad=np.ones(3))),
    # models: recurrent
    (models.recurrent.Recurrent, dict(n_layers=2, dropout=0.1, forget_bias=1.0)),
    (STACK, dict(x=floats(2, 5, 3), mask=torch.ones(2, 5) > 0)),
    (models.recurrent.keras_gru_weights, dict(kernel=floats(3, 12), recurrent_kernel=floats(4, 12),
        bias=floats(2, 12))),
    *each(models.recurrent_cells.ElmanCell, models.recurrent_cells.GRUCell),
    (models.recurrent_cells.LSTMCell, dict(forget_bias=1.0)),
    *each(CELL.step, CELL.gate_values, x=floats(2, 3), state=floats(2, 4)),
    (CELL.rows, dict(gate="z")), (models.recurrent_lm.RecurrentLM, dict(cell="gru", dropout=0.1)),
    (models.neural_lm.NeuralLMConfig, dict(context_length=2)),
    (models.neural_lm.NeuralLM, dict(config=NEURAL)),
    (models.seq2seq.MemoryAttention, dict(query_size=3, memory_size=3, score="additive", width=4)),
    (models.seq2seq.MemoryAttention(4, 4), dict(query=X, memory=X, mask=MASK)),
    (models.seq2seq.Seq2Seq, dict(source_size=5, target_size=5, attention="dot")),
    *each(SEQ, SEQ.hidden, source_mask=MASK),
    (models.ssm.discretise, dict(step=X, decay=-floats(4, 5), write=floats(2, 3, 5))),
    *each(models.ssm.scan, models.ssm.parallel_scan, state=floats(2, 4)),
    (models.ssm.Mamba, dict(d_state=3, conv_width=2, scan="loop")),
    (models.recurrent_lm.SelectiveLM, dict(d_state=3)),
    # models: the Transformer
    (attend, dict(mask=torch.ones(3, 3) > 0, bias=torch.zeros(3, 3), scale=1.0, dropout=0.1)),
    (models.flash.flash_attend, dict(mask=torch.ones(3, 3) > 0, scale=1.0, block=2)),
    (models.heads.MultiHeadAttention, dict(dropout=0.1)),
    (models.heads.MultiHeadAttention(4, 2), dict(mask=torch.ones(1, 1, 3, 3) > 0)),
    *each(models.masks.window_mask, models.masks.causal_mask, models.masks.distances, S=3),
    (models.masks.prefix_mask, dict(T=3, prefix=2)), (models.masks.padding_mask, dict(real=MASK)),
    (models.masks.prepare, dict(mask=torch.ones(3, 3) > 0, bias=torch.zeros(3, 3), T=3, S=3,
        causal=True)),
    (models.positions.sinusoidal, dict(positions=3)),
    (models.positions.alibi_slopes, dict(n_heads=4)),
    (models.positions.alibi_bias, dict(n_heads=4, S=3)),
    *each(models.positions.RelativeBias, models.layers.RMSNorm, models.layers.LayerNorm,
        models.layers.FeedForward, GRU, GRU.hidden, models.neural_lm.NeuralLM(NEURAL),
        models.neural_lm.NeuralLM(NEURAL).context, models.recurrent_lm.SelectiveLM(5, d_model=4),
        LM.embed, models.ssm.Mamba(4), models.layers.RMSNorm(4), models.layers.FeedForward(4, 6),
        models.block.Block(NO_WORDS, causal=True), EXPERTS, depth.Stack(4, 2), depth.spread),
    (models.positions.RelativeBias(2), dict(behind=models.masks.distances(3))),
    (models.positions.Rotary, dict(head_dim=4, context_length=9)),
    (models.positions.Rotary(4), dict(x=Q, positions=torch.arange(3))),
    (Config, dict(vocab_size=5, context_length=9, activation="gelu", position="rotary")),
    (models.transformer_config.preset, dict(name="gpt2", n_layers=2)),
    *each(models.block.Block, models.transformer.Stack, config=NO_WORDS),
    (LM, dict(mask=MASK, positions=torch.arange(3))),
    (TYPED, dict(mask=MASK, token_types=ROWS % 2)),
    (PAIR, dict(source_mask=MASK, target_mask=MASK)), *each(SEQ.encode, PAIR.encode, mask=MASK),
    (depth.Stack, dict(width=3, n_layers=2)), (depth.start_std, dict(shape=(3, 4))),
    (depth.start, dict(weight=floats(3, 4), generator=GENERATOR)),
    (models.moe.MixtureOfExperts, dict(n_experts=3)),
    (models.moe.balance_loss, dict(probs=floats(4, 3), experts=ids(4, 2) % 3)),
    (models.moe.with_balance, dict(loss=training.losses.next_token_loss)),
    (models.nf4.quantise, dict(weights=floats(3, 4))),
    (models.nf4.dequantise, dict(quantised=models.nf4.quantise(floats(3, 4)))),
    (models.nf4.QuantisedLinear, dict(linear=LINEAR)),
    (models.lora.LoRALinear, dict(base=nn.Linear(4, 6), rank=2, dropout=0.1)),
    (models.lora.add_lora, dict(names="*.q_proj", rank=2, dropout=0.1)),
    (models.lora.load_lora_state, dict(state={})), (PAIR.hidden, dict(target_mask=MASK)),
    *each(models.vit.patches, VIT, images=floats(2, 1, 4, 4)),
    (models.vit.VisionTransformer, dict(config=NO_WORDS, image_size=(4, 4), patch_size=2,
        n_classes=3, n_channels=1)),
    (models.pretrained.config_from, dict(
        reference=dict(vocab_size=5, n_embd=4, n_layer=1, n_head=2, n_positions=9), family="gpt2")),
    (models.pretrained.from_torch, dict(theirs=TORCHS)),
    (models.architectures.printed, dict(count=1234, like="1,234")),
    # training
    (training.losses.cross_entropy, dict(targets=ids(2))),
    (training.losses.per_target, dict(function=training.losses.cross_entropy)),
    (training.losses.next_token_loss, dict(batch=BATCH, chunk_rows=2)),
    (training.fit.fit, dict(batches=[(ROWS, ROWS)], config=FitConfig(n_steps=1, lr=0.1),
        progress=False)),
    (FitConfig, dict(lr=0.1, schedule="linear", eval_every=1)),
    *each(FitConfig(n_steps=3, lr=0.1).factor, models.heads.attention_weights, models.lora.merge,
        models.lora.lora_state, FitConfig(n_steps=3, lr=0.1).build,
        models.transformer.TransformerLM, models.transformer.Encoder,
        models.encoder_decoder.EncoderDecoder, models.architectures.tiny,
        accounting.cost.parameters, accounting.cost.state_bytes, accounting.cost.cache_bytes,
        accounting.cost.flops, accounting.cost.activation_bytes, scaling.Law().tokens,
        generation.samplers.Sampling, generation.samplers.no_repeat_ngram_filter),
    (training.schedule.constant, dict(warmup_steps=1)),
    *each(training.schedule.linear, training.schedule.cosine, warmup_steps=1, min_lr_ratio=0.1),
    (training.checkpoint.save, dict(to="x.pt", contents={"a": 1}, config={"b": 2})),
    *each(training.checkpoint.save_model, training.checkpoint.load_model, path="model.pt"),
    (training.checkpoint.load, dict(source="y.pt", config={"b": 2})),
    (accounting.cost.counted, dict(architecture=models.architectures.ARCHITECTURES["GPT-1"])),
    (scaling.valley, dict(sizes=[1, 2, 3], losses=[3, 2, 4])),
    (scaling.power_law, dict(x=[1, 2], y=[3, 4])),
    (scaling.Law, dict(floor=1.8, A=482.0, alpha=0.3, B=2085.0, beta=0.4)),
    (scaling.Law().loss, dict(tokens=1e7)), (scaling.Law().best, dict(compute=1e15)),
    (training.evaluate.bits, dict(nats=2.5)), (training.evaluate.perplexity, dict(mean_nats=2.5)),
    (training.evaluate.bits_per_byte, dict(total_nats=2.5, n_bytes=3)),
    (training.evaluate.evaluate, dict(tokens=IDS, n_bytes=12, start=0, context_length=9, overlap=2,
        batch_size=2)),
    (generate, dict(rng=GENERATOR, **SAMPLING)), (generation.generate.stream, dict(rng=GENERATOR)),
    (generation.search.beam_search, dict(n_beams=2)),
    (generation.search.exact_mode, dict(max_reads=100)),
    (generation.speculative.speculate, dict(draft=LM, n_ahead=2, rng=GENERATOR)),
    (generation.samplers.divide_by_temperature, dict(temperature=0.5)),
    (generation.samplers.top_k_filter, dict(top_k=2)),
    (generation.samplers.top_p_filter, dict(top_p=0.5)),
    (generation.samplers.min_p_filter, dict(min_p=0.5)),
    (generation.samplers.typical_filter, dict(typical_p=0.5)),
    (generation.samplers.penalise_repetition, dict(seen=LOGITS > 0.5, theta=1.5)),
    (generation.samplers.penalise_counts, dict(counts=ids(2, 5), presence=0.5, frequency=0.5)),
    *each(generation.samplers.token_counts, LM.hidden, training.preference.RewardModel(LM),
        mask=MASK),
    (generation.samplers.suppress, dict(ids=(1, 3))),
    (training.preference.answer_batch, dict(prompts=PAIRS_OF_TEXTS, answers=PAIRS_OF_TEXTS)),
    (training.preference.preference_batch, dict(prompts=PAIRS_OF_TEXTS, chosen=PAIRS_OF_TEXTS,
        rejected=PAIRS_OF_TEXTS)),
    (training.preference.reward_batch, dict(chosen=PAIRS_OF_TEXTS, rejected=PAIRS_OF_TEXTS)),
    (training.preference.sequence_log_probs, dict(inputs=ROWS, targets=ROWS)),
    (training.preference.bradley_terry_loss, dict(chosen=floats(2), rejected=floats(2))),
    (training.preference.dpo_loss, dict(log_probs=floats(3, 2), reference_log_probs=floats(3, 2),
        beta=0.1)),
    (training.preference.dpo_objective, dict(reference=LM)),
    (training.preference.RewardModel, dict(body=LM)),
]  # fmt: skip


# Public, but not called by readers with arguments of their own: what the library makes and hands
# out (results, caches, states), the parts of which the callables above are made, and operations of
# chapter 7's engine, which has promised to stay within 150 lines.
PARTS = """
    Padded CopyLines Corpus Pairs WordVectors Tagged Parentheses Copy Architecture Reach Routing
    NeuralLMCache RecurrentCache Seq2SeqCache SelectiveState Quantised CountLevel Layout Report
    Batch Hypotheses Evaluation Mode History FitResult DivergedError Speculation LayerCache KVCache
    BatchIterator to_device Trainer Processes LostError Reader check_* stop_ids in_mode recording
    validation_loss launch method_for device enter shard to_jsonable combine as_ids begin_fit
    settings_of Cell MinimalGatedCell hidden detach select project update initial_state new_*
    Embedded make_* initialise copy_block load_* load read* save* try_writing lecture all_sentences
    analogy_pairs names vocabulary nf4_levels adapters unmerge remove_lora routings gather reshape
    backward add sub mul div exp log tanh relu sigmoid power sum broadcast_to log_softmax
    elementwise transpose stack softmax standardize gelu
    topological_order followers context_rows ngram_* concatenate states
    encode logits forward fork detach draw probs penalise uses_bf16 to_dict replace as_torch
    reward_loss bucket route quantised of_block source cast_for_products
""".split()

# What is taken on purpose, and why: a value, then the arguments, as callable.argument.
LEGITIMATE = {
    # nothing at all, or a bound that is allowed
    "0": "*.n_merges random_names.n copy_task.delay *.eos NGram.discount *.n_tokens *.smoothing "
        "*.power Tensor.data gradcheck.tolerance *.forget_bias *dropout *.init_std "
        "*Norm.eps *.norm_eps prefix_mask.prefix sinusoidal.positions with_balance.coefficient "
        "printed.count FitConfig.momentum FitConfig.weight_decay *.min_lr_ratio "
        "FitConfig.checkpoint_seconds *.warmup_steps Law.floor bits.nats *.mean_nats *.total_nats "
        "evaluate.overlap *.n_new *.stop *.frequency_penalty *.presence_penalty *.temperature "
        "*.min_p beam_search.alpha penalise_counts.*",
    # a number that may be negative
    "-1": "pad.pad_id svd_vectors.power Tensor.data *.forget_bias printed.count bits.nats "
        "*.frequency_penalty *.presence_penalty beam_search.alpha penalise_counts.*",
    # a number like any other
    "2.5": "*.alpha *.negatives *.power *.epsilon *.threshold *.lr Tensor.data *.eps "
        "numerical_jacobian.x *.tolerance *.forget_bias *.init_std *.norm_eps *.scale *.base "
        "*.rope_theta *.capacity_factor *.coefficient *.weight_decay *.grad_clip "
        "*.checkpoint_seconds Law.* *_penalty *.temperature *.theta penalise_counts.* *.beta",
    # nats of what was impossible
    "inf": "Tensor.data bits.nats *.mean_nats *.total_nats",
    # a NaN in gives a NaN out
    "nan": "Tensor.data bits.nats",
    # a NaN in gives a NaN out, and agrees with nothing
    "NaN": "unit.* matmul.b gradcheck.grad",
    # where None stands for one of the two
    "True": "*.final_norm *.renormalise Tensor.data",
    # what None stands for is written in the signature or the docstring
    "None": "NGram.fit.alpha Recurrent.forget_bias prepare.* FitConfig.grad_clip",
    # more axes in front, or texts in rows
    "other axes": "*.sequences unit.* numerical_jacobian.x *.mask prepare.bias attend.bias "
        "Rotary().* *Norm().x FeedForward().x Stack().x spread.x MixtureOfExperts().x "
        "quantise.weights *_filter.logits suppress.logits divide_by_temperature.logits penalise_*",
    # no rows in, no rows out
    "empty": "NGram().tokens NGram.backoff_weights.contexts *.counts cooccurrences.texts unit.* "
        "cosines.* pairs.tokens numerical_jacobian.x keras_gru_weights.kernel NeuralLM* Mamba().x "
        "SelectiveLM().tokens MultiHeadAttention().x padding_mask.real RelativeBias().* "
        "Rotary().x *Norm().x FeedForward().x Block().x Embedded.embed.tokens Stack().x "
        "MixtureOfExperts().x patches.images VisionTransformer().images *_filter.logits "
        "suppress.logits divide_by_temperature.logits",
    # vectors and derivatives of any sign
    "negative": "svd_vectors.table unit.* cosines.* neighbours.* analogies.vectors "
        "odd_one_out.vectors matmul.b numerical_jacobian.x gradcheck.*",
    # no number
    "[]": "cooccurrences.texts pairs.tokens Tensor.data bits.nats unit.* numerical_jacobian.x "
        "*.stop *.counts Law.*",
    # a text is its characters, or any text is one; all other texts are names of what there is
    "'no such'": "CharTokenizer.vocab *.text *.word *.folder printed.like",
    # no id
    "{}": "*.stop *.exclude",
}  # fmt: skip
# What is refused, but not by the argument's name: its shape or size is told beside another's, or
# the error is the system's, torch's or Python's own.
OBSCURE = {
    "'no such'": "*.path *.checkpoint save.to load.source *.device preset.name encode.sentence "
        "unspell.spelling add_lora.names",
    "10**30": "numerical_jacobian.x gradcheck.x sinusoidal.base",
    "[]": "*.sequences pairs.numbers *.texts *.contexts neighbours.query",
    "{}": "config_from.reference", "NaN": "neighbours.query",
    "other axes": "*.contexts *.x *.write", "empty": "*",
    "*": "unit.vectors gradcheck.grad *.suppress_tokens",
}  # fmt: skip


VALUES = {
    "None": None, "'no such'": "no such", "-1": -1, "0": 0, "2.5": 2.5, "nan": math.nan,
    "inf": math.inf, "10**30": 10**30, "True": True, "[]": [], "{}": {}, "object": object(),
    "numpy's generator": np.random.default_rng(0), "torch's generator": torch.Generator(),
}  # fmt: skip
INTERNAL = ("parents", "vjp")  # what the engine's own operations give a Tensor
MUTATING = ("add_lora", "merge", "LoRALinear", "start", "RewardModel", "build")


def variants(good):
    """Bad values that are made from the good one: another library's, other axes, other dtypes."""
    if isinstance(good, torch.Tensor):
        other = good.long() if good.is_floating_point() else good.float()
        yield from (("numpy's", good.numpy()), ("a list", good.tolist()), ("another dtype", other))
    elif isinstance(good, np.ndarray):
        yield from (("texts", good.astype(str)), ("NaN", np.full(good.shape, math.nan)))
        yield "negative", -1.0 - np.abs(good)
    if isinstance(good, torch.Tensor | np.ndarray):
        yield from (("other axes", good[None]), ("empty", good[:0]))


def name_of(f):
    if isinstance(f, nn.Module) or not hasattr(f, "__qualname__"):
        return f"{type(f).__name__}()"
    return f.__qualname__


def defaults(f):
    """What each argument is if it is not given; ... for one that must be."""
    parameters = inspect.signature(f.forward if isinstance(f, nn.Module) else f).parameters
    return {n: ... if p.default is p.empty else p.default for n, p in parameters.items()}


def is_fine(default, good, value):
    """Whether this value is as good as the good one, by the argument's own kind."""
    kinds = (np.random.Generator, torch.Generator)
    return (
        value is good
        or (type(value) is type(good) and not hasattr(good, "shape") and value == good)
        or (value is None and default is None)
        or (value is True and isinstance(good, bool))
        or any(isinstance(value, kind) and isinstance(good, kind) for kind in kinds)
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
        if isinstance(result, AbstractContextManager) and hasattr(result, "gen"):
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
    for f, given in GOOD:
        changes = name_of(f).rpartition(".")[2] in MUTATING or f is training.fit.fit
        default = defaults(f)
        usual = {n: USUAL.get(n, ...) if value is ... else value for n, value in default.items()}
        good = {n: value for n, value in (usual | given).items() if value is not ...}
        f(**(copy.deepcopy(good) if changes else good))
        for name, value in good.items():
            bad_values = () if name in INTERNAL else (*VALUES.items(), *variants(value))
            for what, bad in bad_values:
                if not is_fine(default.get(name, ...), value, bad):
                    arguments = (copy.deepcopy(good) if changes else good) | {name: bad}
                    yield f"{name_of(f)}.{name}", value, what, *judged(f, arguments, name)


def is_legitimate(where, good, what):
    """An empty list for a list; or what is listed."""
    if isinstance(good, (list, tuple, dict)) and what in ("[]", "{}"):
        return True
    what = "2.5" if what == "10**30" else what  # a large number is a number like any other
    return is_in(LEGITIMATE, what, where)


def is_in(table, what, where):
    return any(fnmatchcase(where, pattern) for pattern in table.get(what, "").split())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.chdir(tmp_path_factory.mktemp("bad"))
        training.checkpoint.save("y.pt", {"a": 1}, config={"b": 2})
        return list(calls())


def test_no_bad_call_is_answered_in_silence_and_the_errors_say_what_was_given(made):
    silent = [
        f"{where}: {what}"
        for where, good, what, kind, _ in made
        if kind == "taken" and not is_legitimate(where, good, what)
    ]
    assert not silent, f"{len(silent)}: {silent[:40]}"
    unclear = [
        f"{where}: {what}: {said}"
        for where, _, what, kind, said in made
        if kind == "obscure" and not is_in(OBSCURE, what, where) and not is_in(OBSCURE, "*", where)
    ]
    assert len(made) > 10_000
    assert not unclear, f"{len(unclear)}: {unclear[:40]}"


def test_an_unknown_name_is_refused_with_the_names_there_are(made):
    for where, good, what, _, said in made:
        free = is_in(LEGITIMATE, what, where) or is_in(OBSCURE, what, where)
        if isinstance(good, str) and what == "'no such'" and not free:
            assert re.match("ValueError: .* one of .*, got 'no such'$", said), where


def test_what_is_listed_as_legitimate_is_taken(made):
    taken = [(what, where) for where, _, what, kind, _ in made if kind == "taken"]
    idle = [
        (value, pattern)
        for value, patterns in LEGITIMATE.items()
        for pattern in patterns.split()
        if not any(what == value and fnmatchcase(where, pattern) for what, where in taken)
    ]
    assert not idle


def test_everything_public_is_called_or_is_a_part():
    called = {part for f, _ in GOOD for part in name_of(f).strip("()").split(".")}
    missing = [
        name
        for module in MODULES
        for name, thing in vars(module).items()
        if callable(thing) and getattr(thing, "__module__", None) == module.__name__
        if not name.startswith("_") and name not in called
    ]
    assert not [name for name in missing if not any(fnmatchcase(name, p) for p in PARTS)]


# What changes as it is used; all other records are made by name and stay as they are.
GROWING = {"History", "Seq2SeqCache", "RecurrentCache", "NeuralLMCache", "_Storage"}


def test_records_are_frozen_and_their_parts_named():
    public = {x for module in MODULES for x in vars(module).values() if isinstance(x, type)}
    kinds = {"Report": {"POSITIONAL_OR_KEYWORD"}} | dict.fromkeys(GROWING)
    for record in filter(is_dataclass, public):
        given = {p.kind.name for p in inspect.signature(record).parameters.values()}
        wanted = kinds.pop(record.__name__, {"KEYWORD_ONLY"})
        assert wanted is None or given == wanted, record
        refused = nullcontext() if wanted is None else pytest.raises(FrozenInstanceError)
        with refused:
            object.__new__(record).anything = 1
    assert not kinds


# What people do first, and what they read then.
test_what_people_do_first_is_answered = refuses(
    (LM, (ROWS.numpy(),), {}, TypeError, r"give torch.from_numpy\(tokens\)"),
    (LM, ([[1, 2]],), {}, TypeError, r"give torch.tensor\(tokens\)"),
    (attend, (Q, Q.double(), Q), {}, TypeError, "of one dtype, got torch.float32, torch"),
    (models.heads.MultiHeadAttention(4, 2), (X,), {"positions": torch.arange(3)},
     "this attention has none"),
    (LM, (ROWS, MASK.int()), {}, TypeError, "True where a token stands"),
    (models.block.Block(NO_WORDS, causal=True), (X,), {"source_mask": MASK}, "there is none"),
    (data.batches.random_batch, (GENERATOR, IDS), {"batch_size": 2, "seq_len": 3}, TypeError,
     r"np.random.default_rng\(seed\) makes one"),
    (generate, (LM, PROMPT, 2), {"rng": RNG}, TypeError,
     r"torch.Generator\(\).manual_seed\(seed\) makes one"),
    (generate, (type(LM), PROMPT, 2), {}, TypeError, "got the class TransformerLM itself"),
    (generate, (LM, PROMPT, 2), {"source": ROWS}, "LM reads no source"),
    (generate, (PAIR, PROMPT, 2), {}, "give source"),
    (generate, (LM, PROMPT, 2), {"source_mask": MASK}, "there is none"),
    (models.pretrained.from_torch, (TORCHS.encoder, 5), {}, TypeError, "got a torch Transformer"),
    (data.tokens.CharTokenizer, (["ab"],), {}, "single characters, got 'ab'"),
    (generation.samplers.top_p_filter, (torch.tensor([1, math.nan]), 0.5), {}, "NaN"),
    (FitConfig, (), {"n_steps": 1, "lr": 1, "schedule": lambda step: -1},
     "the schedule's factor at step 0 must be at least 0, got -1"),
    (models.lora.add_lora, (LM, []), {}, "a name or more"),
    (models.pretrained.load_pretrained, (3,), {}, TypeError, "folder must be .* got 3"),
    (models.pretrained.load, (LM, [], "gpt2"), {}, TypeError, "must be a dict, got"),
    (models.pretrained.load, (LM, {}, "no such"), {}, "family must be one of .* got 'no such'"),
    (symbols.parentheses, (RNG, 2), {"pairs": 2, "negatives": ["no such"]}, "a kind must be one "),
    of=lambda f, given, named: f(*given, **named),
)  # fmt: skip


# The checks themselves: what comes back and its kind, or the error and its message.
CHECKED = [
    *((whole, value, {}, TypeError, "an integer, got ") for value in (True, 3.0, "3", None)),
    (whole, 0, {}, ValueError, "at least 1, got 0$"),
    (whole, 8, {"at_least": 0, "at_most": 7}, ValueError, "at least 0 and at most 7, got 8$"),
    *((real, value, {}, TypeError, "a number, got ") for value in (True, "0.1", None, 1j)),
    *((real, value, {}, ValueError, "finite, got ") for value in (math.nan, -math.inf)),
    *((real, value, {"above": 0, "below": 0.5}, ValueError, "above 0 and below 0.5, ")
      for value in (0, 0.5)),
    (one_of, "Rms", {"options": ("layer", "rms")}, ValueError, "one of layer, "),
    (whole, np.int64(3), {"at_least": 3, "at_most": 3}, int, 3),
    (whole, -5, {"at_least": None}, int, -5),
    *((real, value, {"at_least": 2, "at_most": 2}, float, 2.0)
      for value in (2, np.float32(2), Fraction(2))),
]  # fmt: skip


@pytest.mark.parametrize(("check", "value", "bounds", "kind", "said"), CHECKED)
def test_what_fits_comes_back_and_the_rest_is_refused_by_name(check, value, bounds, kind, said):
    if kind in (int, float):
        got = check("a_name", value, **bounds)
        assert (type(got), got) == (kind, said)
    else:
        with pytest.raises(kind, match=f"^a_name must be {said}"):
            check("a_name", value, **bounds)
