r"""What each process holds

A model has 5 billion parameters. It is trained in mixed precision with Adam, so each parameter
takes 2 bytes as a weight, 2 as a gradient, and 12 for the optimiser's numbers, the master weight
among them. A GPU holds 40 gigabytes (of $10^9$ bytes), and the activations of a step take 8 of
them.

- `alone`: gigabytes of weights, gradients and the optimiser's numbers where nothing is dealt out;
- `stage_1`, `stage_2`, `stage_3`: the same in each of 10 processes, at the stages of ZeRO;
- `fewest_1`: the smallest number of GPUs on which stage 1 fits;
- `fewest_3`: the same for stage 3;
- `largest`: how many billion parameters a model may have that fits at stage 1, if the GPUs may be
  as many as you like (their limit);
- `sent`: gigabytes of gradients that each of 10 processes sends in one all-reduce by a ring.
"""

import math

kind, level, points = "paper", 1, 3

# %% solution
what_each_holds = {
    "alone": 80,
    "stage_1": 26,
    "stage_2": 17,
    "stage_3": 8,
    "fewest_1": 5,
    "fewest_3": 3,
    "largest": 8,
    "sent": 18,
}

# %% explanation
explanation = r"""
Alone a process holds $5 \cdot 16 = 80$ gigabytes: 10 of weights, 10 of gradients, 60 of the
optimiser's numbers. Each stage divides one more part by ten: $10 + 10 + 6$, then $10 + 1 + 6$, then
$1 + 1 + 6$.

Of 40 gigabytes 32 are free. Stage 1 needs $20 + 60/R \le 32$, so five processes; stage 3 needs
$80/R \le 32$, and two and a half processes are three.

With ever more processes stage 1 still keeps whole weights and gradients, 4 bytes for each
parameter: 32 gigabytes are enough for 8 billion. At stage 3 only the activations
and the fetched layer set a limit.

The gradients are 10 gigabytes. The ring makes 9 turns twice, and in each a process sends a tenth:
$2 \cdot 9 \cdot 1 = 18$ gigabytes.
"""


# %% oracle
def oracle():
    """Byte by byte for each parameter, with processes counted up one by one."""
    billions, bytes_of = 5, {"weights": 2, "gradients": 2, "optimiser": 12}
    stages = ((), ("optimiser",), ("optimiser", "gradients"), tuple(bytes_of))

    def each(stage, n, size=billions):
        shares = (b / n if part in stages[stage] else b for part, b in bytes_of.items())
        return size * sum(shares)

    def fewest(stage):
        n = 1
        while each(stage, n) > 40 - 8:
            n += 1
        return n

    size = 0.0
    while each(1, math.inf, size + 0.001) <= 32 + 1e-9:
        size += 0.001
    turns, a_part = 2 * (10 - 1), billions * bytes_of["gradients"] / 10
    return {
        "alone": each(0, 1),
        "stage_1": each(1, 10),
        "stage_2": each(2, 10),
        "stage_3": each(3, 10),
        "fewest_1": fewest(1),
        "fewest_3": fewest(3),
        "largest": round(size, 3),
        "sent": sum(a_part for _ in range(turns)),
    }


# %% wrong
wrong = {
    "gradients and the optimiser's numbers are held as well as weights": {"alone": 10},
    "the optimiser's 12 bytes hold the master weight beside the two means": {"alone": 60},
    "stage 1 leaves weights and gradients whole in each process": {"stage_1": 8},
    "stage 1 deals out the optimiser's 12 bytes, not the other 4": {"stage_1": 62},
    "stage 2 deals out the gradients as well as the optimiser's numbers": {"stage_2": 26},
    "stage 2 leaves the weights whole in each process": {"stage_2": 8},
    "stage 3 deals out the weights, too": {"stage_3": 17},
    "of the 40 gigabytes the activations take 8": {"fewest_1": 3, "fewest_3": 2},
    "stage 1 needs 20 gigabytes and a share of 60, not a share of 80": {"fewest_1": 3},
    "two and a half processes do not exist: the third one is needed": {"fewest_3": 2},
    "with many processes the optimiser's share goes to nothing, 4 bytes stay": {"largest": 2},
    "4 bytes of each parameter stay, a weight's two and a gradient's two": {"largest": 16},
    "the ring goes round twice: once to add up, once to hand out": {"sent": 9},
    "in a ring a process sends a tenth in each turn, not its gradients to nine others": {
        "sent": 90
    },
    "each half of the ring has nine turns, not ten": {"sent": 20},
}
