"""Exercises of chapter 7, in the order of the book."""

order = (
    "tanh_jacobian",
    "softmax_vjp",
    "tanh_layer_vjp",
    "tape_gradients",
)
