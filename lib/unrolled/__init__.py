"""Unrolled: language models from the chain rule to the Transformer.

    from unrolled import CharTokenizer, TransformerLM, TransformerConfig, FitConfig, fit, generate

Five floors, each importing only from those below it: `data` (text, tokens), `models`, `training`
(fit, evaluate), `generation`, `accounting` (parameters, operations, bytes). The names most looked
for are here as well; each loads its module when it is first used. What teaches and records is
another package, `unrolled_book`.
"""

from importlib import import_module as _import_module

_HOMES = {
    "BPETokenizer": "data.bpe", "CharTokenizer": "data.tokens", "WordTokenizer": "data.tokens",
    "load_tokenizer": "data.tokenizer_files", "save_tokenizer": "data.tokenizer_files",
    "windows": "data.batches", "NGram": "models.ngram", "NGramCounts": "models.ngram_counts",
    "RecurrentLM": "models.recurrent_lm", "TransformerLM": "models.transformer",
    "TransformerConfig": "models.transformer_config", "load_pretrained": "models.pretrained",
    "FitConfig": "training.settings", "fit": "training.fit", "evaluate": "training.evaluate",
    "load_model": "training.checkpoint", "save_model": "training.checkpoint",
    "generate": "generation.generate",
}  # fmt: skip
__all__ = [*_HOMES]


def __getattr__(name: str) -> object:
    """A name of the front, or `__version__`, whose one place is lib/pyproject.toml."""
    if name in _HOMES:
        return getattr(_import_module(f"unrolled.{_HOMES[name]}"), name)
    if name != "__version__":
        raise AttributeError(f"module 'unrolled' has no attribute {name!r}; it has {__all__}")
    from importlib.metadata import version

    return version("unrolled")


def __dir__() -> list[str]:
    return [*globals(), *_HOMES, "__version__"]
