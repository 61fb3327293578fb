"""Unrolled: language models from the chain rule to the Transformer.

The four floors, each importing only from those below it:
`data` (text, tokens), `models`, `training` (metrics), `teaching` (figures, checks, exercises).
"""

__version__ = "0.1.0"
