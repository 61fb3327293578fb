"""The two packages of npm that hold Python and numpy for the page, each pinned by its SHA-512.

They are the only pair of matching binaries that npm has: later versions of Pyodide fetch numpy from
another host, which the book does not ask its readers to do.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
from dataclasses import dataclass

from book.tools.notebooks import ROOT

CACHE = ROOT / "_build" / "npm"  # an archive is fetched once


class NoBundle(Exception):
    """Why there can be no bundle, in one line."""


@dataclass(frozen=True)
class Package:
    """A package of npm, one version of it, and the checksum of its archive."""

    name: str
    version: str
    sha512: str

    @property
    def file(self) -> str:
        """What `npm pack` calls the archive."""
        return f"{self.name.lstrip('@').replace('/', '-')}-{self.version}.tgz"

    def members(self) -> dict[str, bytes]:
        """The files in the package by their paths. Raises NoBundle where it cannot be had."""
        path = CACHE / self.file
        if not path.exists():
            self._fetch()
        data = path.read_bytes()
        found = hashlib.sha512(data).hexdigest()
        if found != self.sha512:
            path.unlink()
            raise NoBundle(f"{self.file} has sha512 {found[:16]}…, expected {self.sha512[:16]}…")
        return members(data)

    def _fetch(self) -> None:
        npm = shutil.which("npm")
        if npm is None:
            raise NoBundle("npm is missing (Debian: apt-get install npm)")
        CACHE.mkdir(parents=True, exist_ok=True)
        # `npm pack` runs none of the package's code.
        command = [
            npm,
            "pack",
            "--loglevel=error",
            "--fetch-retries=1",
            "--pack-destination",
            str(CACHE),
        ]
        command.append(f"{self.name}@{self.version}")
        try:
            done = subprocess.run(command, capture_output=True, encoding="utf8", timeout=300)
        except subprocess.TimeoutExpired:
            raise NoBundle(f"npm did not deliver {self.name} within five minutes") from None
        if done.returncode or not (CACHE / self.file).exists():
            said = (done.stderr.strip() or "no reason given").splitlines()[0]
            raise NoBundle(f"npm did not deliver {self.name} {self.version}: {said}")


def members(archive: bytes) -> dict[str, bytes]:
    """The files of a .tar.gz by their paths."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}


PYODIDE = Package(
    "pyodide",
    "0.27.7",
    "45449526585075f59f80ef615470a25e81be9d5650452e43f45ce0a4b27f55c8"
    "0604b4802a83cbf244e23a29316c7426d6444849e59405dba51203b6eaaa5244",
)
NUMPY = Package(
    "@emscripten-forge/numpy",
    "2.0.1-py312h4e66579-0",
    "eb888fdeda25361067289047b366f9320f6cd7b04bf01a7d12fdbe5347d208ed"
    "ffcd09564110ab131c3632099fc2384dcfe9b06ca3c6d9e06c05ca41595db16c",
)
