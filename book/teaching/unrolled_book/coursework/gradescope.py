"""The same exercises on Gradescope: `pack` makes autograder.zip, `autograde` runs there.

The zip file holds setup.sh, run_autograder, the library's source, and a folder `course` with the
week's syllabus, the secret of its hidden tests, the course's own exercises and the roster.
Gradescope starts a container for each submission, as root, with

    /autograder/source         what was in the zip file
    /autograder/submission     the student's files
    /autograder/results        where results.json goes

Such containers mostly refuse the namespaces that the sandbox needs. `autograde` tries the sandbox
first. Where it cannot be had, answers run as plain processes of the user nobody (`unsafe`), and
what they must not read (the course, and the library's teaching with its solutions) is closed to
everybody but root. That is weaker: an answer can read what every user of the container can, and
reach the network if the container can. The container itself holds nobody else's files.
"""

from __future__ import annotations

import json
import os
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import unrolled

from unrolled_book.coursework.grading import grade
from unrolled_book.coursework.packing import zipped
from unrolled_book.coursework.roster import named, read_roster
from unrolled_book.coursework.submissions import collect_one
from unrolled_book.coursework.syllabus import Item, Syllabus, Week

ROOT = "/autograder"
_PACKAGES = (Path(unrolled.__file__).parent, Path(__file__).parents[1])
_NEEDS = ("numpy", "scipy", "regex", "tqdm")
_LEFT_OUT = ("figures", "moving", "experiments", "behaviour", "__pycache__")
_SETUP = """\
#!/usr/bin/env bash
# Runs once, as root, when Gradescope builds the container.
set -euo pipefail
apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \\
  bubblewrap python3 python3-pip python3-venv util-linux
if python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  python3 -m venv /opt/unrolled
else
  python3 -m pip install uv
  UV_PYTHON_INSTALL_DIR=/opt/python uv venv --seed --python 3.12 /opt/unrolled
fi
/opt/unrolled/bin/python -m pip install {packages}
"""
_RUN = """\
#!/usr/bin/env bash
# Runs for each submission. The two variables are for trying it elsewhere.
set -euo pipefail
root="${AUTOGRADER_ROOT:-/autograder}"
export PYTHONPATH="$root/source/lib"
exec "${AUTOGRADER_PYTHON:-/opt/unrolled/bin/python}" -m unrolled_book.coursework \\
  autograde "$root"
"""


def pack(syllabus: Syllabus, week: Week, out: str | Path, roster: str | Path | None = None) -> Path:
    """Write autograder.zip for a week. It holds the secret of the hidden tests, so it is private.

    roster: for weeks with personal tasks; a column holds what Gradescope knows the students by,
    their e-mail address or their id. Raises ValueError for a week without exercises, and where a
    week with personal tasks has no roster.
    """
    if not week.items:
        raise ValueError(f"{week.name} has no exercises that a machine can mark")
    if any(item.personal for item in week.items) and roster is None:
        raise ValueError(f"{week.name} has personal tasks; expected a roster of the students")
    files = {"setup.sh": _setup(), "run_autograder": _RUN.encode()}
    files["course/syllabus.toml"] = _toml(syllabus, week).encode()
    for i, folder in enumerate(syllabus.folders):
        files |= _source(folder, f"course/folder{i}", (".py",))
    if roster is not None:
        files["course/roster.csv"] = Path(roster).read_bytes()
    for package in _PACKAGES:
        files |= _source(package, f"lib/{package.name}", (".py", ".bz2", ".xz", ".txt"))
    out = Path(out)
    out.write_bytes(zipped(files, ("setup.sh", "run_autograder")))
    return out


def _setup() -> bytes:
    packages = " ".join(f"{name}=={version(name)}" for name in _NEEDS)
    return _SETUP.format(packages=packages).encode()


def _source(folder: Path, place: str, endings: tuple[str, ...]) -> dict[str, bytes]:
    found = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.suffix in endings and path.is_file() and not set(parts) & set(_LEFT_OUT):
            found["/".join((place, *parts))] = path.read_bytes()
    return found


def _toml(syllabus: Syllabus, week: Week) -> str:
    """The syllabus with this week alone, and with all that it takes from elsewhere."""
    text = json.dumps
    folders = [f"folder{i}" for i in range(len(syllabus.folders))]
    lines = [f"title = {text(syllabus.title)}", f"seed = {text(syllabus.seed)}"]
    lines += [f"folders = {text(folders)}", f"late = {float(syllabus.late)}"]
    lines += ["[[weeks]]", f"name = {text(week.name)}", f"title = {text(week.title)}"]
    lines += [f"due = {week.due.isoformat()}"] if week.due else []
    lines += ["exercises = [", *(f"  {_item(item)}," for item in week.items), "]"]
    return "\n".join(lines) + "\n"


def _item(item: Item) -> str:
    text = json.dumps
    return (
        f"{{exercise = {text(item.exercise)}, points = {float(item.points)}, "
        f"credit = {text(item.credit)}, personal = {text(item.personal)}}}"
    )


# ---- on Gradescope -------------------------------------------------------------------------------


def autograde(root: str | Path = ROOT) -> Path:
    """Grade what lies in root/submission and write root/results/results.json.

    Raises what went wrong where the grader itself fails: without results.json Gradescope tells the
    student to ask the staff, and nobody gets a mark that is not earned.
    """
    root = Path(root)
    course = root / "source" / "course"
    syllabus = Syllabus.read(course / "syllabus.toml")
    _close(root / "source")
    submission = collect_one(root / "submission", _student(root / "submission_metadata.json"))
    if (course / "roster.csv").exists():
        known = named([submission], read_roster(course / "roster.csv"))
        submission = next((s for s in known if s.files or s.problems), submission)
    with tempfile.TemporaryDirectory() as folder:
        grade(
            syllabus,
            [submission],
            folder,
            week=syllabus.weeks[0].name,
            sandbox=_sandbox(),
            progress=False,
        )
        text = next((Path(folder) / "results").glob("*.json")).read_text(encoding="utf-8")
    out = root / "results" / "results.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(text, encoding="utf-8")
    return out


def _sandbox() -> Any:
    from unrolled_book.coursework.sandbox import Sandbox, SandboxMissing

    try:
        return Sandbox.find()
    except SandboxMissing:
        if os.geteuid() != 0:  # then nothing keeps an answer from reading the tests
            raise
        return Sandbox.find(unsafe=True)


def _close(source: Path) -> None:
    """Nobody but the owner may enter the course or the library's teaching."""
    for folder in (source / "course", source / "lib" / "unrolled_book"):
        folder.chmod(0o700)


def _student(metadata: Path) -> str:
    """Who handed in, as Gradescope knows them: the e-mail address, or the id; "student" if not."""
    try:
        user = json.loads(metadata.read_text(encoding="utf-8"))["users"][0]
        return str(user.get("email") or user.get("sid") or user.get("id"))
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError):
        return "student"
