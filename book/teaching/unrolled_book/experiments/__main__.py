"""Run experiments and record them: python -m unrolled_book.experiments NAME…, or `all`."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
import time
from graphlib import TopologicalSorter
from types import ModuleType

import torch

from unrolled_book import experiments
from unrolled_book.experiments import record, trained


def names() -> tuple[str, ...]:
    """The names of all experiments, sorted."""
    modules = pkgutil.iter_modules(experiments.__path__)
    wanted = re.compile(r"c\d\d[a-z]?_|ladder_|workbench")
    return tuple(sorted(m.name for m in modules if wanted.match(m.name)))


def module(name: str) -> ModuleType:
    """The experiment of this name."""
    return importlib.import_module(f"{experiments.__name__}.{name}")


def lacks_a_gpu(name: str) -> bool:
    """Whether the experiment needs a GPU and there is none; its record then stays as it is."""
    return getattr(module(name), "NEEDS_GPU", False) and not torch.cuda.is_available()


def in_order(chosen: list[str]) -> list[str]:
    """The chosen experiments, each after those whose records or models it needs."""
    needs = {name: getattr(module(name), "NEEDS", ()) for name in chosen}
    return [name for name in TopologicalSorter(needs).static_order() if name in chosen]


def main(arguments: list[str]) -> int:
    """Record the named experiments, or `all` that can run here. Returns 2 for an unknown name."""
    if arguments == ["all"]:
        arguments = [name for name in names() if not lacks_a_gpu(name)]
    unknown = [name for name in arguments if name not in names()]
    if unknown or not arguments:
        wrong = f"there is no experiment {', '.join(unknown)}; " if unknown else ""
        print(f"{wrong}the experiments are {', '.join(names())}", file=sys.stderr)
        return 2
    torch.set_num_threads(1)  # one order of sums, and comparable seconds
    for name in in_order(arguments):
        begin = time.perf_counter()
        result = module(name).run()
        seconds = time.perf_counter() - begin
        if (model := result.pop("model", None)) is not None:
            result["weights_sha256"] = trained.checksum(trained.save(name, model))
        print(f"recorded in {record.save(name, **result, seconds=seconds)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
