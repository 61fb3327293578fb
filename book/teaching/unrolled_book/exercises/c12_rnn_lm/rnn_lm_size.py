r"""How large is it?

A language model of words has a vocabulary of $V = 10\,000$, embeddings of $D = 200$ numbers, a
recurrence of $H = 200$ units, and a head with a bias. Biases of the recurrence are stored twice, as
torch and the book's library do it. With pencil and paper, count its parameters:

- `elman`: with an Elman cell;
- `lstm`: with an LSTM cell;
- `lstm_tied`: with an LSTM cell and the head's matrix tied to the embedding's;
- `one_more_word`, `one_more_word_tied`: how many parameters does the LSTM model gain if the
  vocabulary grows by one word, untied and tied?
"""

kind, level, points = "paper", 1, 2
tolerance = 1e-9


# %% starter
starter = """
rnn_lm_size = {
    "elman": ...,
    "lstm": ...,
    "lstm_tied": ...,
    "one_more_word": ...,
    "one_more_word_tied": ...,
}
"""

# %% solution
rnn_lm_size = {
    "elman": 4_090_400,
    "lstm": 4_331_600,
    "lstm_tied": 2_331_600,
    "one_more_word": 401,
    "one_more_word_tied": 201,
}

# %% explanation
explanation = r"""
The embedding has $VD = 2\,000\,000$ numbers and the head $HV + V = 2\,010\,000$. An Elman cell has
$DH + H^2 + 2H = 80\,400$, an LSTM cell four times that. Nearly all of the model is vocabulary: the
part that remembers is a thirteenth of it, which is why tying pays. Tied, the head keeps only its
bias. As $D = H$ no map is needed between them.

One more word is one more row of the embedding, one more column of the head's matrix, and one more
bias; tied, row and column are the same $200$ numbers.
"""


# %% oracle
def oracle():
    """The models are built without memory and their parameters counted."""
    import torch
    from unrolled.models.recurrent_lm import RecurrentLM

    def count(V, cell, tied):
        with torch.device("meta"):
            model = RecurrentLM(V, cell, embedding_dim=200, hidden_size=200, tie_embeddings=tied)
        return sum(p.numel() for p in model.parameters())

    V = 10_000
    return {
        "elman": count(V, "elman", False),
        "lstm": count(V, "lstm", False),
        "lstm_tied": count(V, "lstm", True),
        "one_more_word": count(V + 1, "lstm", False) - count(V, "lstm", False),
        "one_more_word_tied": count(V + 1, "lstm", True) - count(V, "lstm", True),
    }


# %% wrong
wrong = {
    "each block of the recurrence has two biases here, one for the input and one for the state": {
        "elman": 4_090_200, "lstm": 4_330_800, "lstm_tied": 2_330_800
    },
    "the LSTM has four blocks, not three": {"lstm": 4_251_200, "lstm_tied": 2_251_200},
    "the matrix for the state, H × H, is left out of the recurrence": {
        "elman": 4_050_400, "lstm": 4_171_600, "lstm_tied": 2_171_600
    },
    "the bias of the head is left out": {
        "elman": 4_080_400, "lstm": 4_321_600, "lstm_tied": 2_321_600,
        "one_more_word": 400, "one_more_word_tied": 200,
    },
    "tied, the head's bias is still its own: only the matrix is shared": {
        "lstm_tied": 2_321_600, "one_more_word_tied": 200
    },
    "the embedding is left out": {"elman": 2_090_400, "lstm": 2_331_600, "one_more_word": 201},
    "tied, the two matrices are one: it counts once": {"lstm_tied": 4_331_600},
    "one more word adds nothing to the recurrence: its size does not depend on V": {
        "one_more_word": 401 + 8 * 200, "one_more_word_tied": 201 + 8 * 200
    },
}  # fmt: skip
