r"""A router by hand

Four tokens meet three experts, $k = 2$. The router's probabilities are

| token | expert 0 | expert 1 | expert 2 |
|:--|--:|--:|--:|
| a | .6 | .3 | .1 |
| b | .5 | .1 | .4 |
| c | .5 | .4 | .1 |
| d | .1 | .3 | .6 |

- `weights`: the two weights of token b, the larger first, divided by their sum.
- `f`: the share of all eight choices that each expert gets.
- `P`: the mean probability $P_i$ of each expert.
- `loss`: $E \sum_i f_i P_i$.
- `kept`: how many of the eight choices are served with two seats at each expert, first choices
  before second ones.
"""

kind, level, points = "paper", 1, 3
tolerance = 2e-3

# %% solution
routing_by_hand = {
    "weights": (5 / 9, 4 / 9),
    "f": (3 / 8, 3 / 8, 2 / 8),
    "P": (0.425, 0.275, 0.3),
    "loss": 1.0125,
    "kept": 6,
}

# %% explanation
explanation = r"""
Token b takes experts 0 and 2: $.5/.9$ and $.4/.9$.

The choices are a: 0, 1; b: 0, 2; c: 0, 1; d: 2, 1. Each expert's count over eight: 3, 3, 2. The
columns' means are .425, .275 and .3, so the balance loss is
$3\,(\tfrac38 \cdot .425 + \tfrac38 \cdot .275 + \tfrac28 \cdot .3) = 1.0125$.

First choices: expert 0 is wanted by a, b and c and seats two; d sits at expert 2. Second choices: a
and c sit at expert 1 and fill it, b sits at expert 2, and d finds expert 1 full. Six of eight are
served. Token c gets its second choice and not its first.
"""


# %% oracle
def oracle():
    """The library's routing, with room for ⌈2/8 · 8⌉ = 2 tokens."""
    import torch
    from unrolled.models.moe import MixtureOfExperts, balance_loss

    p = torch.tensor([[0.6, 0.3, 0.1], [0.5, 0.1, 0.4], [0.5, 0.4, 0.1], [0.1, 0.3, 0.6]])
    layer = MixtureOfExperts(4, 1, n_experts=3, capacity_factor=2 * 3 / 8)
    with torch.no_grad():
        layer.router.weight.copy_(p.log().T)
        routing = layer.route(torch.eye(4))
    f = torch.bincount(routing.experts.flatten()) / 8
    return {
        "weights": tuple(routing.weights[1].tolist()),
        "f": tuple(f.tolist()),
        "P": tuple(routing.probs.mean(0).tolist()),
        "loss": balance_loss(routing.probs, routing.experts).item(),
        "kept": int(routing.kept.sum()),
    }


# %% wrong
wrong = {
    "the weights are divided by their sum": {"weights": (0.5, 0.4)},
    "only the two chosen experts' probabilities are in the sum": {"weights": (5 / 10, 1 / 10)},
    "all choices count, not the first ones alone": {"f": (3 / 4, 0.0, 1 / 4)},
    "the shares are of all eight choices, so they sum to 1": {"f": (3 / 4, 3 / 4, 2 / 4)},
    "P is the mean over all tokens, whether they chose the expert or not": {
        "P": (1.6 / 3, 1.0 / 3, 1.0 / 2)
    },
    "P is a mean, not a sum": {"P": (1.7, 1.1, 1.2)},
    "the factor E is missing": {"loss": 0.3375},
    "the factor is E, the number of experts, not k": {"loss": 0.675},
    "the sum runs over f · P, not over f · f": {"loss": 3 * (9 + 9 + 4) / 64},
    "expert 0 has two seats and three tokens that want it": {"kept": 7},
    "expert 1 has two seats as well, and three want it second": {"kept": 8},
    "a token turned away by its first choice may still sit at its second": {"kept": 5},
}
