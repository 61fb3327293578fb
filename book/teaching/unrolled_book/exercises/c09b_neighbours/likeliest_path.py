r"""The likeliest path

The forward algorithm *adds* over all paths through the states of a hidden Markov model. Often the
one path is wanted that explains best what was seen: the tags of a sentence, say. Write
`likeliest_path(density, A, start)`: `density[t, j]` is $p(x_t \mid j)$, `(T, K)`; `A[i, j]` the
probability to move from state $i$ to state $j$, `(K, K)`; `start` the distribution of the first
state, `(K,)`. Return the states $s_1 \dots s_T$, integers `(T,)`, that make

$$
\mathrm{start}_{s_1}\, p(x_1 \mid s_1) \prod_{t=2}^{T} A_{s_{t-1} s_t}\, p(x_t \mid s_t)
$$

largest. Sequences may have hundreds of steps, so $K^T$ paths are too many, and a product of
hundreds of small numbers is 0 to the computer. All the numbers given are above 0.
"""

import numpy as np

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 3, 4


# %% solution
def likeliest_path(density, A, start):
    """The likeliest states (T,) for density (T, K), A (K, K) and start (K,)."""
    best = np.log(start) + np.log(density[0])  # (K,), best path to here
    came_from = []
    for d in density[1:]:
        paths = best[:, None] + np.log(A)  # (K, K): from, to
        came_from.append(paths.argmax(axis=0))
        best = paths.max(axis=0) + np.log(d)
    states = [best.argmax()]
    for previous in reversed(came_from):
        states.append(previous[states[-1]])
    return np.array(states[::-1])


# %% explanation
explanation = r"""
This is Viterbi's algorithm: the forward recursion with a maximum in place of the sum. The best
path that ends in state $j$ at step $t$ must run, up to $t - 1$, along the best path to *some*
state $i$; so for each $j$ it is enough to compare $K$ candidates and to remember where the winner
came from. At the end choose the best last state and walk back. Logarithms turn the product into a
sum, which does not underflow, and leave the maximum where it is.

To take the likeliest state at each step by itself is something else, even given the whole
sequence: each state may be likely, and the move between two of them rare.
"""


# %% tests
def model(rng, n_steps, n_states):
    A = rng.dirichlet(np.ones(n_states), size=n_states) * 0.9 + 0.1 / n_states
    start = rng.dirichlet(np.ones(n_states)) * 0.9 + 0.1 / n_states
    return rng.gamma(0.7, size=(n_steps, n_states)) + 1e-3, A, start


def tests(rng):
    sticky = np.array([[0.9, 0.1], [0.1, 0.9]])
    seen = np.array([[0.9, 0.1], [0.3, 0.7], [0.9, 0.1]])
    yield call(seen, sticky, np.array([0.5, 0.5]), visible=True)
    first = np.array([[0.6, 0.4], [0.5, 0.5]])
    yield call(first, np.array([[0.5, 0.5], [0.05, 0.95]]), np.array([0.2, 0.8]), hint="`start`")
    other = np.array([[0.6, 0.4], [0.05, 0.95]])
    yield call(first, other, np.array([0.8, 0.2]), hint="`start`")
    for n_steps, n_states in [(7, 3), (11, 5), (1, 4), (13, 2)]:
        yield call(*model(rng, n_steps, n_states))
    density, A, start = model(rng, 400, 3)
    yield call(density * 1e-3, A, start, hint="a product of 400 small numbers is 0")
    one_way = np.array([[0.05, 0.9, 0.05], [0.05, 0.05, 0.9], [0.9, 0.05, 0.05]])
    density, _, start = model(rng, 17, 3)
    yield call(density, one_way, start, hint="A[i, j] leads from i to j")
    late = np.array([[0.55, 0.45], [0.55, 0.45], [0.01, 0.99]])
    yield call(late, np.array([[0.99, 0.01], [0.01, 0.99]]), np.array([0.5, 0.5]))


# %% oracle
def oracle(density, A, start):
    """For each step and state the best path through it, from both ends; then the best state."""
    log_A = np.log(A)
    ahead = [np.log(start) + np.log(density[0])]
    for d in density[1:]:
        ahead.append(np.array([max(ahead[-1] + column) for column in log_A.T]) + np.log(d))
    behind = [np.zeros(len(start))]
    for d in density[:0:-1]:
        behind.append(np.array([max(row + np.log(d) + behind[-1]) for row in log_A]))
    through = np.array(ahead) + np.array(behind[::-1])
    return through.argmax(axis=1)


# %% wrong
def filtered(density, A, start):
    belief, states = start, []
    for d in density:
        joint = belief * d
        states.append(joint.argmax())
        belief = joint / joint.sum() @ A
    return np.array(states)


def greedy(density, A, start):
    states = [int((start * density[0]).argmax())]
    for d in density[1:]:
        states.append(int((A[states[-1]] * d).argmax()))
    return np.array(states)


def smoothed(density, A, start):
    beliefs, after = [start * density[0]], [np.ones(len(start))]
    for d in density[1:]:
        belief = beliefs[-1] / beliefs[-1].sum() @ A * d
        beliefs.append(belief)
    for d in density[:0:-1]:
        later = A @ (d * after[-1])
        after.append(later / later.sum())
    return (np.array(beliefs) * np.array(after[::-1])).argmax(axis=1)


def best_ends(density, A, start):
    best = np.log(start) + np.log(density[0])
    states = [best.argmax()]
    for d in density[1:]:
        best = (best[:, None] + np.log(A)).max(axis=0) + np.log(d)
        states.append(best.argmax())
    return np.array(states)


wrong = {
    "probabilities are multiplied, and hundreds of them underflow to 0": (
        swap("np.log(start) + np.log(density[0])", "start * density[0]")
        .swap("+ np.log(A)", "* A")
        .swap("+ np.log(d)", "* d")
    ),
    "A is transposed: A[i, j] is the move from i to j": swap("np.log(A)", "np.log(A.T)"),
    "the distribution of the first state is left out": swap("np.log(start) + ", ""),
    "each step takes the best next move and never goes back on it": greedy,
    "each step takes the state that is likeliest from what was seen up to there": filtered,
    "each step takes the state that is likeliest by itself, over all paths": smoothed,
    "the best path to each step is computed, but nobody walks back from the last one": best_ends,
    "the moves are left out: each step takes the state that explains it best": (
        lambda density, A, start: density.argmax(axis=1)
    ),
    "the path is returned from its end to its beginning": swap("[::-1]", ""),
    "the states are counted from 1": swap("[::-1])", "[::-1]) + 1"),
}
