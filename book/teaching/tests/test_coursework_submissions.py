"""What was handed in: names of Canvas, Moodle and plain folders; hostile archives."""

import os
import stat
import zipfile

import pytest
from unrolled_book.coursework import members, submissions
from unrolled_book.coursework.roster import named
from unrolled_book.coursework.submissions import Submission, collect, collect_one

BODY = b"def shift(x): return x"


def archive(path, *members):
    """A zip file with these members: names, or names or ZipInfos with their contents."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for member in members:
            out.writestr(*(member if isinstance(member, tuple) else (member, BODY)))
    return path


def write(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(BODY)
    return folder


def by_student(path) -> dict[str, Submission]:
    return {found.student: found for found in collect(path)}


MOODLE, ANOTHERS = "_1234567_assignsubmission_file_", "Ana_222_assignsubmission_file_w.py"
NAMES = {
    "lopezana_12345_678910_week1.ipynb": ("lopezana_12345", "week1.ipynb", False),
    "lopezana_LATE_12345_678910_week1-2.ipynb": ("lopezana_12345", "week1-2.ipynb", True),
    "o_brienli_10840000000012345_678910_w.py": ("o_brienli_10840000000012345", "w.py", False),
    f"Ana López{MOODLE}/week1.ipynb": ("Ana López_1234567", "week1.ipynb", None),
    f"Ana López{MOODLE}week1.ipynb": ("Ana López_1234567", "week1.ipynb", None),
    # A file may be named after somebody else: in a folder it stays with who handed it in.
    f"eve/{ANOTHERS}": ("eve", ANOTHERS, None), "ana/week1.ipynb": ("ana", "week1.ipynb", None),
    "ana/work/week1.ipynb": ("ana", "week1.ipynb", None), "ana.ipynb": ("ana", "ana.ipynb", None),
    "unrolled-answers.json": ("unrolled-answers", "unrolled-answers.json", None),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("around", ["", "submissions/"], ids=["bare", "in a folder"])
def test_the_student_is_read_from_the_name_in_a_zip_file_and_in_a_folder(tmp_path, name, around):
    names = [around + name, around + "bob.py"]
    student, file, late = NAMES[name]
    for path in (archive(tmp_path / "all.zip", *names), write(tmp_path / "all", *names)):
        found = by_student(path)
        assert set(found) == {student, "bob"}
        assert found[student] == Submission(student, ((file, BODY),), late)


def test_one_student_s_folder_alone_is_not_taken_for_the_class(tmp_path):
    found = by_student(archive(tmp_path / "all.zip", "ana/week1.ipynb", "ana/more.py"))
    assert list(found) == ["ana"]
    assert [name for name, _ in found["ana"].files] == ["week1.ipynb", "more.py"]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_several_attempts_the_last_counts_and_it_is_said(tmp_path):
    """By Canvas's number; of two members of one name, the later one."""
    path = archive(
        tmp_path / "all.zip", ("li_55_903_week1-1.ipynb", b"second"),
        ("li_LATE_55_907_week1-2.ipynb", b"third"), ("li_55_901_week1.ipynb", b"first"),
        ("li_55_902_other.py", b"other"),
    )  # fmt: skip
    (found,) = collect(path)
    assert found.files == (("other.py", b"other"), ("week1-2.ipynb", b"third"))
    assert found.late is True
    assert "the last, “week1-2.ipynb”, counts" in found.problems[-1]
    (found,) = collect(archive(tmp_path / "all.zip", ("a/w.py", b"1"), ("a/w.py", b"2")))
    assert found.files == (("w.py", b"2"),)
    assert "“w.py” twice" in found.problems[0]


LINK = zipfile.ZipInfo("eve/w.py")
LINK.external_attr = (stat.S_IFLNK | 0o777) << 16
HOSTILE = {
    "a way out": ("../../eve.py", "eve", "leads out of the folder"),
    "a way out in the middle": ("eve/../../w.py", "eve", "leads out of the folder"),
    "a way out with backslashes": ("eve\\..\\..\\w.py", "eve", "leads out of the folder"),
    "an absolute name": ("/eve/w.py", "eve", "leads out of the folder"),
    "a drive": ("C:/eve.py", "C:", "leads out of the folder"),
    "a link": ((LINK, b"/etc/passwd"), "eve", "is a link or a device"),
    "a bomb": (("eve/w.py", b"0" * 3_000_000), "eve", "looks like a zip bomb"),
    "a zip inside": ("eve/w.zip", "eve", "is an archive inside"),
    "a document": ("eve/w.pdf", "eve", "is neither a notebook"),
    "a name that turns around": ("eve/\u202eyp.w.exe", "eve", "?yp.w.exe” is neither"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_member_is_a_problem_of_its_student_alone(tmp_path, kind):
    given, student, says = HOSTILE[kind]
    found = by_student(archive(tmp_path / "all.zip", "ana/w.py", given, "bob/w.py"))
    assert found["ana"].files == found["bob"].files == (("w.py", BODY),)
    assert found[student].files == ()
    assert says in found[student].problems[0]
    assert os.listdir(tmp_path) == ["all.zip"]


IMPOSTORS = {  # what lies beside another file of the platform, and whose it is
    "Canvas, like Moodle": (
        "li_55_901_w.py", "eve_66_902_ana_11_assignsubmission_file_w.py", "eve_66",
    ),
    "Canvas, like Canvas": ("li_55_901_w.py", "eve_66_902_ana_11_903_w.py", "nobody"),
    "Canvas, late and like in time": ("li_55_901_w.py", "eve_66_901_LATE_66_902_w.py", "nobody"),
    "Canvas, a name like another": ("li_55_901_w.py", "ana_11_999_x_66_902_w.py", "nobody"),
    "Moodle, like Moodle": (
        "Li_55_assignsubmission_file_w.py",
        "Eve_66_assignsubmission_file_Ana_11_assignsubmission_file_w.py", "nobody",
    ),
    "Moodle, a name like Moodle": (
        "Li_55_assignsubmission_file_/w.py",
        "Ana_11_assignsubmission_file_ _66_assignsubmission_file_/w.py",
        "Ana_11_assignsubmission_file_ _66",
    ),
    "Moodle, like Canvas": (
        "Li_55_assignsubmission_file_w.py", "ana_11_66_assignsubmission_file_w.py", "ana_11_66",
    ),
    "Moodle, in folders": (
        "Li_55_assignsubmission_file_/w.py",
        "Eve_66_assignsubmission_file_/Ana_11_assignsubmission_file_w.py", "Eve_66",
    ),
    "either, alone": ("eve_66_902_ana_11_assignsubmission_file_w.py", "", "nobody"),
}  # fmt: skip


@pytest.mark.parametrize("kind", IMPOSTORS)
def test_a_file_named_like_another_student_s_is_not_theirs(tmp_path, kind):
    *files, student = IMPOSTORS[kind]
    found = by_student(archive(tmp_path / "all.zip", *filter(None, files)))
    assert student in found
    assert len(found) == len(list(filter(None, files)))
    roster = [{"student": "ana", "number": "11"}, {"student": "eve", "number": "66"}]
    by_id = {each.student: each for each in named(list(found.values()), roster)}
    assert not by_id["ana"].files


def test_a_second_number_that_no_student_has_is_no_doubt(tmp_path):
    path = archive(tmp_path / "all.zip", "eve_66_902_w_20261120_2359_2.py", "li_55_901_w.py")
    assert [each.student for each in collect(path)] == ["li_55", "nobody"]
    assert [each.student for each in collect(path, {"55", "66"})] == ["eve_66", "li_55"]


DAMAGE = {  # the bytes from an offset on, in the file's data or its entry in the table of contents
    "encrypted": ("entry", 8, b"\x01", "is encrypted"),
    "damaged": ("data", 100, b"oops", "cannot be unpacked"),
    "larger than it says": ("entry", 24, b"\x64\0\0\0", "cannot be unpacked"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_member_that_cannot_be_unpacked_is_a_problem(tmp_path, kind):
    path = archive(tmp_path / "all.zip", "ana/w.py", ("eve/w.py", os.urandom(9000)))
    where, offset, changed, says = DAMAGE[kind]
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\x01\x02")
    at = offset + (entry if where == "entry" else data.rindex(b"eve/w.py", 0, entry))
    data[at : at + len(changed)] = changed
    path.write_bytes(data)
    found = by_student(path)
    assert says in found["eve"].problems[0]
    assert not found["eve"].files
    assert found["ana"].files


def test_what_is_no_zip_file_or_is_beyond_the_limits_is_said(tmp_path, monkeypatch):
    (found,) = collect(archive(tmp_path / "all.zip", *(f"eve/{i}.exe" for i in range(99))))
    assert len(found.problems) == 21
    assert found.problems[-1] == "and 79 more files of this kind"
    path = archive(tmp_path / "all.zip", *(f"{s}/{i}.py" for s in "abc" for i in range(3)))
    monkeypatch.setattr(submissions, "_STUDENT_BYTES", 2 * len(BODY))
    found = by_student(path)
    assert [len(found[s].files) for s in "abc"] == [2, 2, 2]
    assert "one file too many" in found["a"].problems[0]
    monkeypatch.setattr(submissions, "_ALL_BYTES", 3 * len(BODY))
    assert sum(len(each.files) for each in collect(path)) == 3
    monkeypatch.setattr(members, "_MOST_MEMBERS", 8)
    with pytest.raises(ValueError, match="it has 9 members"):
        collect(path)
    path.write_bytes(b"no zip file")
    for given, says in ((path, "expected a folder or a zip file"), (tmp_path / "b", "there is no")):
        with pytest.raises(ValueError, match=says):
            collect(given)


def test_names_in_other_encodings_are_read(tmp_path):
    path = archive(tmp_path / "all.zip", "ANA/w.py")
    data = path.read_bytes().replace(b"ANA/w.py", "é/w.py".encode() + b"y")
    path.write_bytes(data)
    assert list(by_student(path)) == ["é"]
    path.write_bytes(data.replace("é".encode(), b"\x82\x82"))
    assert list(by_student(path)) == ["éé"]  # cp437, as zip files of old are


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes and such names")
def test_a_folder_with_links_odd_names_and_a_large_file_of_a_class_or_of_one(tmp_path):
    write(tmp_path, "ana/w.py", "ana/.ipynb_checkpoints/w-checkpoint.py", "large.py")
    os.truncate(tmp_path / "large.py", 40_000_000)
    (tmp_path / "eve.py").symlink_to("/etc/passwd")
    (tmp_path / "mallory").symlink_to("/etc")
    (tmp_path / os.fsdecode(b"ren\xe9.py")).write_bytes(BODY)
    os.mkfifo(tmp_path / "pipe.py")
    one = collect_one(tmp_path, "ana@school")
    assert (one.student, {name for name, _ in one.files}) == ("ana@school", {"w.py", "ren�.py"})
    found = by_student(tmp_path)
    assert found["ana"].files == (("w.py", BODY),)
    for student in ("eve", "mallory", "pipe"):
        assert "is a link or a device" in found[student].problems[0]
    assert found["ren�"].files
    assert found["large"].problems == ("“large.py” has 40 MB, more than 32 MB; it was left out",)


def under(roster: list[dict[str, str]], *names) -> list[Submission]:
    """Submissions of these names, under the ids of a roster; each one's file has its name."""
    return named([Submission(name, ((name, BODY),)) for name in names], roster)


def test_a_roster_gives_the_ids():
    names = {"u1": "Ana López", "u2": "Bob", "u3": ""}
    roster = [{"student": student, "name": name} for student, name in names.items()]
    found = under(roster, "Ana López_77", "bob", "eve")
    assert [each.student for each in found] == ["u1", "u2", "u3", "eve"]
    assert found[0].files == (("Ana López_77", BODY),)
    assert found[2].files == ()
    assert found[3].problems == ("the roster has no such student",)
    assert [each.outside for each in found] == [False, False, False, True]


ANNA = {"student": "s1", "name": "Anna M"}
ONE_ANNA, TWO_ANNAS = [ANNA, {"student": "s2", "name": "Bob"}], [ANNA, ANNA | {"student": "s2"}]
NAMESAKES = {
    "one name, two numbers": (["Anna M_901", "Anna M_902"], ONE_ANNA),
    "two rows of one name": (["Anna M_901", "Anna M_902"], TWO_ANNAS),
    "one submission, two rows": (["Anna M_901"], TWO_ANNAS),
    "another's id": (["s1_999", "Anna M_901"], ONE_ANNA),
}


@pytest.mark.parametrize("kind", NAMESAKES)
def test_where_names_leave_a_doubt_nobody_gets_another_s_work(kind):
    given, rows = NAMESAKES[kind]
    found = {each.student: each for each in under(rows, *given)}
    concerned = ["s1", *given, *(["s2"] if rows is TWO_ANNAS else [])]
    for student in concerned:
        assert not found[student].files
        assert found[student].error in found[student].problems
        assert all(name in found[student].error for name in ("s1", *given))
    assert "s2" in concerned or found["s2"] == Submission("s2")


@pytest.mark.parametrize("other", ["s1_999", "Anna M_999"])
def test_the_platform_s_number_goes_before_any_name(other):
    mine, stranger = under([ANNA | {"number": "901"}], other, "Anna M_901")
    assert (mine.student, mine.files, mine.error) == ("s1", (("Anna M_901", BODY),), "")
    assert (stranger.student, stranger.files, stranger.outside) == (other, ((other, BODY),), True)
