r"""Two faults in an engine

A *tape* lists the values of a scalar program in the order in which they were computed. Value $i$
has the indices of its parents in `parents[i]` and, in the same order, its derivatives with respect
to them in `partials[i]`; inputs have neither. For $f = a^2 + a$ at $a = 3$ the tape is
`parents = [(), (0, 0), (1, 0)]` and `partials = [(), (3, 3), (1, 1)]`.

This function is to return the derivatives of the *last* value with respect to all values, a list.

```python
def tape_gradients(parents, partials):
    grads = [0.0] * len(parents)
    grads[-1] = 1.0
    for i in range(len(parents)):
        for parent, partial in zip(parents[i], partials[i]):
            grads[parent] = grads[i] * partial
    return grads
```

It has two faults. Find them, and write it right. Each value should send its gradient on once: one
of the tests is a tape of forty doublings, which has $2^{40}$ paths.
"""

from unrolled_book.exercises.engine import call, swap

kind, level, points = "code", 2, 3


# %% starter
starter = '''
def tape_gradients(parents, partials):
    """Derivatives of the last value with respect to all values, a list."""
    return ...  # your code here
'''


# %% solution
def tape_gradients(parents, partials):
    """Derivatives of the last value with respect to all values, a list."""
    grads = [0.0] * len(parents)
    grads[-1] = 1.0
    for i in reversed(range(len(parents))):
        for parent, partial in zip(parents[i], partials[i], strict=True):
            grads[parent] += grads[i] * partial
    return grads


# %% explanation
explanation = r"""
The walk went forwards, from the inputs, where all gradients are still zero; it must start at the
result. And `=` overwrites where a value is used twice; `+=` adds. A tape is in topological order by
the way it was made: a value is computed after its parents. Read backwards, each value comes after
everything that uses it, so its gradient is complete when its turn comes. Values that the result
does not depend on keep the gradient 0.
"""


# %% use
class Tape(list):
    """A list that can be read some fifty times for each pair of values, and then refuses."""

    reads = 0

    def __getitem__(self, i):
        self.reads += 1
        if self.reads > 50 * len(self) ** 2:
            raise RuntimeError(f"the tape of {len(self)} values was read {self.reads:,} times")
        return super().__getitem__(i)


def use(answer, parents, partials):
    return answer(Tape(parents), Tape(partials))


# %% tests
show = True


def tape(rng, n, n_inputs=2):
    """A random tape on which values are used several times, not at all, or twice by one value."""
    parents, partials = [()] * n_inputs, [()] * n_inputs
    for i in range(n_inputs, n):
        k = int(rng.integers(1, 4))
        parents.append(tuple(int(j) for j in rng.integers(0, i, size=k)))
        partials.append(tuple(float(p) for p in rng.normal(size=k)))
    return parents, partials


def tests(rng):
    hint = "one value, used twice by the same operation, and once more"
    yield call([(), (0, 0), (1, 0)], [(), (3.0, 3.0), (1.0, 1.0)], visible=True, hint=hint)
    yield call([(), (0,), (1,)], [(), (2.0,), (-5.0,)], hint="a chain, nothing is used twice")
    for n in (5, 11, 17):
        yield call(*tape(rng, n))
    yield call([(), (), (0,)], [(), (), (7.0,)], hint="the result does not depend on value 1")
    yield call([(), (0, 0)], [(), (3.0, 4.0)], hint="the result uses one value twice")
    doublings = [(), *((i, i) for i in range(40))], [(), *[(1.0, 1.0)] * 40]
    yield call(*doublings, hint="forty doublings: few values, very many paths")
    yield call([()], [()], hint="one value: the derivative of a value by itself")


# %% oracle
def oracle(parents, partials):
    """Forward mode, once for each value: nudge it, and push the nudge on to the last value."""

    def change_of_the_last(nudged):
        change = []
        for i, (before, slopes) in enumerate(zip(parents, partials, strict=True)):
            arriving = sum(change[j] * slope for j, slope in zip(before, slopes, strict=True))
            change.append(float(i == nudged) + arriving)
        return change[-1]

    return [change_of_the_last(i) for i in range(len(parents))]


# %% wrong
def from_the_first(parents, partials):
    grads = [1.0] + [0.0] * (len(parents) - 1)
    for i in range(1, len(parents)):
        for parent, partial in zip(parents[i], partials[i], strict=True):
            grads[i] += grads[parent] * partial
    return grads


def along_paths(parents, partials):
    grads = [0.0] * len(parents)

    def walk(i, grad):
        grads[i] += grad
        for parent, partial in zip(parents[i], partials[i], strict=True):
            walk(parent, grad * partial)

    walk(len(parents) - 1, 1.0)
    return grads


wrong = {
    "the tape is read far too often; each value should send its gradient on once": along_paths,
    "a value used twice keeps only the gradient that arrived last: `=` where `+=` belongs": (
        swap("+=", "=")
    ),
    "the walk goes from the inputs to the result; gradients start at the result": (
        swap("reversed(range(len(parents)))", "range(len(parents))")
    ),
    "nothing has been mended: the walk goes forwards, and gradients overwrite each other": (
        swap("reversed(range(len(parents)))", "range(len(parents))").swap("+=", "=")
    ),
    "every value starts with the gradient 1; that holds for the result alone": (
        swap("[0.0]", "[1.0]")
    ),
    "the result's own gradient, 1, was never set, so everything stays 0": (
        swap("    grads[-1] = 1.0\n", "")
    ),
    "a value that one operation uses twice is counted once": (
        swap(
            "zip(parents[i], partials[i], strict=True)",
            "dict(zip(parents[i], partials[i])).items()",
        )
    ),
    "gradients along two paths are multiplied; they add": (swap("+=", "*=").swap("[0.0]", "[1.0]")),
    "this is forward mode: derivatives of every value with respect to the first": from_the_first,
    "only the inputs' gradients are returned; every value has one": (
        swap("return grads", "return [g for g, p in zip(grads, parents) if not p]")
    ),
    "the local derivatives are added up without the gradient that arrived from above": (
        swap("grads[i] * partial", "partial")
    ),
}
