r"""No valley to be caught in

Take the softmax loss of one example, $L(W) = -\,y \cdot \ln \mathrm{softmax}(W x)$ with
$W \in \mathbb{R}^{V \times d}$ laid out row after row, as in
chapter 7. On paper:

1. Differentiate the gradient $(\hat y - y)\,x^\top$ once more, and write the Hessian
   $H \in \mathbb{R}^{Vd \times Vd}$,
   $H_{(kl),(mn)} = \partial^2 L / \partial W_{kl}\, \partial W_{mn}$.
2. Show that $\sum_{klmn} U_{kl}\, H_{(kl),(mn)}\, U_{mn} \ge 0$ for every direction $U$, in the
   shape of $W$. (*Hint:* look at the numbers $U x$ and at their variance under $\hat y$.)

Then write your result as `loss_hessian(W, x)`, without differences. Logits may be large.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "paper", 3, 5


# %% solution
def loss_hessian(W, x):
    """Hessian (V·d, V·d) of −y · ln softmax(W x) for W (V, d), x (d,)."""
    z = W @ x
    y_hat = np.exp(z - z.max())
    y_hat = y_hat / y_hat.sum()
    return np.kron(np.diag(y_hat) - np.outer(y_hat, y_hat), np.outer(x, x))


# %% explanation
explanation = r"""
In $(\hat y_k - y_k)\, x_l$ only $\hat y_k$ depends on $W$, through $z_m = \sum_n W_{mn} x_n$:

$$
H_{(kl),(mn)} = x_l\, \frac{\partial \hat y_k}{\partial z_m}\, \frac{\partial z_m}{\partial W_{mn}}
= \hat y_k (\delta_{km} - \hat y_m)\; x_l\, x_n,
\qquad H = \big(\mathrm{diag}(\hat y) - \hat y \hat y^\top\big) \otimes x x^\top .
$$

The truth $y$ has dropped out. For a direction $U$ put $s = U x$, one number for each class. Then

$$
\sum_{klmn} U_{kl}\, H_{(kl),(mn)}\, U_{mn}
= \sum_k \hat y_k s_k^2 - \Big(\sum_k \hat y_k s_k\Big)^2 = \mathrm{Var}_{\hat y}(s) \ge 0 .
$$

So the loss is convex in $W$, and a sum of such losses is too: gradient descent finds no valley but
the lowest. Convex, not strictly: $U$ with equal rows gives all classes the same $s$ and variance 0.
That is the shift that no softmax feels.
"""


# %% tests
def tests(rng):
    yield call(np.zeros((2, 1)), np.array([2.0]), visible=True)
    for V, d in [(3, 2), (2, 5), (5, 3)]:
        yield call(rng.normal(size=(V, d)), rng.normal(size=d))
    yield call(rng.normal(size=(3, 3)), rng.normal(size=3), hint="V = d here; rows of W first")
    large = np.array([[1000.0, 800.0], [1001.0, 799.0], [0.0, 0.0]])
    yield call(large, np.array([1.0, 2.0]), hint="logits of 2600 must not overflow")


# %% oracle
def oracle(W, x):
    """torch differentiates the loss twice; the first class is the truth, but any would do."""
    import torch

    def loss(W):
        return -torch.log_softmax(W @ torch.tensor(x), dim=0)[0]

    hessian = torch.autograd.functional.hessian(loss, torch.tensor(W))
    return hessian.reshape(W.size, W.size).numpy()


# %% wrong
wrong = {
    "the softmax overflows: take the largest logit off first": swap("z - z.max()", "z"),
    "the two factors of the Kronecker product are exchanged: W is laid out by columns": (
        lambda W, x: (
            loss_hessian(W, x).reshape(W.shape * 2).transpose(1, 0, 3, 2).reshape(W.size, -1)
        )
    ),
    "only the diagonal of the softmax's Jacobian is there; classes act on each other": (
        swap("np.diag(y_hat) - np.outer(y_hat, y_hat)", "np.diag(y_hat * (1 - y_hat))")
    ),
    "the term −ŷŷᵀ of the softmax's Jacobian is missing": swap(" - np.outer(y_hat, y_hat)", ""),
    "the sign is reversed: this Hessian is positive semidefinite": (swap("return ", "return -")),
    "this is the Hessian for the logits z; the one for W has x on both sides": (
        swap("np.outer(x, x)", "1")
    ),
    "only the diagonal of x xᵀ is there; weights of different inputs act together": (
        swap("np.outer(x, x)", "np.diag(x**2)")
    ),
    "x is used once; each of the two derivatives brings one, so x xᵀ belongs there": (
        swap("np.outer(x, x)", "x")
    ),
    "the term diag(ŷ) of the softmax's Jacobian is missing": (
        swap("np.diag(y_hat) - np.outer", "np.outer")
    ),
    "the four axes must be laid out as two of length V·d": (
        lambda W, x: loss_hessian(W, x).reshape(W.shape * 2)
    ),
}
