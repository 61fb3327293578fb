"""Keep in step with `_config.yml`: the repository's address (repository: url), and who is cited.

    python -m book.tools.notebooks.address            write it into the notebooks and pages
    python -m book.tools.notebooks.address --check    change nothing; exit 1 where one is behind

A notebook holds it in its bootstrap, the top of its first code cell, and in its links to sources
and terms (see `links`). In README.md, the pages on using the book and the library, the library's
own page and `coursework/address.py` every link that holds the old address is rewritten; the old one
is that of the file's `git clone` line. CITATION.cff and both pyproject.toml have it in a line of
their own. CITATION.cff also has the book's title and authors.

The branch `main` is nobody's pin: a reader on Colab gets the library of that day. On the commit of
a release the branch is its tag, v1.0.0, and the bootstraps install the library of that tag.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

import yaml
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from book.extensions.imprint import Imprint
from book.tools.notebooks import ROOT, chapter_paths, read, whole_text, write

BOOTSTRAP = """\
try:
    import unrolled_book
except ModuleNotFoundError:  # on Colab, or away from the book's repository
    source = "git+{source}"
    %pip install --quiet {{source}}#subdirectory=lib {{source}}#subdirectory=book/teaching
"""
_WRITTEN = re.compile(
    r"\Atry:\n    import unrolled_book\n.*?#subdirectory=book/teaching\n*", re.DOTALL
)
_CLONE = re.compile(
    r"""(?:git clone|repository-code:|Repository =) "?(https://[^\s`"]+?)(?:\.git)?(?=[\s`"]|$)"""
)
_SOURCE = re.compile(r"git\+https://[^\s#\"]+")
MAIN = "main"
PAGES = tuple(
    ROOT / name
    for name in (
        "README.md",
        "CITATION.cff",
        "book/how-to-use.md",
        "book/use-the-library.md",
        "lib/README.md",
        "lib/pyproject.toml",
        "book/teaching/pyproject.toml",
        "book/teaching/unrolled_book/coursework/address.py",
    )
)


def repository_url(config: Path = ROOT / "_config.yml") -> str:
    """The address in the book's configuration. ValueError where there is none."""
    url = _repository(config).get("url")
    if not url:
        raise ValueError(f"{config.name} has no repository: url")
    return url.rstrip("/").removesuffix(".git")


def library_source(config: Path = ROOT / "_config.yml") -> str:
    """What pip installs the library from: the address, with @v1.0.0 where that is the branch."""
    branch = _repository(config).get("branch") or MAIN
    return repository_url(config) + (f"@{branch}" if branch != MAIN else "")


def _repository(config: Path) -> dict[str, str]:
    return yaml.safe_load(config.read_text(encoding="utf-8")).get("repository") or {}


def set_bootstrap(notebook: NotebookNode, source: str) -> None:
    """Put the bootstrap that installs from this source at the top of the first code cell."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if not code:
        notebook.cells.append(code_cell := new_code_cell())
        code = [code_cell]
    rest = _WRITTEN.sub("", code[0].source)
    code[0].source = (BOOTSTRAP.format(source=source) + "\n" + rest).rstrip()


def readdress(text: str, source: str) -> str:
    """A page's text with the old address replaced, in GitHub, Colab, Pages and pip's links."""
    url = source.partition("@")[0]
    old = _CLONE.search(text)
    if not old:
        return text
    (host, before), (new_host, after) = _split(old[1]), _split(url)
    text = text.replace(f"{host}/{before}", f"{new_host}/{after}")
    text = text.replace(f"colab.research.google.com/github/{before}", _colab(after))
    text = text.replace(_pages(before), _pages(after))
    return _SOURCE.sub(f"git+{source}", text)


def cite(text: str, imprint: Imprint) -> str:
    """CITATION.cff with the book's title and authors; who has more than a name there keeps it."""
    text = re.sub(
        r"^title: .*$",
        lambda _: f"title: {json.dumps(imprint.whole, ensure_ascii=False)}",
        text,
        flags=re.M,
    )
    names = imprint.author.split(", ")
    if [name_of(one) for one in yaml.safe_load(text)["authors"]] == names:
        return text
    listed = "".join(f"  - name: {json.dumps(name, ensure_ascii=False)}\n" for name in names)
    return re.sub(r"^authors:\n(?:[ -].*\n)+", lambda _: f"authors:\n{listed}", text, flags=re.M)


def name_of(author: dict[str, str]) -> str:
    """An author of CITATION.cff, a person or a group, by name."""
    return author.get("name") or f"{author['given-names']} {author['family-names']}"


def _split(url: str) -> tuple[str, str]:
    host, _, path = url.removeprefix("https://").partition("/")
    return host, path


def _colab(path: str) -> str:
    return f"colab.research.google.com/github/{path}"


def _pages(path: str) -> str:
    owner, _, name = path.partition("/")
    return f"{owner}.github.io/{name}"


def update(path: Path, source: str, *, write_it: bool) -> bool:
    """Whether the file was behind; it is mended if write_it."""
    if path.suffix != ".ipynb":
        before = path.read_text(encoding="utf-8")
        after = readdress(before, source)
        if path.name == "CITATION.cff":
            after = cite(after, Imprint.read(path.parent))
        if write_it and after != before:
            path.write_text(after, encoding="utf-8")
        return after != before
    notebook = read(path)
    set_bootstrap(notebook, source)
    if write_it:
        return write(notebook, path)
    return path.read_text(encoding="utf-8") != whole_text(notebook)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    source = library_source()
    late = [path for path in (*chapter_paths(), *PAGES) if update(path, source, write_it=not check)]
    said = f"not {source}" if check else f"{source} now"
    for path in late:
        print(f"{path.relative_to(ROOT)}: the address is {said}")
    return int(check and bool(late))


if __name__ == "__main__":
    sys.exit(main())
