r"""Where a sum stops

A number with $p$ significant bits (bf16 has 8, fp16 has 11) has neighbours at a distance of
$2^{e+1-p}$ where it lies between $2^e$ and $2^{e+1}$. A result halfway between two neighbours is
rounded to the one whose last bit is 0.

- `bf16_halves`: from 0, add 0.5 again and again in bf16. At which number does it stop?
- `fp16_quarters`: the same with 0.25 in fp16.
- `bf16_steps`: a weight of 0.75 is stored in bf16, and its gradient is 1 in every step. What is the
  largest learning rate at which the weight never moves?
- `bf16_gain`: the same for a gain of 1 that is to *grow* (its gradient is −1).
"""

kind, level, points = "paper", 1, 2
tolerance = 1e-6

# %% solution
where_it_stops = {
    "bf16_halves": 128,
    "fp16_quarters": 512,
    "bf16_steps": 1 / 512,
    "bf16_gain": 1 / 256,
}

# %% explanation
explanation = r"""
The sum stops where half of the distance to the next number is what is added, since the tie goes to
the even neighbour, and a power of two is even. With $p = 8$ the distance is 1 from 128 to 256, and
half of it is 0.5. With $p = 11$ it is 0.5 from 512 to 1,024, and half of it 0.25.

Between 1/2 and 1 the bf16 numbers are $2^{-8}$ apart, and $0.75 = 192 / 256$ has an even last bit:
a step of $2^{-9} = 1/512$ still rounds back. A step as small as this is nothing unusual: late in a
training all learning rates are.

Above 1 the distance is $2^{-7}$, and a step of $2^{-8} = 1/256$ rounds back to 1. The gains of a
norm begin at 1.
"""


# %% oracle
def oracle():
    """torch's own rounding."""
    import torch

    def stops(step, dtype):
        x = torch.zeros((), dtype=dtype)
        while x + step != x:
            x = x + step
        return x.item()

    def largest(start, sign):
        """Of the multiples of 2⁻¹⁶, which float32 adds exactly."""
        steps = torch.arange(1024) / 2**16
        ends = (start + sign * steps).bfloat16()
        return steps[ends == start].max().item()

    return {
        "bf16_halves": stops(0.5, torch.bfloat16),
        "fp16_quarters": stops(0.25, torch.float16),
        "bf16_steps": largest(0.75, -1),
        "bf16_gain": largest(1.0, 1),
    }


# %% wrong
wrong = {
    "256 is where adding 1 stops; 0.5 is already lost where the distance is 1": {
        "bf16_halves": 256
    },
    "the sum stops at half the distance between neighbours, not at the whole distance": {
        "bf16_halves": 64
    },
    "2,048 is where adding 1 stops": {"fp16_quarters": 2048},
    "these are the bits of bf16; fp16 has 11": {"fp16_quarters": 64},
    "a quarter is lost where the distance is a half": {"fp16_quarters": 256},
    "half of the distance has to be a quarter: at 1,024 the distance is already 1": {
        "fp16_quarters": 1024
    },
    "0.75 lies between 1/2 and 1: the numbers there are 1/256 apart": {"bf16_steps": 1 / 256},
    "half of the distance, not a quarter: a tie goes to the even neighbour, 0.75": {
        "bf16_steps": 1 / 1024
    },
    "above 1 the numbers are twice as far apart as below": {"bf16_gain": 1 / 512},
    "a step of the whole distance reaches the next number; half of it does not": {
        "bf16_gain": 1 / 128
    },
}
