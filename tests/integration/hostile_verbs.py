"""Call verbs of llmbx in this process, each with a limit of time, and note who opens what in the folders of runs.

The arguments are the install and a file with the verbs (JSON: a list of lists of arguments). The output is a list of
objects: `code`, `text` (what was printed), and `around` (what was opened in a run folder beside the door).
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

LIMIT_S = 30
DOOR = ("llmbx.run_files.door", "llmbx.run_files", "llmbx.run_files.door")

around: list[str] = []


class Hangs(BaseException):
    """A verb took too long; nothing that it catches."""


def watch(folders: tuple[str, ...]) -> None:
    """Note every opening in these folders that another module than the door does."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "sqlite3.connect", "os.listdir", "os.scandir", "os.rename", "os.remove", "os.chmod"):
            path = arguments[0]
            if isinstance(path, bytes):
                path = os.fsdecode(path)
            if isinstance(path, str) and f"{path}/".startswith(folders) and caller() not in DOOR:
                around.append(f"{event} {path} by {caller()}")

    sys.addaudithook(hook)


def caller() -> str:
    """The module of llmbx or of a plugin that called into the standard library."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and not str(frame.f_globals.get("__name__", "")).startswith("llmbx"):
        frame = frame.f_back
    return str(frame.f_globals["__name__"]) if frame is not None else "?"


@contextlib.contextmanager
def printed() -> Iterator[Any]:
    """A file that gets what this process prints, also through its descriptors."""
    kept = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            yield file
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
            os.close(kept[0])
            os.close(kept[1])


def call(arguments: list[str]) -> dict[str, Any]:
    """Call one verb as its command does."""
    from llmbx.cli.main import main

    around.clear()
    sys.argv = ["llmbx", *arguments]
    code: object = 0
    with printed() as file:
        signal.alarm(LIMIT_S)
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        except Hangs:
            code = "hangs"
        except MemoryError:
            code = "eats the memory"
        except BaseException as error:
            code = f"{type(error).__name__}: {error}"
        finally:
            signal.alarm(0)
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        file.seek(0)
        text = file.read(1 << 20).decode(errors="replace")
    return {"arguments": arguments, "code": code, "text": text, "around": list(around)}


def hang(*_: object) -> None:
    raise Hangs


def main() -> None:
    """Call all verbs."""
    install, verbs = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    signal.signal(signal.SIGALRM, hang)
    faulthandler.enable()
    records = [*install.glob("workloads/*/experiments/*/*/*/run.json"), *install.glob("sweeps/*/sweep.json")]
    watch(tuple(f"{record.parent}/" for record in records))
    print(json.dumps([call(arguments) for arguments in verbs]))


if __name__ == "__main__":
    main()
