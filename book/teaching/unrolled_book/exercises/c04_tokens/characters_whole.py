r"""A stream of whole characters

A model writes bytes, a few at a time. `chunks` is a list of lists of integers from 0 to 255;
joined, they are valid UTF-8. Write `characters_whole(chunks)`. Return a list of strings, one for
each chunk: all characters whose *last* byte has come with it. Bytes of a character that is not
finished wait for the next chunk.

The first byte of a character tells its length: below 128 one byte, from 192 on two, from 224 on
three, from 240 on four. The others are from 128 to 191. Python's decoders are allowed, too.
"""

import codecs

from unrolled_book.exercises.engine import call

kind, level, points = "code", 2, 3


# %% solution
def characters_whole(chunks):
    """For each chunk of bytes, the characters that it completes."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    return [decoder.decode(bytes(chunk)) for chunk in chunks]


# %% explanation
explanation = r"""
The decoder keeps a state between calls: the bytes of the unfinished character, at most three. By
hand you would keep them in a list, look at the first byte of what waits, and decode as soon as
enough have come. Nothing is shown twice, nothing is lost, and the reader waits for at most one
character.
"""


# %% tests
def tests(rng):
    yield call([[97], [195], [169, 33]], visible=True)
    yield call([], hint="no chunks")
    yield call([[], [98], []], hint="an empty chunk gives an empty string")
    yield call([[240], [159], [152], [128]], hint="four bytes, one at a time")
    yield call([[226, 130], [172, 226], [130, 172]], hint="one ends and another begins")
    yield call([[240, 159, 152, 128, 195], [169]], hint="a whole character, then half of one")
    yield call([[224], [184, 129]], hint="three bytes, the first is 224")
    yield call([[32, 195], [169, 32]], hint="spaces at the ends are characters")
    yield call([[239, 187], [191, 97]], hint="a byte-order mark is a character, too")
    yield call([[239, 191, 189], [195], [169]], hint="the text may hold the character � itself")
    text = "añ€😀 né字x"
    for _ in range(4):
        raw = [*"".join(rng.choice(list(text), 9)).encode()]
        cuts = sorted(int(c) for c in rng.integers(0, len(raw) + 1, 6))
        yield call([raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)])


# %% oracle
def oracle(chunks):
    """Decode everything; each character belongs to the chunk that holds its last byte."""
    text = bytes(b for chunk in chunks for b in chunk).decode()
    out, end, ends = [""] * len(chunks), 0, []
    for chunk in chunks:
        end += len(chunk)
        ends.append(end)
    at = 0
    for character in text:
        at += len(character.encode())
        out[next(k for k, e in enumerate(ends) if e >= at)] += character
    return out


# %% wrong
def waits(limit):
    def answer(chunks):
        out, held = [], b""
        for chunk in chunks:
            held += bytes(chunk)
            try:
                out.append(held.decode())
                held = b""
            except UnicodeDecodeError:
                out.append("")
        return out[:limit]

    return answer


def ended(chunks):
    """Each chunk decoded with the characters that begin in it."""
    text = bytes(b for chunk in chunks for b in chunk).decode()
    starts, at = [], 0
    for character in text:
        starts.append(at)
        at += len(character.encode())
    out, low = [], 0
    for chunk in chunks:
        high = low + len(chunk)
        out.append("".join(c for c, s in zip(text, starts, strict=True) if low <= s < high))
        low = high
    return out


def cut_off(chunks):
    """All bytes so far, without the broken characters at the end."""
    so_far, out = b"", []
    for chunk in chunks:
        before = so_far.decode(errors="replace").rstrip("\ufffd")
        so_far += bytes(chunk)
        out.append(so_far.decode(errors="replace").rstrip("\ufffd").removeprefix(before))
    return out


def unmarked(chunks):
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    return [decoder.decode(bytes(chunk)) for chunk in chunks]


wrong = {
    "a real � at the end is taken for a broken character": cut_off,
    "the byte-order mark at the beginning is dropped": unmarked,
    "white space at the ends of a string is dropped": (
        lambda chunks: [text.strip() for text in characters_whole(chunks)]
    ),
    "each chunk is decoded alone: characters break into �": (
        lambda chunks: [bytes(chunk).decode(errors="replace") for chunk in chunks]
    ),
    "bytes of unfinished characters are dropped": (
        lambda chunks: [bytes(chunk).decode(errors="ignore") for chunk in chunks]
    ),
    "whole characters wait as well when the last one of a chunk is not finished": waits(None),
    "a character is given with its first byte, before the others have come": ended,
    "every byte is taken for a character": (
        lambda chunks: ["".join(map(chr, chunk)) for chunk in chunks]
    ),
    "each string holds all the text so far, not what is new": (
        lambda chunks: [
            bytes(b for chunk in chunks[: k + 1] for b in chunk).decode(errors="ignore")
            for k in range(len(chunks))
        ]
    ),
}
