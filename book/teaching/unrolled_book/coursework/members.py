"""The files of a folder or zip file, before they are read; nothing is ever unpacked to disk.

Links, encrypted members and what looks like a zip bomb come with the reason why they are not read.
"""

from __future__ import annotations

import os
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

IGNORED = ("__MACOSX", ".DS_Store", ".ipynb_checkpoints", "Thumbs.db", "desktop.ini", ".git")
_MOST_MEMBERS = 50_000
_RATIO = 200  # times smaller when packed: text gains a factor of 20, a bomb one of 1000
_RATIO_FROM = 1_000_000  # bytes; a short file may be nothing but zeros


@dataclass(frozen=True)
class Member:
    """A file before it is read. path: as it is written; problem: why it will not be read."""

    path: str
    size: int  # bytes, as the folder or zip file says
    read: Callable[[], bytes]
    problem: str = ""


class Refused(Exception):
    """Why a file is not read, as a sentence."""


def in_folder(folder: Path) -> Iterator[Member]:
    """The files in a folder and below it, in a fixed order; a link is shown, not followed."""
    for root, folders, files in os.walk(folder, followlinks=False):
        links = [name for name in folders if Path(root, name).is_symlink()]
        folders[:] = sorted(f for f in folders if f not in IGNORED and f not in links)
        for name in sorted([*files, *links]):
            path = Path(root, name)
            shown = _readable(path.relative_to(folder).as_posix())
            about = path.lstat()
            link = "" if stat.S_ISREG(about.st_mode) else "is a link or a device, not a file"
            yield Member(shown, about.st_size, path.read_bytes, link)


def in_zip(archive: zipfile.ZipFile) -> Iterator[Member]:
    """The files in an archive. OSError for one with too many."""
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
        yield Member(name, info.file_size, read, problem)


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
        raise Refused(f"cannot be unpacked ({error})") from error


def _readable(name: str) -> str:
    """The name in one spelling, without characters that do not print or turn the line around."""
    name = os.fsencode(name).decode("utf-8", "replace") if _is_surrogate(name) else name
    name = unicodedata.normalize("NFC", name)
    return "".join("?" if unicodedata.category(c) in ("Cc", "Cf", "Cs") else c for c in name)


def _is_surrogate(name: str) -> bool:
    return any("\udc80" <= c <= "\udcff" for c in name)
