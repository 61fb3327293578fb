"""Experiments that take too long for a chapter: one module each, with one function `run`.

`run(...)` does the experiment and returns the fields of its record: `config`, `seeds`, `metrics`,
`curve` if something is plotted (see `record.save`), and `model` if a trained model ships with the
record (see `trained`). It writes nothing. All its arguments have defaults: the record is the run
with the defaults, and a chapter or a test calls it with smaller ones. A module that reads another's
record or model names it in `NEEDS`. To write a record:

    python -m unrolled_book.experiments NAME…

`make results` runs all of them (ONLY=NAME for one).
"""
