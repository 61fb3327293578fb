"""Build the emulated GPU's native part: `python lib/tests/emulated/build.py` prints where it lies.

It is built once for a version of torch, into `_build/emulated`. The exit status is 3, after a
sentence, where this machine or its torch can have none, and 1 where it should be built and is not.
"""

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

SOURCE = Path(__file__).with_name("device.cpp")
BUILT = Path(__file__).parents[3] / "_build" / "emulated"
VERSION = "2.13."  # of torch, whose inner functions the source calls


class Unavailable(RuntimeError):
    """There can be no emulated GPU here, for the reason given."""


def build() -> Path:
    """The shared library for the installed torch, compiled if it is not there yet.

    torch is looked for and not imported. Raises Unavailable with the reason, RuntimeError with what
    the compiler says.
    """
    torch, version = torch_folder(), metadata.version("torch")
    key = hashlib.sha256(SOURCE.read_bytes() + version.encode()).hexdigest()[:16]
    path = BUILT / key / "device.so"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}")
    include, libraries = torch / "include", torch / "lib"
    command = [
        *("g++", "-std=c++20", "-O0", "-w", "-shared", "-fPIC", str(SOURCE), "-o", str(part)),
        *(f"-I{include}", f"-I{include / 'torch/csrc/api/include'}", f"-L{libraries}"),
        *("-ltorch_cpu", "-lc10", f"-Wl,-rpath,{libraries}", "-Wl,--no-as-needed"),
    ]
    done = subprocess.run(command, capture_output=True, encoding="utf8")
    if done.returncode:
        raise RuntimeError(f"g++ does not compile {SOURCE.name}:\n{done.stderr[:2000]}")
    part.replace(path)  # whole, also where another process builds it
    return path


def torch_folder() -> Path:
    """Where torch is installed, if the emulation can be built for it."""
    if platform.system() != "Linux":
        raise Unavailable(f"the emulated GPU is for Linux; this is {platform.system()}")
    spec, version = importlib.util.find_spec("torch"), metadata.version("torch")
    folder = Path(spec.submodule_search_locations[0])
    if not version.startswith(VERSION):
        raise Unavailable(f"the emulated GPU is for torch {VERSION}x; this is torch {version}")
    if any((folder / "lib").glob("libtorch_cuda*")):
        raise Unavailable(f"torch {version} here is built with CUDA, which wants a real GPU")
    if shutil.which("g++") is None:
        raise Unavailable("the emulated GPU needs g++: apt-get install g++")
    return folder


if __name__ == "__main__":
    try:
        print(build())
    except Unavailable as reason:
        print(f"test-cuda: {reason}")
        sys.exit(3)
