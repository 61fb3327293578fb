"""Newer and older versions: what is installed, and which package is told to have broken what."""

from __future__ import annotations

import pytest
from book.tools.verify import versions


def test_every_package_has_a_tested_version_to_be_set_back_to():
    assert {"numpy", "torch", "matplotlib"} <= set(versions.allowed())
    assert set(versions.TOOLS) | set(versions.allowed()) <= set(versions.tested())


NOTEBOOK, TEST = "chapters/03_a.ipynb::Cell 4", "lib/tests/test_a.py::test_b"


class Installed:
    """Stands for an environment: a chapter fails with numpy 9, a test with numpy 9 or scipy 9."""

    def __init__(self) -> None:
        self.now = versions.tested() | {"numpy": "9.0", "scipy": "9.0"}

    def versions(self):
        return dict(self.now)

    def install(self, *arguments: str) -> None:
        name, _, version = arguments[-1].partition("==")
        self.now[name] = version

    def failures(self, targets):
        new = {name for name in ("numpy", "scipy") if self.now[name] == "9.0"}
        wrong = {NOTEBOOK: "numpy" in new, TEST: bool(new)}
        return {test for test in wrong if wrong[test] and {test, test.partition("::")[0]} & targets}


def test_what_broke_is_told_by_package():
    environment = Installed()
    changed = versions.differing(environment.versions())
    assert set(changed) == {"numpy", "scipy"}
    found = versions.culprits(environment, {NOTEBOOK, TEST}, changed)
    assert versions.report({NOTEBOOK, TEST}, found, changed) == [
        f"numpy {versions.tested()['numpy']} → 9.0 broke:",
        f"  {NOTEBOOK}",
        "the tested version of no single package mends:",
        f"  {TEST}",
    ]
    assert environment.versions()["numpy"] == "9.0", "each package is set back alone"


@pytest.mark.parametrize(("which", "how"), [("newest", "highest"), ("oldest", "lowest-direct")])
def test_torch_goes_first_and_the_rest_is_resolved(which, how, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(versions.Environment, "_uv", lambda self, *words: asked.append(words))
    pins = versions.tested()
    versions.Environment(tmp_path, which, f"torch=={pins['torch']}")
    made, torch, rest = asked
    assert made[0] == "venv"
    assert torch[-1] == f"torch=={pins['torch']}"
    assert "--resolution" not in torch, "the CPU build of one version is its newest build"
    assert rest[rest.index("--resolution") + 1] == how
    assert (f"pytest=={pins['pytest']}" if which == "oldest" else "pytest") in rest
