r"""A roofline on paper

A machine computes 200 GFLOP/s and moves 50 gigabytes a second. Numbers have 4 bytes unless the
question says otherwise. A matrix $W$ has $5000 \times 5000$ entries, so 100 megabytes; against it
the rows and results are small, and you may leave their bytes out.

- `ridge`: the intensity at the ridge, in FLOPs per byte;
- `rows`: the number of rows from which $X W$ is compute-bound;
- `ms_1`: the shortest time for one row times $W$, in milliseconds;
- `ms_32`: the same for 32 rows;
- `ms_1_bf16`: the same for one row where all numbers have 2 bytes and arithmetic is as fast as
  before;
- `ms_1_faster`: the same for one row in 4 bytes on a machine with twice the FLOP/s;
- `apart`, `fused`: the shortest times for $y = a x + b$, where $x$ and $y$ have 10 million entries
  each and $a$ and $b$ are two numbers: first as two programs, where the product goes to memory and
  comes back, then as one.
"""

kind, level, points = "paper", 1, 3

# %% solution
roof_on_paper = {
    "ridge": 4,
    "rows": 8,
    "ms_1": 2,
    "ms_32": 8,
    "ms_1_bf16": 1,
    "ms_1_faster": 2,
    "apart": 3.2,
    "fused": 1.6,
}

# %% explanation
explanation = r"""
The ridge is $200 / 50 = 4$ FLOPs per byte. Each entry of $W$ has 4 bytes and serves each row with 2
FLOPs, so $n$ rows have the intensity $n/2$: the ridge is at 8 rows.

One row needs 50 million FLOPs, a quarter of a millisecond, and 100 megabytes, 2 ms. The larger one
counts. With 32 rows the arithmetic takes $32 \cdot 0.25 = 8$ ms and the bytes still 2 ms. One row
in bf16 moves half of the bytes; twice the FLOP/s do not help it at all.

Each of the two programs reads 40 megabytes and writes 40, which takes 1.6 ms; the arithmetic, 0.05
ms, does not matter. In one program the product never goes to memory. This is what *fusing* saves,
and why compilers do it.
"""


# %% oracle
def oracle():
    """From the definition of the roofline, with rows counted up one by one."""
    peak, bandwidth, entries = 200e9, 50e9, 5000 * 5000

    def ms(flops, moved, peak=peak):
        return 1e3 * max(flops / peak, moved / bandwidth)

    rows = 1
    while 2 * rows * entries / peak < 4 * entries / bandwidth:
        rows += 1
    return {
        "ridge": peak / bandwidth,
        "rows": rows,
        "ms_1": ms(2 * entries, 4 * entries),
        "ms_32": ms(64 * entries, 4 * entries),
        "ms_1_bf16": ms(2 * entries, 2 * entries),
        "ms_1_faster": ms(2 * entries, 4 * entries, 2 * peak),
        "apart": 2 * ms(1e7, 8e7),
        "fused": ms(2e7, 8e7),
    }


# %% wrong
wrong = {
    "the ridge is FLOP/s over bytes per second: how many FLOPs a byte must serve": {"ridge": 0.25},
    "a number has 4 bytes: bytes, not numbers, are counted at the ridge": {"ridge": 16},
    "each row makes 2 FLOPs with an entry of W, a product and a sum": {"rows": 16},
    "each entry has 4 bytes, so n rows make n/2 FLOPs per byte, not 2n": {"rows": 2},
    "one row waits for memory: 100 MB take longer than 50 million FLOPs": {"ms_1": 0.25},
    "computing and fetching overlap: the larger of the two times counts, not the sum": {
        "ms_1": 2.25
    },
    "with 32 rows the arithmetic is the slower part": {"ms_32": 2},
    "W is fetched once for all 32 rows, not once for each of them": {"ms_32": 64},
    "half the bytes take half the time as long as memory is the slower part": {"ms_1_bf16": 2},
    "one row waits for memory, so faster arithmetic does not help it": {"ms_1_faster": 1},
    "both the reading and the writing of 40 MB take time": {"apart": 1.6, "fused": 0.8},
    "in two programs the product goes to memory and comes back": {"apart": 1.6},
    "fused, the product never goes to memory: x is read once and y written once": {"fused": 3.2},
    "these are the times of the arithmetic, which is not the slower part": {
        "apart": 0.1,
        "fused": 0.1,
    },
}
