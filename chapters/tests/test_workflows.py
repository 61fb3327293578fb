"""What GitHub and Read the Docs run: targets that exist, pinned actions, few rights.

`make lint-workflows` asks actionlint and the files' schemas as well.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from book.tools.notebooks import ROOT
from book.verbs import VERBS, checking, environments, reading, writing  # noqa: F401 - all verbs

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
ACTIONS = sorted(GITHUB.glob("actions/*/action.yml"))


def load(path: Path) -> dict:
    return yaml.safe_load(path.read_text("utf8"))


def jobs(path: Path) -> dict[str, dict]:
    return load(path).get("jobs") or {"": load(path)["runs"]}


def steps(path: Path) -> list[dict]:
    return [step for job in jobs(path).values() for step in job.get("steps", [])]


def targets(command: str, matrix: str = "") -> set[str]:
    """The verbs of a shell command, through make or not; `$TARGET` is any of the matrix's."""
    found = set()
    for call in re.findall(
        r"(?:^|[;&|]|\w=\S+)\s*(?:make|python -m book) ([^#;&|\n]*)", command, re.MULTILINE
    ):
        for word in call.replace('"', "").split():
            if word.startswith("$"):
                found |= set(matrix.split())
            elif "=" not in word and word[0].isalpha():
                found.add(word)
    return found


def test_every_make_target_that_is_called_exists():
    called = set()
    for path in (*WORKFLOWS, *ACTIONS):
        for job in jobs(path).values():
            include = job.get("strategy", {}).get("matrix", {}).get("include", [])
            matrix = " ".join(row.get("targets", row.get("target", "")) for row in include)
            for step in job.get("steps", []):
                called |= targets(step.get("run", ""), matrix)
    for command in load(ROOT / ".readthedocs.yaml")["build"]["commands"]:
        called |= targets(command)
    assert {"check", "test-notebooks", "env", "site", "check-release", "test-newest"} <= called
    assert called <= set(VERBS), f"there is no verb {sorted(called - set(VERBS))}"


def test_targets_are_found_in_a_command():
    assert targets('A=b make one two TAG="$X" # three\nmake four 2>&1 | tee x') == {
        "one",
        "two",
        "four",
    }
    assert targets('make "$TARGET"', "five six") == {"five", "six"}
    assert targets("python -m book env lint 2>&1 | tee x") == {"env", "lint"}


@pytest.mark.parametrize(
    "path", [*WORKFLOWS, *ACTIONS], ids=lambda path: path.parent.name + path.stem
)
def test_every_action_is_pinned_or_is_ours(path):
    used = [step["uses"] for step in steps(path) if "uses" in step]
    used += [job["uses"] for job in jobs(path).values() if "uses" in job]
    for name in used:
        if name.startswith("./"):
            assert (ROOT / name).exists(), name
        else:
            assert re.fullmatch(r"actions/[\w-]+@v\d+", name), f"{name}: GitHub's own, by version"
    images = [job["container"]["image"] for job in jobs(path).values() if "container" in job]
    assert all(re.fullmatch(r"python:(3\.\d+|\$\{\{ matrix\.python \}\})-\w+", i) for i in images)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_read_and_only_a_job_without_a_checkouts_code_may_write(path):
    assert load(path)["permissions"] == {"contents": "read"}
    for name, job in jobs(path).items():
        if "write" in job.get("permissions", {}).values():
            runs = " ".join(step.get("run", "") for step in job["steps"])
            assert "make" not in runs.split(), f"{name} may write and runs the book's code"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_job_ends_and_no_command_is_made_of_somebodys_text(path):
    for name, job in jobs(path).items():
        assert "uses" in job or "timeout-minutes" in job, name
    for step in steps(path):
        given = re.findall(r"\$\{\{(.*?)\}\}", step.get("run", ""))
        assert all(re.fullmatch(r" needs\.\w+\.result ", text) for text in given), step["run"]


def rows() -> list[dict]:
    return jobs(GITHUB / "workflows" / "test.yml")["test"]["strategy"]["matrix"]["include"]


def promised_pythons() -> list[str]:
    """Those that the library may be installed in: ["3.11", …]."""
    text = (ROOT / "lib" / "pyproject.toml").read_text("utf8")
    first, end = re.search(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', text).groups()
    return [f"3.{minor}" for minor in range(int(first), int(end))]


def test_the_jobs_run_on_every_python_that_is_promised():
    pythons = promised_pythons()
    assert sorted({row["python"] for row in rows()}) == pythons
    first, last = (tuple(map(int, version.split("."))) for version in (pythons[0], pythons[-1]))
    entrance = (ROOT / "book" / "__main__.py").read_text("utf8")
    assert f"{first} <= sys.version_info[:2] <= {last}" in entrance
    for name in ("README.md", "book/how-to-use.md"):
        text = (ROOT / name).read_text("utf8")
        assert f"Python {pythons[0]}–{pythons[-1]}" in text, name


@pytest.mark.parametrize("python", promised_pythons())
def test_the_jobs_are_what_make_test_runs(python):
    of_python = [row for row in rows() if row["python"] == python]
    run = {word for row in of_python for word in row["targets"].split()} - {"lint-workflows"}
    assert "check" in run
    fast = set(" ".join(checking.CHECK).split())
    assert run - {"check"} | fast == set(" ".join(checking.TEST).split())
    for target in ("test-notebooks", "test-colab"):
        shards = [row["shard"] for row in of_python if row["targets"] == target]
        assert shards == [f"{i + 1}/{len(shards)}" for i in range(len(shards))]


@pytest.mark.parametrize("name", ["erratum", "broken_cell", "unclear_passage"])
def test_a_form_takes_the_page_and_asks_for_little(name):
    form = load(GITHUB / "ISSUE_TEMPLATE" / f"{name}.yml")
    ids = [field["id"] for field in form["body"]]
    assert ids[0] == "page"
    assert form["body"][0]["type"] == "input"
    assert len(ids) == len(set(ids)) <= 5


def test_the_hooks_run_the_tools_of_the_environment():
    hooks = [h for repo in load(ROOT / ".pre-commit-config.yaml")["repos"] for h in repo["hooks"]]
    for hook in hooks:
        assert hook["language"] == "system"
        assert hook["entry"].startswith(".venv/bin/")
        for word in hook["entry"].split()[1:]:
            assert not word.endswith(".py") or (ROOT / word).exists(), word


@pytest.fixture
def weekly(tmp_path):
    """Runs weekly.sh with a gh that notes what it is asked; the issue's body with it."""
    fake = tmp_path / "gh"
    fake.write_text(
        '#!/bin/bash\necho "$@" >> calls\n'
        'if [ "$2" = list ]; then echo "$OPEN"; fi\n'
        'while [ $# -gt 0 ]; do if [ "$1" = --body-file ]; then cp "$2" body; fi; shift; done\n',
        "utf8",
    )
    fake.chmod(0o755)
    (tmp_path / "logs" / "log-test-newest-3.11").mkdir(parents=True)
    log = tmp_path / "logs" / "log-test-newest-3.11" / "test-newest-3.11.log"
    log.write_text("".join(f"line {n}\n" for n in range(1000)), "utf8")

    def run(result: str, number: str) -> tuple[str, str]:
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "OPEN": number, "RUN": "RUN"}
        command = [GITHUB / "weekly.sh", result, "logs"]
        subprocess.run(command, cwd=tmp_path, env=environment, check=True)
        calls = (tmp_path / "calls").read_text("utf8").splitlines()[1:]
        (tmp_path / "calls").unlink()
        body = tmp_path / "body"
        return " ".join(calls), body.read_text("utf8") if body.exists() else ""

    return run


def test_the_weekly_run_keeps_one_issue(weekly):
    assert weekly("success", "") == ("", "")
    calls, body = weekly("failure", "")
    assert calls.startswith("issue create --title The weekly run: something broke")
    assert "### test-newest-3.11" in body
    assert "line 999\n" in body
    assert "line 969\n" not in body, "thirty lines of each"
    assert weekly("failure", "12")[0].startswith("issue edit 12 --body-file")
    assert weekly("success", "12")[0].startswith("issue close 12 --comment")


def test_the_container_has_what_make_would_install_and_allows_what_the_workflow_allows():
    machine = (ROOT / "Dockerfile").read_text("utf8")
    verbs = (ROOT / "book" / "verbs" / "environments.py").read_text("utf8")
    wanted = set(re.findall(r'debian\("[a-z-]+", "([^"]+)"', verbs))
    assert {"bubblewrap", "chromium"} <= wanted
    assert wanted <= set(re.search(r"apt-get install (.*?)&&", machine, re.DOTALL)[1].split())
    text = (ROOT / ".devcontainer" / "devcontainer.json").read_text("utf8")
    told = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    assert f"FROM python:3.12-bookworm AS {told['build']['target']}\n" in machine
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text("utf8"))
    options = workflow["jobs"]["test"]["container"]["options"]
    assert " ".join(told["runArgs"]).replace("=", " ") == options.replace("=", " ")
