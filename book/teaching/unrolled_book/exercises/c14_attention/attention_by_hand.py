r"""Attention by hand, and back

Two queries, three keys of width 4, three values of width 2:

$$
\begin{gathered}
Q = \begin{pmatrix} 2 \ln 2 & 2 \ln 2 & 0 & 0 \\ 0 & 0 & 2 \ln 3 & 0 \end{pmatrix}, \\
K = \begin{pmatrix} 1 & 1 & 0 & 0 \\ 1 & -1 & 1 & 0 \\ 0 & 0 & 1 & 2 \end{pmatrix}, \quad
V = \begin{pmatrix} 6 & 0 \\ 0 & 6 \\ 12 & 6 \end{pmatrix}.
\end{gathered}
$$

With pencil and paper, compute the weights `A` (two rows of three) and the answers `Y` (two rows of
two) of scaled dot-product attention.

The second half needs *Going further: the backward pass*. The gradient $\bar y_1 = (1, 0)$ arrives
at the first answer. Compute `s_bar`, the gradient of the first query's three scores (after the
division), and `q_bar`, the gradient of the first query (four numbers). You may write fractions as
they are, `2 / 3`.
"""

import numpy as np

kind, level, points = "paper", 1, 3
tolerance = 1e-4


# %% solution
attention_by_hand = {
    "A": [[2 / 3, 1 / 6, 1 / 6], [1 / 7, 3 / 7, 3 / 7]],
    "Y": [[6, 2], [6, 36 / 7]],
    "s_bar": [0, -1, 1],
    "q_bar": [-1 / 2, 1 / 2, 0, 1],
}

# %% explanation
explanation = r"""
The width is 4, so the divisor is 2. The scores of the first query are $\ln 2 \cdot (2, 0, 0)$,
their exponentials 4, 1, 1; those of the second are $\ln 3 \cdot (0, 1, 1)$, with exponentials
1, 3, 3.
Divide each row by its sum, 6 and 7. Then

$$
y_1 = \tfrac46 (6, 0) + \tfrac16 (0, 6) + \tfrac16 (12, 6) = (6, 2), \qquad
y_2 = \tfrac17 (6, 0) + \tfrac37 (0, 6) + \tfrac37 (12, 6) = \left(6, \tfrac{36}{7}\right).
$$

Backwards, $\bar s_{1j} = A_{1j}\, \bar y_1 \cdot (v_j - y_1)$ compares the first component of each
value with that of the answer, which is 6: $\tfrac46 (6 - 6) = 0$, $\tfrac16 (0 - 6) = -1$,
$\tfrac16 (12 - 6) = 1$. The first key has the largest weight and gets no gradient at all: in the
component that the loss sees, its value already equals the answer. Finally,
$\bar q_1 = \tfrac12 (-k_2 + k_3) = \tfrac12 (-1, 1, 0, 2)$.
"""


# %% oracle
def oracle():
    """torch's fused attention and its derivatives, at one query after the other."""
    import torch

    Q = torch.tensor([[2.0, 2, 1, 1], [1, 1, 3, 1]], dtype=torch.float64).log() * 2
    K = torch.tensor([[1.0, 1, 0, 0], [1, -1, 1, 0], [0, 0, 1, 2]], dtype=torch.float64)
    V = torch.tensor([[6.0, 0], [0, 6], [12, 6]], dtype=torch.float64)
    read = torch.nn.functional.scaled_dot_product_attention
    q = Q[:1].clone().requires_grad_()
    read(q, K, V)[0, 0].backward()
    s = (Q[0] @ K.T / 2).requires_grad_()
    (s.softmax(0) @ V)[0].backward()
    return {
        "A": read(Q, K, torch.eye(3, dtype=torch.float64)).tolist(),
        "Y": read(Q, K, V).tolist(),
        "s_bar": s.grad.tolist(),
        "q_bar": q.grad[0].tolist(),
    }


# %% wrong
def answer(divisor=2.0, axis=1, centred=True, forgotten=1.0, sign=1, all_keys=True):
    """The answer with one of its steps changed."""
    Q = 2 * np.log([[2.0, 2, 1, 1], [1, 1, 3, 1]])
    K = np.array([[1.0, 1, 0, 0], [1, -1, 1, 0], [0, 0, 1, 2]])
    V = np.array([[6.0, 0], [0, 6], [12, 6]])
    E = np.exp(Q @ K.T / divisor)
    A = E / E.sum(axis=axis, keepdims=True)
    Y = A @ V
    s_bar = sign * A[0] * (V[:, 0] - (Y[0, 0] if centred else 0))
    if not all_keys:
        s_bar = A[0] * (1 - A[0]) * V[:, 0]
    q_bar = forgotten * s_bar @ K / divisor
    found = {"A": A, "Y": Y, "s_bar": s_bar, "q_bar": q_bar}
    return {key: value.tolist() for key, value in found.items()}


wrong = {
    "the scores were not divided by √4": answer(divisor=1.0),
    "the divisor is the root of the width, √4, not 4": answer(divisor=4.0),
    "the divisor comes from the number of keys, 3; it is the root of their width": (
        answer(divisor=3**0.5)
    ),
    "the softmax ran down the columns, over the queries": answer(axis=0),
    "what is sent back through the softmax lacks the subtraction of ȳ · y": answer(centred=False),
    "only the diagonal of the softmax's Jacobian is used": answer(all_keys=False),
    "the division by 2 is missing on the way back, in q_bar": answer(forgotten=2.0),
    "the signs on the way back are reversed: the factor is v − y, not y − v": answer(sign=-1),
}
