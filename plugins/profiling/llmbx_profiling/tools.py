"""Where nsys and its importer are on this machine, and what is asked of them."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from llmbx.errors import InfraError

VARIABLE = "LLMBX_NSYS"
"""Names the nsys command where it is not on PATH; also as seen by the ranks."""


def command(environ: Mapping[str, str]) -> str:
    """The nsys command as the ranks are to start it."""
    return environ.get(VARIABLE) or "nsys"


def find(environ: Mapping[str, str]) -> str | None:
    """The nsys of this machine as an absolute path, or None."""
    return shutil.which(command(environ), path=environ.get("PATH"))


def need(environ: Mapping[str, str], what: str) -> str:
    """The nsys of this machine. Raises `InfraError` that says what it is needed for."""
    found = find(environ)
    if found is None:
        raise InfraError(
            f"{what} needs nsys, which is not on PATH: install Nsight Systems, name its command with {VARIABLE}, "
            "or export the report to .sqlite where nsys is"
        )
    return found


def version(nsys: str) -> tuple[int, ...]:
    """The version of an nsys, (2023, 4) for 2023.4.4; empty where it does not say."""
    done = subprocess.run(
        [nsys, "--version"], capture_output=True, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL
    )
    found = re.search(r"version (\d+)\.(\d+)", done.stdout)
    return (int(found[1]), int(found[2])) if found else ()


@contextmanager
def exported(report: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """The report as SQLite in a private folder that is gone afterwards; the report itself is only read.

    Raises `InfraError` when nsys is missing or cannot read the report.
    """
    nsys = need(environ, f"reading {report.name}")
    with tempfile.TemporaryDirectory(prefix="llmbx-nsys-") as folder:
        target = Path(folder) / "report.sqlite"
        argv = [nsys, "export", "--type=sqlite", "--force-overwrite=true", f"--output={target}", str(report.absolute())]
        done = _run(argv, environ, folder)
        if done.returncode != 0 or not target.is_file():
            raise InfraError(f"{report}: nsys cannot export it: {_last_line(done)}")
        yield target


def import_stream(stream: Path, environ: Mapping[str, str]) -> Path:
    """Turn a .qdstrm (nsys found no importer where it ran) into a .nsys-rep beside it. Raises `InfraError`."""
    importer = find_importer(environ)
    if importer is None:
        raise InfraError(
            f"{stream} is an unfinished report and this machine has no QdstrmImporter to finish it: "
            "install Nsight Systems with its host part"
        )
    target = stream.with_suffix(".nsys-rep")
    with tempfile.TemporaryDirectory(prefix="llmbx-nsys-") as folder:
        done = _run(
            [importer, f"--input-file={stream.absolute()}", f"--output-file={target.absolute()}"], environ, folder
        )
    if done.returncode != 0 or not target.is_file():
        raise InfraError(f"{stream}: cannot be imported: {_last_line(done)}")
    return target


def find_importer(environ: Mapping[str, str]) -> str | None:
    """QdstrmImporter, which lies in a `host-…` folder around the real nsys, or on PATH."""
    nsys = find(environ)
    for up in list(Path(nsys).resolve().parents)[:6] if nsys else []:
        for place in ("host-*/QdstrmImporter", "nsight-systems/host-*/QdstrmImporter"):
            found = sorted(up.glob(place))
            if found:
                return str(found[-1])
    return shutil.which("QdstrmImporter", path=environ.get("PATH"))


def _run(argv: list[str], environ: Mapping[str, str], temporary: str) -> subprocess.CompletedProcess[str]:
    # nsys leaves its sockets and logs in TMPDIR, where another user's may be in the way.
    env = {**environ, "TMPDIR": temporary}
    return subprocess.run(
        argv, env=env, capture_output=True, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL
    )


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return lines[-1].rsplit("\r", 1)[-1] if lines else f"exit code {done.returncode}"
