"""Exercises of chapter 18, in the order of the book."""

order = (
    "norms_by_hand",
    "one_block",
    "rms_norm_vjp",
    "one_pass_variance",
    "swiglu_vjp",
)
