"""What students handed in, as Canvas, Moodle or a plain folder or zip file names it.

    lastfirst_12345_678910_week1-1.ipynb                       Canvas; lastfirst_LATE_12345_…
    Name Surname_1234567_assignsubmission_file_/week1.ipynb    Moodle; or with _file_week1.ipynb
    alice/week1.ipynb, bob.py                                  a folder or a file for each student

Everything is read into memory and nothing is ever unpacked to disk. What is odd or hostile (names
that lead out of the folder, links, bombs, encrypted or damaged members) is a problem of that
student, in a sentence, and never stops the others.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from unrolled_book.coursework.members import IGNORED, Member, Refused, in_folder, in_zip
from unrolled_book.exercises.engine.compare import quoted

ENDINGS = (".ipynb", ".py", ".json")
_FILE_BYTES = 32_000_000  # of one file; a notebook with many pictures has 5 million
_STUDENT_BYTES = 64_000_000
_ALL_BYTES = 1_000_000_000
_MOST_PROBLEMS = 20  # of one student
_CANVAS = re.compile(  # a student of another institution has a number of 17 digits
    r"(?P<name>[^/]+?)_(?P<late>LATE_)?(?P<user>\d{2,20})_(?P<counter>\d{3,20})_(?P<file>[^/]+)"
)
_CANVAS_AGAIN = re.compile(r"(?=(?:^|_)(?P<user>\d{2,20})_\d{3,20}_)")
_MOODLE = re.compile(r"(?P<student>[^/]+?_\d+)_assignsubmission_(?P<kind>file|onlinetext)_?")
_MOODLE_MARK = re.compile(r"(?P<number>_\d+)_assignsubmission_(?:file|onlinetext)")
_AGAIN = re.compile(r"(?P<stem>.+?)(?:-(?P<n>\d{1,3}))?(?P<ending>\.\w+)")


@dataclass(frozen=True)
class Submission:
    """What one student handed in. files: names and contents, the newest last.

    late: as the learning platform says, None where it says nothing. problems: sentences. error:
    why nobody can say whose this is. outside: a roster is there and does not know the student.
    known_as: the student's name on the platform; path: where the newest file lay in the download.
    """

    student: str
    files: tuple[tuple[str, bytes], ...] = ()
    late: bool | None = None
    problems: tuple[str, ...] = ()
    error: str = ""
    outside: bool = False
    known_as: str = field(default="", compare=False)
    path: str = field(default="", compare=False)


def collect(path: str | Path, numbers: Collection[str] | None = None) -> list[Submission]:
    """The submissions in a folder or zip file, by student.

    numbers: those that students of the course have on the platform, where they are known. Raises
    ValueError where the path is neither, or the zip file itself cannot be opened.
    """
    path = Path(path)
    if path.is_dir():
        return _sorted_out(in_folder(path), path.name, numbers=numbers)
    if not path.is_file():
        raise ValueError(f"there is no {str(path)!r}; expected a folder or a zip file")
    try:
        with zipfile.ZipFile(path) as archive:
            return _sorted_out(in_zip(archive), path.stem, numbers=numbers)
    except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
        expected = "expected a folder or a zip file of submissions"
        raise ValueError(f"{str(path)!r} cannot be read ({error}); {expected}") from error


def collect_one(path: str | Path, student: str) -> Submission:
    """All that lies in a folder, as the submission of one student."""
    return _sorted_out(in_folder(Path(path)), "", student)[0]


@dataclass(frozen=True)
class _Place:
    """What a path says: whose file it is, its own name, and which of several it is."""

    student: str
    file: str
    late: bool | None = None
    counter: int = 0
    note: str = ""
    path: str = ""


def _sorted_out(
    members: Iterator[Member],
    title: str,
    student: str | None = None,
    numbers: Collection[str] | None = None,
) -> list[Submission]:
    """The submissions by student; all of it that of one student, where there is one."""
    members = [m for m in members if not _is_ignored(m.path)]
    top = _common_top([m.path for m in members], title)
    platform = _platform((m.path for m in members), top)
    found: dict[str, list[tuple[_Place, bytes]]] = {} if student is None else {student: []}
    problems: dict[str, list[str]] = {} if student is None else {student: []}
    total, sizes = 0, dict.fromkeys(found, 0)
    for member in members:
        place = _place(member.path, top, platform, numbers)
        if student is not None:
            place = _Place(student, member.path.rpartition("/")[2])
        mine = found.setdefault(place.student, [])
        said = problems.setdefault(place.student, [])
        problem = member.problem or _unsafe(member.path) or place.note or _other_kind(place.file)
        problem = problem or _too_large(member.size, sizes.get(place.student, 0), total)
        if not problem:
            try:
                body = member.read()
            except Refused as error:
                problem = str(error)
            except OSError as error:
                problem = f"cannot be read ({error.strerror})"
            else:
                total += len(body)
                sizes[place.student] = sizes.get(place.student, 0) + len(body)
                mine.append((replace(place, path=member.path), body))
        if problem:
            said.append(f"{quoted(member.path, 120)} {problem}; it was left out")
    return [_submission(student, found[student], problems[student]) for student in sorted(found)]


def _too_large(size: int, of_student: int, of_all: int) -> str:
    if size > _FILE_BYTES:
        return f"has {size / 1e6:.0f} MB, more than {_FILE_BYTES / 1e6:.0f} MB"
    if of_student + size > _STUDENT_BYTES:
        return f"is one file too many: {_STUDENT_BYTES / 1e6:.0f} MB are reached"
    if of_all + size > _ALL_BYTES:
        return f"comes after {_ALL_BYTES / 1e9:.0f} GB: grade in several parts"
    return ""


def _is_ignored(path: str) -> bool:
    parts = path.split("/")
    return any(part in IGNORED or part.startswith("._") for part in parts)


def _common_top(paths: list[str], title: str) -> str:
    """The folder that all lies in, if it is one around the students' and not a student's own."""
    tops = {path.partition("/")[0] for path in paths}
    if len(tops) != 1 or not all("/" in path for path in paths):
        return ""
    top = tops.pop()
    if _MOODLE.match(top):
        return ""
    inner = [path.partition("/")[2] for path in paths]
    about = top in (title, "submissions", "submission")
    several = any("/" in path for path in inner)
    by_platform = any(_CANVAS.fullmatch(path) or _MOODLE.match(path) for path in inner)
    return top + "/" if about or several or by_platform else ""


def _platform(paths: Iterable[str], top: str) -> str:
    """Whose names the files without a folder have: "canvas", "moodle", or "" where all fit both."""
    kinds = set()
    for path in paths:
        name = path.replace("\\", "/").removeprefix(top)
        canvas, moodle = _CANVAS.fullmatch(name), _MOODLE.match(name)
        if "/" not in name and bool(canvas) != bool(moodle):
            kinds.add("canvas" if canvas else "moodle")
    return kinds.pop() if len(kinds) == 1 else ""


def _place(
    path: str, top: str, platform: str = "", numbers: Collection[str] | None = None
) -> _Place:
    """Whose file it is. A part of its name is the student's own choice, and may look like another
    platform's name of another student: the platform is the same for all, and where nothing tells
    it, such a file is nobody's. So is one of Canvas's with the numbers of two students: the file's
    name is chosen, and so is the student's, in which Canvas leaves "_11 _901 _" as "_11_901_".
    """
    path = path.replace("\\", "/").removeprefix(top)
    parts = [part for part in path.split("/") if part not in ("", ".", "..")] or ["nobody"]
    last = parts[-1]
    canvas = _CANVAS.fullmatch(last) if len(parts) == 1 else None
    if canvas and platform != "canvas" and _MOODLE.match(last):
        if not platform:
            return _Place("nobody", last, note="may be Canvas's or Moodle's, so it is nobody's")
        canvas = None
    for part in () if canvas else parts[:-1] or parts:  # a file in a folder is named by the student
        moodle = _MOODLE.match(part)
        marks = list(_MOODLE_MARK.finditer(part)) if moodle else []
        if len(marks) > 1 and part == last:  # in the student's name or the file's: both are chosen
            return _Place("nobody", last, note="may be of two students, so it is nobody's")
        if len(marks) > 1:
            return _Place(part[: marks[-1].end("number")], last)
        if moodle:
            rest = part[moodle.end() :]
            file = rest if part == last and rest else last
            note = "is a text typed into Moodle" if moodle["kind"] == "onlinetext" else ""
            return _Place(moodle["student"], file, None, 0, note)
    if canvas:
        again = (found["user"] for found in _CANVAS_AGAIN.finditer(canvas["file"]))
        if any(numbers is None or user in numbers for user in again):
            return _Place("nobody", last, note="may be of two students, so it is nobody's")
        student = f"{canvas['name']}_{canvas['user']}"
        return _Place(student, canvas["file"], bool(canvas["late"]), int(canvas["counter"]))
    return _Place(parts[0] if len(parts) > 1 else Path(last).stem, last)


def _unsafe(path: str) -> str:
    parts = path.replace("\\", "/").split("/")
    if ".." in parts or parts[0] in ("", "~") or re.match(r"[A-Za-z]:", path):
        return "has a name that leads out of the folder"
    return ""


def _other_kind(file: str) -> str:
    lower = file.lower()
    if lower.endswith(ENDINGS):
        return ""
    if lower.endswith((".zip", ".tar", ".gz", ".tgz", ".rar", ".7z", ".xz", ".bz2")):
        return "is an archive inside; hand in the notebook itself"
    return "is neither a notebook (.ipynb), nor Python (.py), nor an export of the page (.json)"


def _submission(student: str, files: list[tuple[_Place, bytes]], said: list[str]) -> Submission:
    last: dict[str, tuple[_Place, bytes]] = {}
    problems = list(said)
    for place, body in sorted(files, key=lambda each: (each[0].counter, _number(each[0].file))):
        stem = _stem(place)
        if stem in last:
            old = last.pop(stem)[0].file
            old, new = quoted(old, 60), quoted(place.file, 60)
            names = f"{old} and {new}" if old != new else f"{old} twice"
            problems.append(f"handed in several times ({names}); the last, {new}, counts")
        last[stem] = (place, body)
    if (left := len(problems) - _MOST_PROBLEMS) > 0:
        problems[_MOST_PROBLEMS:] = [f"and {left} more files of this kind"]
    kept = list(last.values())
    return Submission(
        student,
        tuple((_shown(place.file), body) for place, body in kept),
        kept[-1][0].late if kept else None,
        tuple(problems),
        known_as=student,
        path=kept[-1][0].path if kept else "",
    )


def _stem(place: _Place) -> str:
    """The name without Canvas's counter of later attempts, "-1"."""
    found = _AGAIN.fullmatch(place.file)
    return found["stem"] + found["ending"] if found and place.counter else place.file


def _number(file: str) -> int:
    found = _AGAIN.fullmatch(file)
    return int(found["n"] or 0) if found else 0


def _shown(path: str) -> str:
    return path if len(path) <= 120 else path[:60] + "…" + path[-50:]
