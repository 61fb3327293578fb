"""Compiles Python files for the page: in Pyodide under node, since each Python has its own .pyc."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from book.tools.live import archives
from book.tools.live.packages import CACHE, NoBundle, members

HERE = Path(__file__).parent
AS_SOURCE = re.compile(r".*/unrolled_book/exercises/c\d")  # the engine reads their text


class Compiler:
    """Compiles what it is given, and keeps what it has compiled."""

    def __init__(self, interpreter: Mapping[str, bytes]):
        self.interpreter = interpreter

    def compiled(self, files: Mapping[str, bytes]) -> dict[str, bytes]:
        """The files, with a .pyc in the place of each .py but the exercises.

        Raises NoBundle where node is missing or fails.
        """
        sources = {
            n: data for n, data in files.items() if n.endswith(".py") and not AS_SOURCE.match(n)
        }
        digest = hashlib.sha256((HERE / "compile.py").read_bytes())
        for name, data in sorted(sources.items()):
            digest.update(f"{name}\0{len(data)}\0".encode() + data)
        kept = CACHE / f"compiled-{digest.hexdigest()[:16]}.tar.gz"
        if not kept.exists():
            kept.write_bytes(archives.tar_gz(self._compile(sources)))
        others = {name: data for name, data in files.items() if name not in sources}
        return others | members(kept.read_bytes())

    def _compile(self, sources: Mapping[str, bytes]) -> dict[str, bytes]:
        node = shutil.which("node")
        if node is None:
            raise NoBundle("node is missing (Debian: apt-get install nodejs)")
        todo = archives.tar_gz({f"compile/{name}": data for name, data in sources.items()})
        first = {**self.interpreter, "compile.tar.gz": todo}
        listed = {name: {"bytes": len(data), "sha512": ""} for name, data in first.items()}
        manifest = {"first": list(first), "files": listed, "total_bytes": 1}
        with tempfile.TemporaryDirectory() as folder:
            for name, data in first.items():
                (Path(folder) / name).write_bytes(data)
            (Path(folder) / "manifest.json").write_text(json.dumps(manifest), "utf8")
            shutil.copy(HERE / "live.mjs", folder)
            program = (HERE / "compile.py").read_text(encoding="utf-8")
            done = subprocess.run(
                [node, str(HERE / "in_node.mjs"), folder],
                input=json.dumps({"program": program}),
                capture_output=True,
                encoding="utf8",
            )
        if done.returncode:
            raise NoBundle(f"node could not compile: {done.stderr.strip()[-500:]}")
        found = json.loads(json.loads(done.stdout)["said"])
        return {name: base64.b64decode(data) for name, data in found.items()}
