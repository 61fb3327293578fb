"""`python -m book`: it starts with nothing installed, and says what a system lacks."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from book import verbs
from book.tools.notebooks import ROOT
from book.verbs import checking, environments, system
from book.verbs.system import Stop


@pytest.fixture
def computer(tmp_path, monkeypatch):
    """A checkout elsewhere, on which nothing is run: the commands that would have been."""
    (tmp_path / "requirements.txt").write_text("# tested\ntorch==9.9.0\nnumpy==1\n", "utf8")
    lock = "numpy==1 \\\n    --hash=sha256:ab\nuv==2 \\\n    --hash=sha256:cd\nzip==3\n"
    (tmp_path / "requirements.lock").write_text(lock, "utf8")
    commands = []

    def run(command, **options):
        words = [str(word) for word in command]
        if "-r" in words and words[-1].endswith("uv.lock"):
            words[-1] = Path(words[-1]).read_text("utf8")
            system.program("uv", environments.VENV).touch()
        if "venv" in words:
            system.program("uv", Path(words[-1])).parent.mkdir(parents=True, exist_ok=True)
        commands.append(words)
        return subprocess.CompletedProcess(words, int(words[-1] == os.environ.get("FAILS")))

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    monkeypatch.setattr(environments, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(environments, "OURS", ())
    monkeypatch.setattr(verbs, "_done", set())
    monkeypatch.setattr(os, "environ", os.environ.copy())
    return commands


def test_it_starts_without_any_package_and_lists_the_verbs():
    alone = [sys.executable, "-S", "-E", "-m", "book"]  # no site-packages
    run = subprocess.run(alone, cwd=ROOT, capture_output=True, encoding="utf8")
    assert run.returncode == 0, run.stderr
    listed = [line.split()[0] for line in run.stdout.splitlines()]
    assert {"env", "html", "book", "lab", "test", "coursework", "clean"} <= set(listed)
    assert all(len(line.split()) > 2 for line in run.stdout.splitlines()), "each says what it does"


def test_an_environment_is_made_of_locked_packages_once_and_anew_where_it_was_not_finished(
    computer, tmp_path, monkeypatch
):
    assert verbs.main(["env"]) == 0
    made, uv, locked, torch, ours = computer
    assert made[1:] == ["-m", "venv", "--clear", str(tmp_path / ".venv")]
    assert uv[-3:] == ["--require-hashes", "-r", "uv==2 \\\n    --hash=sha256:cd\n"]
    assert Path(locked[0]).name.startswith("uv")
    assert locked[-4:] == ["--no-deps", "--require-hashes", "-r", "requirements.lock"]
    assert torch[-1] == "torch==9.9.0"
    assert ours[-4:] == ["-e", "./lib", "-e", "./book/teaching"]
    verbs._done.clear()
    verbs.main(["env"])
    assert len(computer) == 5, "it is whole"
    stamp = tmp_path / ".venv" / ".ready"
    os.utime(tmp_path / "requirements.txt", (1, 1))
    os.utime(stamp, (2, 2))  # the lock is newer
    verbs._done.clear()
    monkeypatch.setenv("FAILS", "torch==9.9.0")
    assert verbs.main(["env"]) == 1
    assert not stamp.exists(), "it is not whole any more"
    monkeypatch.delenv("FAILS")
    stamp.touch()
    os.utime(stamp, (2, 2))
    del computer[5:]
    verbs.main(["env"])
    assert [words[-1] for words in computer[5:]] == [words[-1] for words in computer[2:5]]
    stamp.unlink()
    verbs._done.clear()
    verbs.main(["env"])
    assert "--clear" in computer[8]


def test_programs_stand_where_each_system_has_them(monkeypatch):
    folder = Path("env")
    assert system.program("ruff", folder) == folder / "bin" / "ruff"
    with monkeypatch.context() as patch:
        patch.setattr(os, "name", "nt")
        found = system.program("ruff", folder)
    assert found == folder / "Scripts" / "ruff.exe"


@pytest.mark.parametrize("name", ["Windows", "Darwin"])
def test_what_needs_linux_says_so_and_offers_the_container(computer, monkeypatch, name, capsys):
    monkeypatch.setattr(platform, "system", lambda: name)
    for verb in ("sandbox", "browser"):
        monkeypatch.delenv("UNROLLED_NO_SANDBOX", raising=False)
        assert verbs.main([verb]) == 1
        assert re.search(rf"{verb}: .*{name}.*Dockerfile", capsys.readouterr().out)
    assert verbs.main(["sandbox", "UNROLLED_NO_SANDBOX=1"]) == 0
    assert not computer


def test_values_reach_the_command_and_a_verb_nobody_knows_runs_nothing(computer, capsys):
    (environments.VENV).mkdir()
    (environments.VENV / ".ready").touch()
    assert verbs.main(["test-notebooks", "SHARD=1/3", "ONLY=07 15"]) == 0
    assert computer[0][1:] == ["-m", "book.tools.notebooks.compare", "--shard", "1/3", "07", "15"]
    assert verbs.main(["lint", "test-notebook"]) == 2
    assert "did you mean test-notebooks?" in capsys.readouterr().err
    assert len(computer) == 1


STAGE = """
import pathlib, sys, time
name = sys.argv[-1]
print("said by", *sys.argv[1:])
pathlib.Path(name).touch()
until = time.monotonic() + 60
for other in {"one": ["beside"], "beside": ["one"]}.get(name, []):  # each waits for the other
    while not pathlib.Path(other).exists():
        assert time.monotonic() < until, "nothing ran beside it"
        time.sleep(0.01)
sys.exit(name in ("two", "html"))
"""


def test_stages_run_beside_each_other_and_all_that_failed_are_named(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(checking, "ROOT", tmp_path)
    monkeypatch.setattr(checking, "this_program", lambda *a: [sys.executable, "-c", STAGE, *a])
    with pytest.raises(Stop, match=r"^FAILED: two html$"):
        checking.stages("one two three", "beside html", "last")
    said = re.findall(r"said by (.*)", capfd.readouterr().out)
    built = [f"--built {name}" for name in ("one", "two", "three", "beside")]
    assert said == [*built, "html", "--built last"]
    checking.stages("one", "beside", "")
    assert capfd.readouterr().out.endswith("passed: one beside\n")


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make here")
def test_make_hands_all_targets_to_one_run():
    command = ["make", "-s", "PYTHON=echo", "html", "test-browser", "SHARD=1/2"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf8", check=True)
    assert run.stdout == "-m book html test-browser\n"
