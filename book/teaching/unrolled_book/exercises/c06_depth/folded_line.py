r"""What depth can fold

The layer $t(x) = 2\, \mathrm{ReLU}(x) - 4\, \mathrm{ReLU}(x - \frac12)$ has two hidden units. On
$0 \le x \le 1$ it rises from 0 to 1 and falls back to 0: it folds the line once. Apply it $L$
times, $t(t(\dots t(x)))$, and count on $0 \le x \le 1$.

- `pieces`: the number of straight pieces for $L = 1, 2, 3, 10$, a list;
- `crossings`: how often the curve for $L = 10$ crosses the height $\frac13$;
- `deep_units`: how many hidden units the network with $L = 10$ has;
- `wide_units`: how many hidden units a network with a *single* hidden layer of ReLUs needs for the
  *same* curve on $0 < x < 1$ as $L = 10$: each unit bends the line in one point, and one more unit
  gives the first piece its slope;
- `slope`: the largest slope of the curve for $L = 10$.

Then ask yourself whether a random start would find such weights.
"""

kind, level, points = "experiment", 2, 3
tolerance = 1e-9

# %% starter
starter = """
folded_line = {
    "pieces": [..., ..., ..., ...],
    "crossings": ...,
    "deep_units": ...,
    "wide_units": ...,
    "slope": ...,
}
"""

# %% solution
folded_line = {
    "pieces": [2, 4, 8, 1024],
    "crossings": 1024,
    "deep_units": 20,
    "wide_units": 1024,
    "slope": 1024,
}

# %% explanation
explanation = r"""
Each piece of the curve runs between 0 and 1, up or down, and so passes through the whole fold: $t$
makes two pieces of it, each twice as steep. So $L$ layers give $2^L$ pieces of slope $\pm 2^L$, and
each piece crosses the height $\frac13$ once.

Ten layers with two units each, 20 units, do what a single layer needs one unit per piece for:
$1023$ bends and one more for the first slope. That is what depth can do *in principle*
([Telgarsky, 2016](cite:telgarsky2016)). Change the first layer's weight 2 to 2.002, and the output
at $x = 1$ goes from 0 to 0.98, so do not expect a random start to find it (we have not tried):
again a solution that exists.

```python
x = np.linspace(0, 1, 2**14 + 1)
for L in range(1, 11):
    x_L = x if L == 1 else x_L
    x_L = 2 * np.maximum(x_L, 0) - 4 * np.maximum(x_L - 0.5, 0)
    bends = np.abs(np.diff(x_L, 2)) > 1e-9
    print(L, bends.sum() + 1, (np.diff(x_L > 1 / 3) != 0).sum())
```
"""


# %% oracle
def oracle():
    """Fold a fine grid of binary fractions, where every step is exact, and count."""
    import numpy as np

    x = np.arange(2**14 + 1) / 2**14
    pieces, curve = {}, x
    for n in range(1, 11):
        curve = 2 * np.maximum(curve, 0) - 4 * np.maximum(curve - 0.5, 0)
        pieces[n] = int((np.diff(curve, 2) != 0).sum()) + 1
    steps = np.diff(curve) * 2**14
    return {
        "pieces": [pieces[n] for n in (1, 2, 3, 10)],
        "crossings": int((np.diff((curve > 1 / 3).astype(int)) != 0).sum()),
        "deep_units": 2 * len(pieces),
        "wide_units": (pieces[10] - 1) + 1,
        "slope": float(steps.max()),
    }


# %% wrong
wrong = {
    "each layer doubles the pieces; it does not add two": {"pieces": [2, 4, 6, 20]},
    "the bends were counted; there is one piece more": {"pieces": [1, 3, 7, 1023]},
    "the pieces that fall cross the height as well": {"crossings": 512},
    "a layer has two hidden units": {"deep_units": 10},
    "one unit for each bend is not enough: before the first bend the curve already rises": {
        "wide_units": 1023
    },
    "the slope doubles with each layer": {"slope": 20},
}
