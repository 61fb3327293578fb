"""Recorded experiments: results that a chapter shows but does not compute.

A record is one JSON file, `results/<name>.json`, in the folder beside this module. It is part of
the package, so a chapter also opens where only the package is installed.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
import subprocess
import threading
from importlib import metadata
from numbers import Integral, Real
from pathlib import Path

import numpy as np

REQUIRED = (
    "name", "config", "seeds", "commit", "device", "versions", "curve", "metrics", "seconds",
)  # fmt: skip
RESULTS = Path(__file__).with_name("results")


def save(
    name: str,
    *,
    config: dict,
    seeds: list[int],
    metrics: dict,
    seconds: float,
    curve: list | None = None,
    device: str = "cpu",
    weights_sha256: str | None = None,
    folder: Path | None = None,
) -> Path:
    """Write a record and return its path. It also gets the commit and the versions.

    seeds: empty if nothing is random. curve: rows to plot, if any. seconds: wall-clock time of the
    whole experiment. weights_sha256: the checksum of the trained model that ships with the record,
    if there is one (see `trained`). folder: by default `RESULTS`, if the library is part of a
    checkout of the book. An existing record is replaced as a whole or, if saving fails, not at all.
    Raises ValueError for a number that is not finite or for a value or key that JSON does not have,
    FileNotFoundError for an installed library.
    """
    if not re.fullmatch(r"[a-z0-9_]+", name):
        raise ValueError(f"a record's name is lower-case letters, digits and _, got {name!r}")
    if folder is None:
        folder = writable_results()
    record = {
        "name": name,
        "config": config,
        "seeds": list(seeds),
        "commit": _commit(),
        "device": f"{device}, {platform.machine()}",
        "versions": {"python": platform.python_version()}
        | {package: metadata.version(package) for package in ("numpy", "torch", "unrolled")},
        "curve": [] if curve is None else curve,
        "metrics": metrics,
        "seconds": seconds,
    }
    if weights_sha256 is not None:
        record["weights_sha256"] = weights_sha256
    _check(record)
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False, default=_plain) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    replace(folder / f"{name}.json", text.encode("utf-8"))
    return folder / f"{name}.json"


def load(name: str, folder: Path | None = None) -> dict:
    """Read a record. Raises KeyError with the known names, ValueError for a damaged file."""
    folder = RESULTS if folder is None else folder
    if name not in names(folder):
        known = ", ".join(names(folder)) or "none yet"
        raise KeyError(f"no record {name!r} in {folder}; known: {known}")
    path = folder / f"{name}.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        _check(record)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    return record


def names(folder: Path | None = None) -> tuple[str, ...]:
    """The names of all records, sorted."""
    folder = RESULTS if folder is None else folder
    return tuple(sorted(path.stem for path in folder.glob("*.json")))


def writable_results() -> Path:
    """`RESULTS`. Raises FileNotFoundError for an installed library, which must not change."""
    root = RESULTS.parents[4]
    if not ((root / "chapters").is_dir() and (root / "lib" / "unrolled").is_dir()):
        raise FileNotFoundError(
            f"records are saved in a checkout of the book, but the library is installed in {root}"
        )
    return RESULTS


def _commit() -> str:
    """The commit of the code; "+changes" if lib differs from it."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str | None:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, encoding="utf8")
        return done.stdout.strip() if done.returncode == 0 else None

    try:
        head = git("rev-parse", "HEAD")
        changes = git("status", "--porcelain", "--", ":/lib/unrolled/*.py") if head else None
    except FileNotFoundError:  # no git on this machine
        return "unknown"
    return "unknown" if head is None else head + ("+changes" if changes else "")


def replace(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: a reader never finds half of one."""
    new = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        new.write_bytes(data)
        new.replace(path)
    except OSError as error:
        if error.errno and not error.filename:  # a full disk names no file
            error.filename = str(path)
        raise
    finally:
        new.unlink(missing_ok=True)


def _check(record: dict) -> None:
    if not isinstance(record, dict):
        raise ValueError(f"a record is a dict, got {type(record).__name__}")
    missing = [field for field in REQUIRED if field not in record]
    if missing:
        raise ValueError(
            f"the record lacks {', '.join(missing)}; it must have {', '.join(REQUIRED)}"
        )
    if not record["metrics"]:
        raise ValueError(f"the record {record['name']!r} has no metrics")
    if not isinstance(record["seeds"], list):
        raise ValueError(f"seeds must be a list, got {record['seeds']!r}")
    for seed in record["seeds"]:
        if not isinstance(seed, Integral):
            raise ValueError(f"seeds must be integers, got {seed!r}")
    if not isinstance(record["seconds"], Real):
        raise ValueError(f"seconds must be a number, got {record['seconds']!r}")
    _check_finite(record, "record")


def _check_finite(value: object, where: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"a key of {where} must be text, got {key!r}")
            _check_finite(item, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            _check_finite(item, f"{where}[{i}]")
    elif isinstance(value, Real):
        if not math.isfinite(value):
            raise ValueError(f"{where} must be finite, got {value}")
    elif not (value is None or isinstance(value, (str, np.bool_))):
        raise ValueError(
            f"{where} must be a number, text, list or dict, got {type(value).__name__}"
        )


def _plain(number: object) -> bool | int | float:
    """numpy's scalars as Python's."""
    if isinstance(number, np.bool_):
        return bool(number)
    return int(number) if isinstance(number, Integral) else float(number)
