"""Find and run nsys and its importer on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from llmbx.api import InfraError, RunFile

from .settings import VARIABLE


def command(environ: Mapping[str, str]) -> str:
    """Return the nsys command that the ranks run."""
    return environ.get(VARIABLE) or "nsys"


def find(environ: Mapping[str, str]) -> str | None:
    """Return the absolute path of nsys on this machine, or None."""
    return shutil.which(command(environ), path=environ.get("PATH"))


def require(environ: Mapping[str, str], what: str) -> str:
    """Return the path of nsys on this machine. Raises `InfraError` with the purpose `what` if there is none."""
    path = find(environ)
    if path is None:
        raise InfraError(
            f"{what} requires nsys, which is not on PATH: install Nsight Systems, set {VARIABLE} to its command, "
            "or export the report to .sqlite on a machine with nsys"
        )
    return path


def version(nsys: str) -> tuple[int, ...]:
    """Return the version of nsys, (2023, 4) for 2023.4.4; empty if unknown."""
    done = subprocess.run(
        [nsys, "--version"], capture_output=True, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL
    )
    match = re.search(r"version (\d+)\.(\d+)", done.stdout)
    return (int(match[1]), int(match[2])) if match else ()


@contextmanager
def export_sqlite(report: Path | RunFile, environ: Mapping[str, str]) -> Iterator[Path]:
    """Export a report to SQLite in a temporary folder, which is removed afterwards. The report is not modified.

    Raises `InfraError` if nsys is missing or cannot read the report.
    """
    nsys = require(environ, f"reading {report.name}")
    with tempfile.TemporaryDirectory(prefix="llmbx-nsys-") as folder:
        target = Path(folder) / "report.sqlite"
        argv = [nsys, "export", "--type=sqlite", "--force-overwrite=true", f"--output={target}"]
        with _named(report, Path(folder)) as source:
            done = _run([*argv, str(source)], environ, folder)
        if done.returncode != 0 or not target.is_file():
            raise InfraError(f"{report}: nsys export failed: {_reason(done)}")
        yield target


@contextmanager
def _named(report: Path | RunFile, folder: Path) -> Iterator[Path]:
    """A path of the report for nsys: that of a run leads to the file that was opened and checked, not to its name."""
    if isinstance(report, Path):
        yield report.absolute()
        return
    try:
        file = report.open()
    except OSError as error:
        raise InfraError(f"cannot read {report}: {error.strerror}") from None
    with file:
        place = folder / report.name
        place.symlink_to(f"/proc/{os.getpid()}/fd/{file.fileno()}")
        yield place


IMPORTS = 3
"""Imports of one stream at most: on a busy machine, about 1 of 600 fails (nsys 2023.4.4), and the next one succeeds."""


def import_stream(stream: Path, environ: Mapping[str, str]) -> Path:
    """Import a .qdstrm, left by an nsys without importer or whose importer failed, into a .nsys-rep in the same folder.

    Raises `InfraError` if there is no importer or it fails repeatedly.
    """
    importer = find_importer(environ)
    if importer is None:
        raise InfraError(
            f"{stream} is an unfinished report, and this machine has no QdstrmImporter: "
            "install Nsight Systems with its host components"
        )
    target = stream.with_suffix(".nsys-rep")
    argv = [importer, f"--input-file={stream.absolute()}", f"--output-file={target.absolute()}"]
    for _ in range(IMPORTS):
        with tempfile.TemporaryDirectory(prefix="llmbx-nsys-") as folder:
            done = _run(argv, environ, folder)
        if done.returncode == 0 and target.is_file():
            target.chmod(target.stat().st_mode & ~0o022)  # only the owner of a run changes its files
            return target
        target.unlink(missing_ok=True)  # a failed import leaves a file that is not a report
    raise InfraError(f"{stream}: import failed: {_reason(done)}")


def find_importer(environ: Mapping[str, str]) -> str | None:
    """Return the path of QdstrmImporter, in a `host-…` folder near the real nsys or on PATH; None if there is none."""
    nsys = find(environ)
    for up in list(Path(nsys).resolve().parents)[:6] if nsys else []:
        for pattern in ("host-*/QdstrmImporter", "nsight-systems/host-*/QdstrmImporter"):
            programs = sorted(up.glob(pattern))
            if programs:
                return str(programs[-1])
    return shutil.which("QdstrmImporter", path=environ.get("PATH"))


def _run(argv: list[str], environ: Mapping[str, str], temporary: str) -> subprocess.CompletedProcess[str]:
    # nsys writes sockets and logs to TMPDIR, where another user's files may be in the way.
    env = {**environ, "TMPDIR": temporary}
    return subprocess.run(
        argv, env=env, capture_output=True, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL
    )


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """Return what nsys says of its failure, in one line: its first line on it, and the name of the exception."""
    output = done.stdout + done.stderr
    lines = [line for line in (line.rsplit("\r", 1)[-1].strip() for line in output.split("\n")) if line]
    failures = (line for line in lines if re.search(r"\b(fail|error)", line, re.IGNORECASE))
    reason = next(failures, lines[-1] if lines else f"exit code {done.returncode}")
    exception = re.search(r"^std::exception::what: (\S+)", output, re.MULTILINE)
    return f"{reason.split(': /')[0]}: {exception[1]}" if exception else reason
