"""Trained Transformers that ship with the book, for chapters that look inside one.

Each is one file, `results/<name>.npz` beside the record of the same name, with the configuration
and the weights in half precision. The command that writes the record also writes this file, and the
record keeps its checksum.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from unrolled.models.transformer import TransformerLM
from unrolled.models.transformer_config import TransformerConfig

from unrolled_book.experiments import record
from unrolled_book.experiments._common import seeded

CONFIG = "config"  # the only entry of the file that is not a weight


def save(name: str, model: TransformerLM, folder: Path | None = None) -> Path:
    """Write the model's configuration and weights (float16) and return the file's path.

    folder: by default where the records are. Raises TypeError for another model,
    ValueError for weights that float16 cannot hold.
    """
    if not isinstance(model, TransformerLM):
        raise TypeError(f"expected a TransformerLM, got {type(model).__name__}")
    weights = {}
    for key, value in model.state_dict().items():
        if key == "head.weight" and model.config.tie_embeddings:
            continue
        weights[key] = value.detach().cpu().numpy().astype(np.float16)
        if not np.isfinite(weights[key]).all():
            raise ValueError(f"{key} does not fit into float16: it holds {value.abs().max()}")
    config = np.frombuffer(json.dumps(asdict(model.config)).encode(), dtype=np.uint8)
    folder = record.writable_results() if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    written = io.BytesIO()
    np.savez_compressed(written, **{CONFIG: config}, **weights)
    record.replace(folder / f"{name}.npz", written.getvalue())
    return folder / f"{name}.npz"


def load(name: str, folder: Path | None = None) -> TransformerLM:
    """The model in float32 and evaluation mode.

    Raises KeyError with the known names for an unknown one, and ValueError if the file is not the
    one that its record names.
    """
    folder = record.RESULTS if folder is None else folder
    if name not in names(folder):
        known = ", ".join(names(folder)) or "none yet"
        raise KeyError(f"there is no trained model {name!r} in {folder}; known: {known}")
    path, expected = folder / f"{name}.npz", record.load(name, folder).get("weights_sha256")
    if (found := checksum(path)) != expected:
        raise ValueError(
            f"{path} has the SHA-256 {found}, but its record {name}.json says {expected}; restore "
            "both, or make both with `make results`"
        )
    with np.load(path, allow_pickle=False) as file:
        config = TransformerConfig(**json.loads(file[CONFIG].tobytes()))
        weights = {
            key: torch.from_numpy(file[key].astype(np.float32)) for key in file if key != CONFIG
        }
    with seeded(0):  # draws weights, for those that are read to take their place
        model = TransformerLM(config)
    if config.tie_embeddings:
        weights["head.weight"] = weights["embedding.weight"]
    model.load_state_dict(weights)
    return model.eval()


def checksum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def names(folder: Path | None = None) -> tuple[str, ...]:
    """The names of the trained models, sorted."""
    folder = record.RESULTS if folder is None else folder
    return tuple(sorted(path.stem for path in folder.glob("*.npz")))
