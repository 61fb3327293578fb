r"""Sizes, losses and gradients by hand

With pencil and paper. A feed-forward language model reads 3 words; $V = 10$, $D = 4$, $H = 5$, with
both biases.

- `parameters`: how many numbers does it learn?
- `two_more`: by how many does that grow if it reads 5 words in place of 3?
- `first_loss`: all parameters of $U$ and $c$ are zero. What is the loss on any word, in nats?
- `rows`: how many rows of $E$ get a gradient from the single context "the goat the"?
- `z_bar`: the word that came had the probability 0.4. What is the gradient of its score $z$?
- `a_bar`: a hidden unit has $h = 0.8$ and $\bar h = -0.5$. What is $\bar a$?
- `twice`: the three shares that $\bar e$ hands to the context "the goat the" begin with the numbers
  $0.3$, $0.7$ and $-0.1$. With which number does the gradient of the row of "the" begin?
"""

kind, level, points = "paper", 1, 3

# %% solution
language_network_by_hand = {
    "parameters": 165,
    "two_more": 40,
    "first_loss": 2.302585,
    "rows": 2,
    "z_bar": -0.6,
    "a_bar": -0.18,
    "twice": 0.2,
}

# %% explanation
explanation = r"""
$E$ has $10 \cdot 4 = 40$ numbers, $W$ has $12 \cdot 5 = 60$, $b$ has 5, $U$ has $5 \cdot 10 = 50$
and $c$ has 10: together 165. Two more positions bring two more blocks of $W$ with $4 \cdot 5 = 20$
numbers each, and nothing else.

With scores of zero the softmax is uniform, and every word costs $\ln 10 = 2.303$.

Only rows that were read have a gradient: those of "the" and "goat". For the word that came, $\bar z
= \hat y - y = 0.4 - 1$. Through the tanh, $\bar a = \bar h (1 - h^2) = -0.5 \cdot 0.36$.

"The" stands first and third, so its row gets the first and the third share: $0.3 - 0.1 = 0.2$.
"""


# %% oracle
oracle_tolerance = 1e-5  # the network computes in float32


def oracle():
    """The network itself, in torch."""
    import torch
    from torch.nn import functional as F

    E, W, b = torch.randn(10, 4), torch.randn(12, 5), torch.zeros(5)
    U, c = torch.zeros(5, 10), torch.zeros(10)
    E.requires_grad_()
    read = E[torch.tensor([0, 1, 0])]
    shares = torch.zeros(3, 4)
    shares[:, 0] = torch.tensor([0.3, 0.7, -0.1])
    (gradient,) = torch.autograd.grad(read, E, shares, retain_graph=True)
    a = torch.atanh(torch.tensor(0.8, dtype=torch.float64)).requires_grad_()
    (a_bar,) = torch.autograd.grad(torch.tanh(a), a, torch.tensor(-0.5, dtype=torch.float64))
    z = torch.full((10,), 0.6 / 9).log()
    z[3] = torch.tensor(0.4).log()
    z.requires_grad_()
    (z_bar,) = torch.autograd.grad(F.cross_entropy(z, torch.tensor(3)), z)
    logits = torch.tanh(read.flatten() @ W + b) @ U + c
    (of_E,) = torch.autograd.grad(read.sum(), E)
    return {
        "parameters": sum(p.numel() for p in (E, W, b, U, c)),
        "two_more": torch.randn(20, 5).numel() - W.numel(),
        "first_loss": F.cross_entropy(logits, torch.tensor(7)).item(),
        "rows": int((of_E.abs().sum(1) > 0).sum()),
        "z_bar": z_bar[3].item(),
        "a_bar": a_bar.item(),
        "twice": gradient[0, 0].item(),
    }


# %% wrong
wrong = {
    "the two biases, of 5 and 10 numbers, are missing": {"parameters": 150},
    "W has three blocks of 4 × 5, one for each position": {"parameters": 125},
    "each position has a table of its own here; all share one": {"parameters": 245},
    "only one more block was counted; there are two more positions": {"two_more": 20},
    "these are two more rows of E; the table does not grow with the context": {"two_more": 8},
    "this is the loss in bits": {"first_loss": 3.322},
    "a loss of zero would mean that the word was certain": {"first_loss": 0},
    "a row for each position; but “the” has one row": {"rows": 3},
    "only rows that were read have a gradient": {"rows": 10},
    "this is ŷ; the 1 of the word that came was not subtracted": {"z_bar": 0.4},
    "the sign: it is ŷ − y, not y − ŷ": {"z_bar": 0.6},
    "the slope of tanh is 1 − h², not 1 − h": {"a_bar": -0.1},
    "the slope of tanh is 1 − h², not h²": {"a_bar": -0.32},
    "the second share went to the same row; it belongs to “goat”": {"twice": 0.9},
    "the first share is missing: both are added": {"twice": -0.1},
    "the two shares are added, not averaged": {"twice": 0.1},
}
