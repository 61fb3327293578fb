"""Zip files that are the same, byte for byte, whenever they are packed."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Collection, Mapping

_EARLIEST = (1980, 1, 1, 0, 0, 0)


def zipped(files: Mapping[str, bytes], programs: Collection[str] = ()) -> bytes:
    """A zip file of these files, by name. programs: those that can be run once unpacked."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in sorted(files.items()):
            info = zipfile.ZipInfo(name, _EARLIEST)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o755 if name in programs else 0o644) << 16
            archive.writestr(info, body)
    return packed.getvalue()
