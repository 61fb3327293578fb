"""Figures, checks, exercises and predictions around the chapters."""


def __getattr__(name: str) -> object:
    """`predict`, which a reader of a notebook calls; loaded when it is asked for."""
    if name != "predict":
        raise AttributeError(f"module 'unrolled_book' has no attribute {name!r}")
    from unrolled_book.predictions import predict

    return predict
