"""Why a file has no steps: it is missing, empty, compressed, in another encoding, or of no format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..run_files import RunFile
from .find import sniff
from .parser import LogFormat

COMPRESSED = (
    (b"\x1f\x8b", "gzip", "gunzip -k"),
    (b"BZh", "bzip2", "bunzip2 -k"),
    (b"\xfd7zXZ\x00", "xz", "unxz -k"),
    (b"\x28\xb5\x2f\xfd", "zstd", "unzstd"),
    (b"PK\x03\x04", "zip", "unzip"),
)
"""First bytes of compressed files, their format, and the command that decompresses them."""

WIDE = (b"\xff\xfe", b"\xfe\xff")
"""First bytes of a text in UTF-16."""


def why(path: Path | RunFile, format_: LogFormat | None, formats: Sequence[LogFormat]) -> str:
    """The reason why no step of the file could be read, in one line.

    `format_` is the format it was read with, `formats` are all known ones. Raises `OSError` for a file that cannot be
    read.
    """
    if not path.is_file():
        return f"{path}: no such file"
    with path.open("rb") as file:
        start = file.read(8)
    if not start:
        return "the file is empty"
    packed = next(((kind, tool) for magic, kind, tool in COMPRESSED if start.startswith(magic)), None)
    if packed is not None:
        return f"the file is compressed ({packed[0]}): decompress it first, {packed[1]} {path}"
    if start.startswith(WIDE):
        return f"the file is UTF-16 text: convert it first, iconv -f UTF-16 -t UTF-8 {path}"
    known = sniff(path, formats)
    if known is None:
        return f"no log format recognizes a line of the file (known: {', '.join(each.name for each in formats)})"
    if format_ is None or known.name == format_.name:
        return f"no line of the file is a step in the format {known.name}"
    return f"the file is in the format {known.name}, not {format_.name}"
