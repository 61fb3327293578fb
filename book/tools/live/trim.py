"""What of Python's standard library and of numpy the page gets.

Left out is what cannot work in a page (processes, sockets, servers, windows), what only serves
developers (tests, stubs, compilers, debuggers), old formats, and docstrings.
"""

from __future__ import annotations

import re

NOT_OF_PYTHON = re.compile(
    r"(__hello__|__phello__|_markupbase|_pydatetime|_pyio|_sysconfigdata[\w-]*|aifc|antigravity|bdb"
    r"|cProfile|cgi|cgitb|chunk|code|codeop|crypt|ctypes|doctest|email|ftplib|getpass|http|imaplib|imghdr"
    r"|mailbox|mailcap|modulefinder|multiprocessing|netrc|nntplib|nturl2path|optparse|pdb|pickletools"
    r"|pipes|poplib|profile|pstats|pty|pyclbr|pydoc|rlcompleter|sched|shelve|site-packages|smtplib"
    r"|sndhdr|socketserver|sunau|tabnanny|telnetlib|this|trace|tty|unittest|uu|wave|webbrowser"
    r"|wsgiref|xdrlib|xml|xmlrpc|zipapp|zoneinfo)(\.py$|/)"
    r"|asyncio/(windows|proactor)|html/entities"
    r"|importlib/metadata/|pyodide/console|urllib/(request|robotparser|error|response)"
    r"|encodings/(?!(__init__|aliases|ascii|cp437|cp1252|idna|latin_1|punycode|raw_unicode_escape"
    r"|unicode_escape|utf_(8|8_sig|16|16_be|16_le|32|32_be|32_le))\.py)"
)
NOT_OF_NUMPY = re.compile(
    r"/(_examples|_pyinstaller|distutils|f2py|include|testing|tests)/|\.(a|c|h|pxd|pyi)$"
    r"|/_(multiarray|operand_flag|rational|struct_ufunc|umath)_tests\.|/_simd\.|/lapack_lite\."
    r"|/(conftest|ctypeslib|mypy_plugin|testutils|timer_comparison)\.py$|dist-info/"
)
# They only give docstrings to functions that are written in C.
EMPTY = re.compile(r"numpy/_core/_add_newdocs(_scalars)?\.py$")
# Without docstrings this would hand None to a function that takes a text.
CHANGED = {
    "numpy/_core/overrides.py": (
        b"add_docstring(implementation, dispatcher.__doc__)",
        b'add_docstring(implementation, dispatcher.__doc__ or "")',
    )
}


def python(files: dict[str, bytes]) -> dict[str, bytes]:
    """The part of the standard library that the page gets."""
    return {name: data for name, data in files.items() if not NOT_OF_PYTHON.match(name)}


def numpy(files: dict[str, bytes]) -> dict[str, bytes]:
    """The part of numpy that the page gets."""
    kept = {name: data for name, data in files.items() if not NOT_OF_NUMPY.search(name)}
    kept |= {name: b"" for name in kept if EMPTY.search(name)}
    for end, (old, new) in CHANGED.items():
        (name,) = (name for name in kept if name.endswith(end))
        if kept[name].count(old) != 1:
            raise ValueError(f"{end} does not hold {old!r} once")
        kept[name] = kept[name].replace(old, new)
    return kept
