r"""What does a training cost?

A GPT with a vocabulary of $V = 64$ characters and 4 heads in each layer is trained for 4,000 steps,
each on a batch of 32 random windows of 256 characters. The text has 8,192,000 characters. With
pencil and paper:

- `questions`: how many predictions does the loss of one step average over?
- `read`: how many characters are read in the whole training?
- `epochs`: how often is that the text?
- `one_by_one`: for *one* window, how many characters would be read if each prediction had a pass of
  its own, over the window cut short?
- `scores`: how many attention scores does *one* layer compute in one step, those under the mask
  included?
- `lstm_steps`: an LSTM trains on batches of 64 windows of 64 characters. After how many steps has
  it read as many characters?
- `first_loss`: the loss of the first step in *bits*, if every character is equally likely.
"""

kind, level, points = "paper", 1, 2
tolerance = 1e-5


# %% solution
training_budget = {
    "questions": 8_192,
    "read": 32_768_000,
    "epochs": 4,
    "one_by_one": 32_896,
    "scores": 8_388_608,
    "lstm_steps": 8_000,
    "first_loss": 6,
}


# %% explanation
explanation = r"""
Every position of every window is a question, so a step has $32 \cdot 256 = 8\,192$. Over 4,000
steps that makes 32,768,000 characters, four times the text. One by one, a window would cost $1 +
2 + \dots + 256 = 256 \cdot 257 / 2 = 32\,896$ characters instead of 256.

The scores are the price: $32 \cdot 4 \cdot 256^2$ of them in each layer. With windows twice as long
and half as many of them the number of questions stays, and the scores double.

An LSTM's step has $64 \cdot 64 = 4\,096$ questions, so equal text takes 8,000 steps. And $\log_2
64 = 6$ bits is what every model of 64 characters should begin with; a fresh model that begins far
above it has logits that are too large.
"""


# %% oracle
def oracle():
    """The windows are laid out and counted."""
    import numpy as np

    batch = np.zeros((32, 256))
    read = steps = 0
    while read < 4_000 * batch.size:
        read, steps = read + np.zeros((64, 64)).size, steps + 1
    return {
        "questions": batch.size,
        "read": sum(batch.size for _ in range(4_000)),
        "epochs": 4_000 * batch.size / 8_192_000,
        "one_by_one": sum(range(1, 257)),
        "scores": sum(np.ones((256, 256)).size for _ in range(32 * 4)),
        "lstm_steps": steps,
        "first_loss": -np.log2(np.full(64, 1 / 64)).mean(),
    }


# %% wrong
wrong = {
    "a window of 256 characters holds 256 predictions, not one": {
        "questions": 32, "read": 128_000, "epochs": 128_000 / 8_192_000, "lstm_steps": 31.25
    },
    "a window comes with its targets, so all 256 positions predict, not 255": {
        "questions": 8_160, "read": 32_640_000, "epochs": 3.984375, "lstm_steps": 7968.75
    },
    "one by one the windows are 1, 2, …, 256 long, not 256 each": {"one_by_one": 65_536},
    "the last window of all is not cut: its 256 characters count too": {"one_by_one": 32_640},
    "this is for the whole batch; one window is asked for": {"one_by_one": 1_052_672},
    "every head has scores of its own": {"scores": 2_097_152},
    "this is for one window; the step has 32": {"scores": 262_144},
    "the masked scores are left out; they are computed, and hidden afterwards": {
        "scores": 4_210_688
    },
    "scores are T × T, not one for each position": {"scores": 32_768},
    "this is in nats; give bits instead": {"first_loss": 4.158883},
    "a batch of the LSTM has 64 windows too, not one": {"lstm_steps": 512_000},
}  # fmt: skip
