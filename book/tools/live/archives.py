"""Archives that come out the same, byte for byte: sorted names, no times, no owners."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping


def tar_gz(files: Mapping[str, bytes]) -> bytes:
    """A gzipped tar archive in the plain form (ustar) that live.mjs reads."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return gz(out.getvalue())


def gz(data: bytes) -> bytes:
    """The data, gzipped without the time."""
    return gzip.compress(data, 9, mtime=0)
