"""What was handed in: names of Canvas, Moodle and plain folders; hostile archives."""

import os
import stat
import zipfile

import pytest
from unrolled_book.coursework import submissions as module
from unrolled_book.coursework.submissions import (
    Submission,
    collect,
    collect_one,
    named,
    read_roster,
    read_times,
)

BODY = b"def shift(x): return x"


def archive(path, *members, **more):
    """A zip file with these members: names, or ZipInfos, with their contents."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for member in members:
            name, body = member if isinstance(member, tuple) else (member, BODY)
            out.writestr(name, body)
    return path


def by_student(path) -> dict[str, Submission]:
    return {found.student: found for found in collect(path)}


NAMES = {
    "lopezana_12345_678910_week1.ipynb": ("lopezana_12345", "week1.ipynb", False),
    "lopezana_LATE_12345_678910_week1-2.ipynb": ("lopezana_12345", "week1-2.ipynb", True),
    "Ana López_1234567_assignsubmission_file_/week1.ipynb": (
        "Ana López_1234567",
        "week1.ipynb",
        None,
    ),
    "Ana López_1234567_assignsubmission_file_week1.ipynb": (
        "Ana López_1234567",
        "week1.ipynb",
        None,
    ),
    # A file may be named after somebody else: it stays with the student who handed it in.
    "Eve_111_assignsubmission_file_Ana_222_assignsubmission_file_w.py": (
        "Eve_111",
        "Ana_222_assignsubmission_file_w.py",
        None,
    ),
    "eve/Ana_222_assignsubmission_file_w.py": ("eve", "Ana_222_assignsubmission_file_w.py", None),
    "ana/week1.ipynb": ("ana", "week1.ipynb", None),
    "ana/work/week1.ipynb": ("ana", "week1.ipynb", None),
    "ana.ipynb": ("ana", "ana.ipynb", None),
    "unrolled-answers.json": ("unrolled-answers", "unrolled-answers.json", None),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wrapped", [False, True], ids=["bare", "in a folder"])
@pytest.mark.parametrize("kind", ["zip", "folder"])
def test_the_student_is_read_from_the_name(tmp_path, name, wrapped, kind):
    path = f"submissions/{name}" if wrapped else name
    if kind == "zip":
        archive(tmp_path / "all.zip", path, "submissions/bob.py" if wrapped else "bob.py")
        found = by_student(tmp_path / "all.zip")
    else:
        for each in (path, "submissions/bob.py" if wrapped else "bob.py"):
            (tmp_path / "all" / each).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "all" / each).write_bytes(BODY)
        found = by_student(tmp_path / "all")
    student, file, late = NAMES[name]
    assert set(found) == {student, "bob"}
    assert found[student] == Submission(student, ((file, BODY),), late)


def test_one_student_s_folder_alone_is_not_taken_for_the_class(tmp_path):
    found = by_student(archive(tmp_path / "all.zip", "ana/week1.ipynb", "ana/more.py"))
    assert list(found) == ["ana"]
    assert [name for name, _ in found["ana"].files] == ["week1.ipynb", "more.py"]


def test_of_several_attempts_the_last_by_canvas_counts_and_it_is_said(tmp_path):
    path = archive(
        tmp_path / "all.zip",
        ("li_55_903_week1-1.ipynb", b"second"),
        ("li_LATE_55_907_week1-2.ipynb", b"third"),
        ("li_55_901_week1.ipynb", b"first"),
        ("li_55_902_other.py", b"other"),
    )
    (found,) = collect(path)
    assert found.files == (("other.py", b"other"), ("week1-2.ipynb", b"third"))
    assert found.late is True
    assert "the last, week1-2.ipynb, counts" in found.problems[-1]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_two_members_of_the_same_name_the_last_counts(tmp_path):
    (found,) = collect(archive(tmp_path / "all.zip", ("a/w.py", b"1"), ("a/w.py", b"2")))
    assert found.files == (("w.py", b"2"),)
    assert "w.py twice" in found.problems[0]


def link(name):
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info, b"/etc/passwd"


def member(name, **parts):
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    for part, given in parts.items():
        setattr(info, part, given)
    return info


HOSTILE = {
    "a way out": (("../../eve.py", BODY), "eve", "leads out of the folder"),
    "a way out in the middle": (("eve/../../w.py", BODY), "eve", "leads out of the folder"),
    "a way out with backslashes": (("eve\\..\\..\\w.py", BODY), "eve", "leads out of the folder"),
    "an absolute name": (("/eve/w.py", BODY), "eve", "leads out of the folder"),
    "a drive": (("C:/eve.py", BODY), "C:", "leads out of the folder"),
    "a link": (link("eve/w.py"), "eve", "is a link or a device"),
    "a bomb": (("eve/w.py", b"0" * 30_000_000), "eve", "looks like a zip bomb"),
    "a zip inside": (("eve/w.zip", BODY), "eve", "is an archive inside"),
    "a document": (("eve/w.pdf", BODY), "eve", "is neither a notebook"),
    "a name that turns around": (("eve/\u202eyp.w.exe", BODY), "eve", "?yp.w.exe is neither"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_member_is_a_problem_of_its_student_alone(tmp_path, kind):
    given, student, says = HOSTILE[kind]
    found = by_student(archive(tmp_path / "all.zip", "ana/w.py", given, "bob/w.py"))
    assert found["ana"].files == found["bob"].files == (("w.py", BODY),)
    assert found[student].files == ()
    assert says in found[student].problems[0]
    assert sorted(os.listdir(tmp_path)) == ["all.zip"]


def test_an_encrypted_member_is_a_problem(tmp_path):
    path = archive(tmp_path / "all.zip", "ana/w.py", "eve/w.py")
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02")  # the last member's entry in the table of contents
    data[at + 8] |= 1
    path.write_bytes(data)
    found = by_student(path)
    assert "is encrypted" in found["eve"].problems[0]
    assert found["ana"].files


def test_a_damaged_member_is_a_problem(tmp_path):
    path = archive(tmp_path / "all.zip", ("ana/w.py", BODY), ("eve/w.py", os.urandom(500)))
    data = bytearray(path.read_bytes())
    at = data.rindex(b"eve/w.py", 0, data.index(b"PK\x01\x02")) + 100
    data[at : at + 4] = b"oops"
    path.write_bytes(data)
    assert "cannot be unpacked" in by_student(path)["eve"].problems[0]


def test_a_member_that_is_larger_than_it_says_is_cut_off(tmp_path):
    path = archive(tmp_path / "all.zip", ("eve/w.py", os.urandom(9000)), "ana/w.py")
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    data[at + 24 : at + 28] = (100).to_bytes(4, "little")
    path.write_bytes(data)
    found = by_student(path)
    assert found["eve"].problems
    assert not found["eve"].files
    assert found["ana"].files


def test_a_large_file_is_not_read(tmp_path):
    (tmp_path / "ana.py").write_bytes(BODY)
    with (tmp_path / "eve.py").open("wb") as file:
        file.truncate(40_000_000)
    found = by_student(tmp_path)
    assert found["eve"].problems == ("eve.py has 40 MB, more than 32 MB; it was left out",)
    assert found["ana"].files


def test_what_one_student_or_all_may_hand_in_is_limited(tmp_path, monkeypatch):
    path = archive(tmp_path / "all.zip", *(f"{s}/{i}.py" for s in "abc" for i in range(3)))
    monkeypatch.setattr(module, "_STUDENT_BYTES", 2 * len(BODY))
    found = by_student(path)
    assert [len(found[s].files) for s in "abc"] == [2, 2, 2]
    assert "one file too many" in found["a"].problems[0]
    monkeypatch.setattr(module, "_ALL_BYTES", 3 * len(BODY))
    assert sum(len(each.files) for each in collect(path)) == 3
    monkeypatch.setattr(module, "_MOST_MEMBERS", 8)
    with pytest.raises(ValueError, match="it has 9 members"):
        collect(path)


def test_names_in_other_encodings_are_read(tmp_path):
    path = archive(tmp_path / "all.zip", "ANA/w.py")
    data = path.read_bytes().replace(b"ANA/w.py", "é/w.py".encode() + b"y")
    path.write_bytes(data)
    assert list(by_student(path)) == ["é"]
    path.write_bytes(data.replace("é".encode(), b"\x82\x82"))
    assert list(by_student(path)) == ["éé"]  # cp437, as zip files of old are


def test_a_folder_with_links_and_odd_names(tmp_path):
    all_ = tmp_path / "all"
    (all_ / "ana").mkdir(parents=True)
    (all_ / "ana" / "w.py").write_bytes(BODY)
    (all_ / "eve.py").symlink_to("/etc/passwd")
    (all_ / "mallory").symlink_to("/etc")
    (all_ / os.fsdecode(b"ren\xe9.py")).write_bytes(BODY)
    (all_ / "ana" / ".ipynb_checkpoints").mkdir()
    (all_ / "ana" / ".ipynb_checkpoints" / "w-checkpoint.py").write_bytes(b"old")
    os.mkfifo(all_ / "pipe.py")
    found = by_student(all_)
    assert found["ana"].files == (("w.py", BODY),)
    for student in ("eve", "mallory", "pipe"):
        assert "is a link or a device" in found[student].problems[0]
    assert found["ren�"].files


def test_of_very_many_problems_some_are_told(tmp_path):
    (found,) = collect(archive(tmp_path / "all.zip", *(f"eve/{i}.exe" for i in range(99))))
    assert len(found.problems) == 21
    assert found.problems[-1] == "and 79 more files of this kind"


def test_what_cannot_be_opened_is_said(tmp_path):
    (tmp_path / "a.zip").write_bytes(b"no zip file")
    with pytest.raises(ValueError, match="expected a folder or a zip file"):
        collect(tmp_path / "a.zip")
    with pytest.raises(ValueError, match="there is no"):
        collect(tmp_path / "b.zip")


def test_all_of_a_folder_as_one_student_s(tmp_path):
    for name in ("week1.ipynb", "deep/in/more.py", "notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(BODY)
    found = collect_one(tmp_path, "ana@school")
    assert found.student == "ana@school"
    assert {name for name, _ in found.files} == {"week1.ipynb", "more.py"}
    assert "notes.txt is neither" in found.problems[0]


def test_a_roster_gives_the_ids(tmp_path):
    (tmp_path / "roster.csv").write_text("student,name\nu1,Ana López\nu2,Bob\nu3,\n")
    roster = read_roster(tmp_path / "roster.csv")
    given = [Submission(name, ((name, BODY),)) for name in ("Ana López_77", "bob", "eve")]
    found = named(given, roster)
    assert [each.student for each in found] == ["u1", "u2", "u3", "eve"]
    assert found[0].files == (("Ana López_77", BODY),)
    assert found[2].files == ()
    assert found[3].problems == ("the roster has no such student",)
    assert [each.outside for each in found] == [False, False, False, True]


NAMESAKES = {
    "one name, two numbers": (["Anna M_901", "Anna M_902"], "student,name\ns1,Anna M\ns2,Bob\n"),
    "two rows of one name": (
        ["Anna M_901", "Anna M_902"],
        "student,name\ns1,Anna M\ns2,Anna M\n",
    ),
    "one submission, two rows": (["Anna M_901"], "student,name\ns1,Anna M\ns2,Anna M\n"),
    "another's id": (["s1_999", "Anna M_901"], "student,name\ns1,Anna M\ns2,Bob\n"),
}


@pytest.mark.parametrize("kind", NAMESAKES)
def test_where_names_leave_a_doubt_nobody_gets_another_s_work(tmp_path, kind):
    given, text = NAMESAKES[kind]
    (tmp_path / "roster.csv").write_text(text)
    handed = [Submission(name, ((name, BODY),)) for name in given]
    found = {each.student: each for each in named(handed, read_roster(tmp_path / "roster.csv"))}
    concerned = ["s1", *given] + (["s2"] if "s2,Anna" in text else [])
    for student in concerned:
        assert not found[student].files
        assert found[student].error in found[student].problems
        assert all(name in found[student].error for name in ("s1", *given))
    assert "s2" in concerned or found["s2"] == Submission("s2")


@pytest.mark.parametrize("names", [["s1_999", "Anna M_901"], ["Anna M_999", "Anna M_901"]])
def test_the_platform_s_number_goes_before_any_name(tmp_path, names):
    (tmp_path / "roster.csv").write_text("student,name,number\ns1,Anna M,901\n")
    handed = [Submission(name, ((name, BODY),)) for name in names]
    mine, other = named(handed, read_roster(tmp_path / "roster.csv"))
    assert (mine.files, mine.error) == (handed[1].files, "")
    assert (other.student, other.files, other.outside) == (names[0], handed[0].files, True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name\nana\n", "a column student"),
        ("student\nana\nAna\n", "'ana' stands more than once"),
        ("student,x\n,1\n", "filled in every line"),
    ],
)
def test_a_wrong_roster_is_refused(tmp_path, text, says):
    (tmp_path / "roster.csv").write_text(text)
    with pytest.raises(ValueError, match=says):
        read_roster(tmp_path / "roster.csv")


def test_times_are_read_and_need_their_zone(tmp_path):
    path = tmp_path / "times.csv"
    path.write_text("student,time\nana,2026-10-09T23:59:01+02:00\n")
    assert read_times(path)["ana"].isoformat() == "2026-10-09T23:59:01+02:00"
    for wrong in ("2026-10-09T23:59:01", "yesterday", ""):
        path.write_text(f"student,time\nana,{wrong}\n")
        with pytest.raises(ValueError, match=r"line 2: got .* expected a time with its zone"):
            read_times(path)
