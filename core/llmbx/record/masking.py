"""Overwrite secrets in the files of a run: known values in every usual encoding, and tokens of known shapes.

Each byte of a secret becomes `*` in its place, so that a file keeps its length, its lines and its inode: the job may
be writing to it, and several processes may be reading. A log is masked while it grows (`Growing`), every text file of
a run when the run has ended (`mask_folder`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ..entry.find_secrets import is_bare
from ..run_files import RunFile, RunFolder, run_file
from ..secrets import Finder

CHUNK = 1 << 20
OVERLAP = 1 << 14
"""Bytes that are read again with the next chunk: no secret that is found is longer, except for private keys."""

TEXTS = frozenset(
    {".out", ".log", ".err", ".txt", ".json", ".jsonl", ".yaml", ".yml", ".toml", ".csv", ".tsv", ".md", ".html",
     ".sh", ".py", ".ini", ".cfg", ".env", ".xml"}
)  # fmt: skip
"""Suffixes of files that are text even if NUL bytes are in it: a network file system may leave some in a log."""

PROFILES = ("-rep", ".qdrep", ".qdstrm", ".sqlite", ".pb")
"""Ends of the names of profiles: they are not changed, but marked by their profiler."""

PAGE = 4096
"""Bytes that a file system with a cache of its own may write together."""

Span = tuple[int, int]


class Masker:
    """Finds the secrets of an environment, in any encoding, and tokens of known shapes, in bytes."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._finder = Finder(environ)

    def spans(self, data: bytes, final: bool = True, continued: bool = False) -> list[Span]:
        """Where secrets are in `data`.

        Without `final`, what `data` may cut off at its end is not reported yet; if `data` continues other data that was
        masked before, neither is what may be cut off at its beginning.
        """
        return [
            (start, end)
            for start, end in self._finder.spans(data, continued)
            if (final or end < len(data)) and (start > 0 or not continued) and data[start:end].strip(b"*")
        ]

    def mask(self, data: bytes, final: bool = True, continued: bool = False) -> bytes:
        """`data` with `*` in place of every byte of a secret."""
        spans = self.spans(data, final, continued)
        if not spans:
            return data
        masked = bytearray(data)
        for start, end in spans:
            masked[start:end] = stars(data, start, end)
        return bytes(masked)

    def stream(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Mask consecutive chunks; a secret may be split between two of them."""
        rest, started = b"", False
        for chunk in chunks:
            data = self.mask(rest + chunk, final=False, continued=started)
            started = started or len(data) > OVERLAP
            yield data[: max(0, len(data) - OVERLAP)]
            rest = data[max(0, len(data) - OVERLAP) :]
        yield self.mask(rest, continued=started)


def stars(data: bytes, start: int, end: int) -> bytes:
    """What is written over a secret; a number of JSON becomes a text, so that the file stays JSON."""
    if is_bare(data, start, end) and end - start > 2:
        return b'"%b"' % (b"*" * (end - start - 2))
    return b"*" * (end - start)


class Growing:
    """Masks a file that is still written, from where it ended last time.

    If another machine writes it (`elsewhere`), its last page is left until there is a next one: some network file
    systems write whole pages, and two machines must not write to one page.
    """

    def __init__(self, path: Path | RunFile, masker: Masker, elsewhere: bool = False) -> None:
        self.file = run_file(path)
        self.masker = masker
        self.elsewhere = elsewhere
        self._file: tuple[int, int] | None = None
        self._done = 0

    def advance(self, final: bool = False) -> int:
        """Mask what was written since; return the number of secrets. A file that cannot be changed is left."""
        with contextlib.suppress(OSError), _opened(self.file) as fd:
            status = os.fstat(fd)
            if self._file != (status.st_dev, status.st_ino) or status.st_size < self._done:
                self._file, self._done = (status.st_dev, status.st_ino), 0
            end = status.st_size // PAGE * PAGE if self.elsewhere and not final else None
            if (status.st_size if end is None else end) > self._done or final:
                count, self._done = _mask_from(fd, max(0, self._done - OVERLAP), self.masker, final, end)
                if count and final:  # when a job wrote last is evidence of when it ended
                    os.utime(f"/proc/self/fd/{fd}", ns=(status.st_atime_ns, status.st_mtime_ns))
                return count
        return 0


def mask_folder(folder: Path, environ: Mapping[str, str]) -> int:
    """Mask every text file below a run folder; return the number of secrets that were overwritten.

    Links are not followed, and files with several names (hard links) are left: one may be outside of the folder. A file
    that this user may not change is left as it is.
    """
    if not os.access(folder, os.W_OK):
        return 0
    masker, count = Masker(environ), 0
    for file in RunFolder(path=folder).all_files():
        if not file.name.lower().endswith(PROFILES):
            count += Growing(file, masker).advance(final=True)
    return count


@contextlib.contextmanager
def _opened(file: RunFile) -> Iterator[int]:
    """A descriptor for reading; raises `OSError` for anything but a regular file with one name that has text."""
    with file.open() as opened:
        fd = opened.fileno()
        if os.fstat(fd).st_nlink > 1:
            raise OSError(f"{file} is not a file of its own")
        if file.suffix.lower() not in TEXTS and b"\0" in os.pread(fd, 1024, 0):
            raise OSError(f"{file} is not a text file")
        yield fd


def _mask_from(fd: int, start: int, masker: Masker, final: bool, end: int | None = None) -> tuple[int, int]:
    """Mask an open file from `start` to `end` (None: its end).

    Return the number of secrets, and where the reading ended.
    """
    at, count = start, 0
    while data := os.pread(fd, CHUNK + OVERLAP if end is None else min(CHUNK + OVERLAP, end - at), at):
        last = len(data) < CHUNK + OVERLAP
        spans = masker.spans(data, final and last, continued=at > 0)
        if spans:
            writable = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY)  # the same file, also if it was renamed
            try:
                for begin, end in spans:
                    os.pwrite(writable, stars(data, begin, end), at + begin)
            finally:
                os.close(writable)
            count += len(spans)
        if last:
            return count, at + len(data)
        at += CHUNK
    return count, at
