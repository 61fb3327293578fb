"""Unrolled: language models from the chain rule to the Transformer.

Five floors, each importing only from those below it: `data` (text, tokens), `models`, `training`
(fit, evaluate), `generation`, `accounting` (parameters, operations, bytes). What teaches and
records is another package, `unrolled_book`.
"""


def __getattr__(name: str) -> str:
    """`__version__`: that of the installed package, whose one place is lib/pyproject.toml."""
    if name != "__version__":
        raise AttributeError(f"module 'unrolled' has no attribute {name!r}")
    from importlib.metadata import version

    return version("unrolled")
