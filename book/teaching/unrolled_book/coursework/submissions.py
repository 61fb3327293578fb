"""What students handed in, as Canvas, Moodle or a plain folder or zip file names it.

    lastfirst_12345_678910_week1-1.ipynb                       Canvas; lastfirst_LATE_12345_…
    Name Surname_1234567_assignsubmission_file_/week1.ipynb    Moodle; or with _file_week1.ipynb
    alice/week1.ipynb, bob.py                                  a folder or a file for each student

Everything is read into memory and nothing is ever unpacked to disk. What is odd or hostile (names
that lead out of the folder, links, bombs, encrypted or damaged members) is a problem of that
student, in a sentence, and never stops the others.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from unrolled_book.coursework import tables
from unrolled_book.exercises.engine.compare import quoted

ENDINGS = (".ipynb", ".py", ".json")
_FILE_BYTES = 32_000_000  # of one file; a notebook with many pictures has 5 million
_STUDENT_BYTES = 64_000_000
_ALL_BYTES = 1_000_000_000
_MOST_MEMBERS = 50_000
_MOST_PROBLEMS = 20  # of one student
_RATIO = 200  # times smaller when packed: text gains a factor of 20, a bomb one of 1000
_RATIO_FROM = 1_000_000  # bytes; a short file may be nothing but zeros
_CANVAS = re.compile(
    r"(?P<name>[^_/]+)_(?P<late>LATE_)?(?P<user>\d{2,12})_(?P<counter>\d{3,12})_(?P<file>[^/]+)"
)
_MOODLE = re.compile(r"(?P<student>[^/]+?_\d+)_assignsubmission_(?P<kind>file|onlinetext)_?")
_MOODLE_MARK = re.compile(r"(?P<number>_\d+)_assignsubmission_(?:file|onlinetext)")
_AGAIN = re.compile(r"(?P<stem>.+?)(?:-(?P<n>\d{1,3}))?(?P<ending>\.\w+)")
_IGNORED = ("__MACOSX", ".DS_Store", ".ipynb_checkpoints", "Thumbs.db", "desktop.ini", ".git")


@dataclass(frozen=True)
class Submission:
    """What one student handed in. files: names and contents, the newest last.

    late: as the learning platform says, None where it says nothing. problems: sentences. error:
    why nobody can say whose this is. outside: a roster is there and does not know the student.
    """

    student: str
    files: tuple[tuple[str, bytes], ...] = ()
    late: bool | None = None
    problems: tuple[str, ...] = ()
    error: str = ""
    outside: bool = False


def collect(path: str | Path) -> list[Submission]:
    """The submissions in a folder or zip file, by student.

    Raises ValueError where the path is neither, or the zip file itself cannot be opened.
    """
    path = Path(path)
    if path.is_dir():
        return _sorted_out(_in_folder(path), path.name)
    if not path.is_file():
        raise ValueError(f"there is no {str(path)!r}; expected a folder or a zip file")
    try:
        with zipfile.ZipFile(path) as archive:
            return _sorted_out(_in_zip(archive), path.stem)
    except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
        expected = "expected a folder or a zip file of submissions"
        raise ValueError(f"{str(path)!r} cannot be read ({error}); {expected}") from error


def collect_one(path: str | Path, student: str) -> Submission:
    """All that lies in a folder, as the submission of one student."""
    return _sorted_out(_in_folder(Path(path)), "", student)[0]


def read_times(path: str | Path) -> dict[str, datetime]:
    """When each student handed in, from a CSV file with the columns student and time.

    Raises ValueError for a missing column and for a time that is no ISO time with its zone.
    """
    times = {}
    for i, row in tables.read(path, ("student", "time")):
        try:
            time = datetime.fromisoformat(row["time"].strip())
        except ValueError:
            time = None
        if time is None or time.tzinfo is None:
            expected = "expected a time with its zone, 2026-10-09T23:59:00+02:00"
            raise ValueError(f"{path}, line {i}: got {row['time']!r}; {expected}")
        times[row["student"].strip()] = time
    return times


def named(submissions: list[Submission], roster: list[Mapping[str, str]]) -> list[Submission]:
    """The submissions under the ids of a roster, in its order, and those it does not know.

    A submission belongs to the row of which an entry is its name on the platform, or a part of it:
    the number or the name in "lastfirst_12345". The number decides, for names can be chosen and
    shared. Where names leave a doubt (two submissions for a row, two rows for a submission), none
    of them is marked, and the error says why. Who handed in nothing has a submission without files.
    """
    keys = [{_key(value) for value in row.values() if value.strip()} for row in roster]
    students = [row["student"].strip() for row in roster]
    fits = [_fits(numbers_of(s.student), keys) for s in submissions]
    settled = {i for rows in fits for i in rows}
    for n, submission in enumerate(submissions):
        if not fits[n]:
            by_name = _fits(names_of(submission.student), keys)
            fits[n] = [i for i in by_name if i not in settled]
    mine = [[n for n, rows in enumerate(fits) if i in rows] for i in range(len(roster))]
    doubtful = {n for n, rows in enumerate(fits) if len(rows) > 1 or any(mine[i][1:] for i in rows)}
    why = {n: _doubt(n, submissions, fits, mine, students) for n in doubtful}
    found = []
    for i, student in enumerate(students):
        if doubts := [why[n] for n in mine[i] if n in doubtful]:
            found.append(Submission(student, problems=(doubts[0],), error=doubts[0]))
        elif mine[i]:
            found.append(replace(submissions[mine[i][0]], student=student))
        else:
            found.append(Submission(student))
    known = {_key(student) for student in students}
    for n, submission in enumerate(submissions):
        if n in doubtful and _key(submission.student) not in known:
            said = (why[n], *submission.problems)
            found.append(Submission(submission.student, problems=said, error=why[n], outside=True))
        elif not fits[n]:
            said = ("the roster has no such student", *submission.problems)
            found.append(replace(submission, problems=said, outside=True))
    return found


def _fits(names: set[str], keys: list[set[str]]) -> list[int]:
    return [i for i, each in enumerate(keys) if names & each]


def _doubt(
    n: int,
    submissions: list[Submission],
    fits: list[list[int]],
    mine: list[list[int]],
    students: list[str],
) -> str:
    handed = sorted({m for i in fits[n] for m in mine[i]})
    names = " and ".join(submissions[m].student for m in handed)
    rows = " and ".join(students[i] for i in sorted({i for m in handed for i in fits[m]}))
    return f"{names} fit {rows} in the roster: nothing was marked; add the platform's numbers to it"


def numbers_of(student: str) -> set[str]:
    """What the platform alone gives: of "lastfirst_12345" the number, and the whole with it."""
    whole = _key(student)
    name, _, number = whole.rpartition("_")
    return {whole, number} if name and number.isdigit() else set()


def names_of(student: str) -> set[str]:
    """The names by which a list may know the student: of "lastfirst_12345" each half, too."""
    whole = _key(student)
    name, _, number = whole.rpartition("_")
    return {whole, *((name, number) if name and number.isdigit() else ())}


def nobodys(names: Iterable[str], submissions: list[Submission]) -> list[str]:
    """Those of a list's names that no submission has, or that more than one has."""
    had = Counter(name for each in submissions for name in names_of(each.student))
    return [name for name in names if had[_key(name)] != 1]


def read_roster(path: str | Path) -> list[dict[str, str]]:
    """The rows of a CSV file with a column student, and whatever else it has of them.

    Raises ValueError for a file without it, and for a student who stands in it twice.
    """
    rows = [row for _, row in tables.read(path, ("student",))]
    if not rows or not all(row.get("student", "").strip() for row in rows):
        raise ValueError(f"{path}: expected a CSV file with a column student, filled in every line")
    students = [_key(row["student"]) for row in rows]
    for student in students:
        if students.count(student) > 1:
            raise ValueError(f"{path}: the student {student!r} stands more than once")
    return rows


def _key(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


# ---- members -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Member:
    """A file before it is read. path: as it is written; problem: why it will not be read."""

    path: str
    size: int  # bytes, as the folder or zip file says
    read: Callable[[], bytes]
    problem: str = ""


class _Refused(Exception):
    """Why a file is not read, as a sentence."""


def _in_folder(folder: Path) -> Iterator[_Member]:
    for root, folders, files in os.walk(folder, followlinks=False):
        links = [name for name in folders if Path(root, name).is_symlink()]
        folders[:] = sorted(f for f in folders if f not in _IGNORED and f not in links)
        for name in sorted([*files, *links]):
            path = Path(root, name)
            shown = _readable(path.relative_to(folder).as_posix())
            about = path.lstat()
            link = "" if stat.S_ISREG(about.st_mode) else "is a link or a device, not a file"
            yield _Member(shown, about.st_size, path.read_bytes, link)


def _in_zip(archive: zipfile.ZipFile) -> Iterator[_Member]:
    members = archive.infolist()
    if len(members) > _MOST_MEMBERS:
        expected = f"expected at most {_MOST_MEMBERS:,}"
        raise OSError(f"it has {len(members):,} members, {expected}")
    for info in members:
        if info.is_dir():
            continue
        name = _readable(_zip_name(info))
        kind = stat.S_IFMT(info.external_attr >> 16)
        problem = ""
        if kind and not stat.S_ISREG(kind):
            problem = "is a link or a device, not a file"
        elif info.flag_bits & 1:
            problem = "is encrypted"
        elif info.file_size > max(_RATIO_FROM, _RATIO * info.compress_size):
            problem = "grows out of all proportion when unpacked; it looks like a zip bomb"
        read = partial(_read_member, archive, info)
        yield _Member(name, info.file_size, read, problem)


def _zip_name(info: zipfile.ZipInfo) -> str:
    """The member's name; one without the mark of UTF-8 is often UTF-8 all the same."""
    name = info.orig_filename
    if info.flag_bits & 0x800:
        return name
    try:
        return name.encode("cp437").decode("utf-8")
    except (UnicodeDecodeError, UnicodeEncodeError):
        return name


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    try:
        with archive.open(info) as file:
            return file.read()  # never more than the size that the zip file says
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        raise _Refused(f"cannot be unpacked ({error})") from error


def _readable(name: str) -> str:
    """The name in one spelling, without characters that do not print or turn the line around."""
    name = os.fsencode(name).decode("utf-8", "replace") if _is_surrogate(name) else name
    name = unicodedata.normalize("NFC", name)
    return "".join("?" if unicodedata.category(c) in ("Cc", "Cf", "Cs") else c for c in name)


def _is_surrogate(name: str) -> bool:
    return any("\udc80" <= c <= "\udcff" for c in name)


# ---- whose is it ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """What a path says: whose file it is, its own name, and which of several it is."""

    student: str
    file: str
    late: bool | None = None
    counter: int = 0
    note: str = ""


def _sorted_out(
    members: Iterator[_Member], title: str, student: str | None = None
) -> list[Submission]:
    """The submissions by student; all of it that of one student, where there is one."""
    members = [m for m in members if not _is_ignored(m.path)]
    top = _common_top([m.path for m in members], title)
    platform = _platform((m.path for m in members), top)
    found: dict[str, list[tuple[_Place, bytes]]] = {} if student is None else {student: []}
    problems: dict[str, list[str]] = {} if student is None else {student: []}
    total, sizes = 0, dict.fromkeys(found, 0)
    for member in members:
        place = _place(member.path, top, platform)
        if student is not None:
            place = _Place(student, member.path.rpartition("/")[2])
        mine = found.setdefault(place.student, [])
        said = problems.setdefault(place.student, [])
        problem = member.problem or _unsafe(member.path) or place.note or _other_kind(place.file)
        problem = problem or _too_large(member.size, sizes.get(place.student, 0), total)
        if not problem:
            try:
                body = member.read()
            except _Refused as error:
                problem = str(error)
            except OSError as error:
                problem = f"cannot be read ({error.strerror})"
            else:
                total += len(body)
                sizes[place.student] = sizes.get(place.student, 0) + len(body)
                mine.append((place, body))
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
    return any(part in _IGNORED or part.startswith("._") for part in parts)


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


def _place(path: str, top: str, platform: str = "") -> _Place:
    """Whose file it is. A part of its name is the student's own choice, and may look like another
    platform's name of another student: the platform is the same for all, and where nothing tells
    it, such a file is nobody's.
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
    if len(problems) > _MOST_PROBLEMS:
        problems[_MOST_PROBLEMS:] = [
            f"and {len(problems) - _MOST_PROBLEMS} more files of this kind"
        ]
    kept = list(last.values())
    return Submission(
        student,
        tuple((_shown(place.file), body) for place, body in kept),
        kept[-1][0].late if kept else None,
        tuple(problems),
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
