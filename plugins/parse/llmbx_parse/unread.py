"""Why a file has no steps: it is missing, empty, compressed, in another encoding, or unknown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llmbx.api import LogFormat, RunFile

COMPRESSED = (
    (b"\x1f\x8b", "gzip", "gunzip -k"),
    (b"BZh", "bzip2", "bunzip2 -k"),
    (b"\xfd7zXZ\x00", "xz", "unxz -k"),
    (b"\x28\xb5\x2f\xfd", "zstd", "unzstd"),
    (b"PK\x03\x04", "zip", "unzip"),
)
"""First bytes of compressed files, their format, and the command that decompresses them."""

UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""First bytes of a text in UTF-16."""


def why(path: Path | RunFile, format_: LogFormat | None, formats: Sequence[LogFormat]) -> str:
    """The reason why no step of the file could be read, in one line.

    `format_` is the format it was read with, `formats` are all known ones. Raises `OSError` for a
    file that cannot be read.
    """
    if not path.is_file():
        return f"{path}: no such file"
    with path.open("rb") as file:
        start = file.read(8)
    if not start:
        return "the file is empty"
    for magic, kind, tool in COMPRESSED:
        if start.startswith(magic):
            return f"the file is compressed ({kind}): decompress it first, {tool} {path}"
    if start.startswith(UTF_16):
        return f"the file is UTF-16 text: convert it first, iconv -f UTF-16 -t UTF-8 {path}"
    recognized = LogFormat.recognize(path, formats)
    if recognized is None:
        names = ", ".join(format_.name for format_ in formats)
        return f"no log format recognizes a line of the file (known: {names})"
    if format_ is None or recognized.name == format_.name:
        return f"no line of the file is a step in the format {recognized.name}"
    return f"the file is in the format {recognized.name}, not {format_.name}"
