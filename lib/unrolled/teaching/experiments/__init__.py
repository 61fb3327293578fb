"""Experiments that take longer than a chapter's cells may: each a module with one function.

`run(...)` does the experiment and returns what a record holds: `config`, `seeds`, `metrics` and,
where something is plotted, `curve` (see `record.save`), and `model` where a trained model ships
with the record (see `trained`). Its arguments, all with defaults, make it small enough to be run
live in a chapter or in a test; the record is the run with the defaults. `run` writes nothing. A
module that reads another's record or model names it in `NEEDS`. A record is written by

    python -m unrolled.teaching.experiments NAME…

and by `make results`, which runs them all (ONLY=NAME for one).
"""
