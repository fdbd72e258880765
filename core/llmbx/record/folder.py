"""Create, write and read run folders, which are the truth about runs.

Folders are created exclusively, files written atomically.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import msgspec

from ..codec import decode
from ..errors import LlmbxError, UsageError
from ..files import disk_errors
from ..launchers.nodes import read_nodes
from ..model import Date, Expected, Finding, Image, Job, Node, Owner, Result, RunSpec, Step, Value
from ..model.run_folder import RECORD, log_name
from ..run_files import FOLDER_MODE, LONGEST_LINE, RunFile, RunFolder
from ..secrets import recorded, scrub
from ..toml_file import NOT_JSON
from . import short_ids
from .host import current_user as current_user
from .host import is_me

if TYPE_CHECKING:
    from ..config.install import Install

T = TypeVar("T", bound=Value)

RESULT = "result.json"
STEPS = "steps.jsonl"


class SweepMark(Value, frozen=True):
    """Position of a run in a sweep: the sweep's id, the key of the cell, and the number of the repeat (from 1)."""

    sweep_id: str
    cell: str
    repeat: int


class PairMark(Value, frozen=True):
    """Position of a run in `run --against`: the id of the command, the number of the pair (from 1), and the side.

    Side "a" is the earlier run that is run again, side "b" the requested run.
    """

    group: str
    number: int
    side: Literal["a", "b"]


class Attempt(Value, frozen=True):
    """An earlier attempt of a run: its job, how and why it ended, and the node that the next attempt excludes."""

    number: int
    job: Job | None
    status: str
    cause: str | None = None
    exit_code: int | None = None
    node: str | None = None
    ended: float | None = None


class Recorded(Value, frozen=True):
    """A record in a file, as indented JSON, with the version of its layout in the field `schema_version`."""

    def encoded(self) -> bytes:
        """The record as JSON, without any secret; NaN and infinity become null."""
        return pretty(self)

    @classmethod
    def decoded(cls, data: bytes) -> Self:
        """Decode a record of this version. Raises `NOT_JSON`, also if another version of llmbx wrote it."""
        return decode_record(data, cls)


class Record(Recorded, frozen=True):
    """`run.json`: everything known about a run before it has a result. Times are in epoch seconds.

    It is written when the folder is created (image and job are still unknown, `owner` prepares them), and again at the
    start. `commands` holds one rank's command line by phase, `findings` the result of the validation, `environment`
    those variables of llmbx itself that change how a training runs (`llmbx.entry.secrets.RECORDED`), without secrets;
    `group` joins the repeats of one command, `repeats` is the run that `--from` repeated, `sweep` the position in a
    sweep, `pair` that in runs which alternate (`--against`). `attempt` counts from 0, `attempts` are the earlier ones.
    `owner` is also the process that follows the run and starts the next attempt. `user` is the user who started it.
    `id` is the short id, which every command accepts. `expected` is what was predicted. `captured_by` are the profilers
    that record a phase at the framework's request (`Phase.capture`), in addition to those of the spec.
    """

    run_id: str
    id: str
    spec: RunSpec
    created: Date
    llmbx_version: str
    command: tuple[str, ...]
    commands: dict[str, tuple[str, ...]] = {}
    image: Image | None = None
    findings: tuple[Finding, ...] = ()
    host: dict[str, Any] = {}
    environment: dict[str, str] = {}
    versions: dict[str, str] = {}
    prepare_s: float | None = None
    owner: Owner | None = None
    job: Job | None = None
    attempt: int = 0
    attempts: tuple[Attempt, ...] = ()
    group: str | None = None
    repeats: str | None = None
    sweep: SweepMark | None = None
    user: str | None = None
    pair: PairMark | None = None
    expected: Expected = Expected()
    captured_by: tuple[str, ...] = ()
    schema_version: int = 3

    def write(self, folder: Path, *, durable: bool = True) -> None:
        """Write it as the record of the run in `folder`; without `durable` it may be lost in a power failure."""
        write_record(folder, self, durable)


class Run(Value, frozen=True):
    """A run folder and its record."""

    folder: str
    record: Record

    @staticmethod
    def read(folder: Path) -> Run:
        """Read the run in `folder`. Raises `UsageError` if its record cannot be read."""
        return read_run(folder)

    def read_result(self) -> Result | None:
        """Read its result; None if there is none yet. Raises `UsageError` if it cannot be read."""
        return read_result(self.path)

    def read_steps(self) -> list[Step]:
        """Read the steps of a finalized run, in order; empty if there are none. Raises `LlmbxError` if damaged."""
        return read_steps(self.path)

    def read_nodes(self) -> tuple[Node, ...]:
        """Read the facts of its nodes, in the order of their ranks; empty if no rank has started."""
        return read_nodes(self.path)

    def announce_change(self) -> None:
        """Make every index of runs read this finished run again: its experiment's folder gets a new change time."""
        with contextlib.suppress(OSError):
            os.utime(self.path.parent.parent)

    @property
    def path(self) -> Path:
        """The folder as a path."""
        return Path(self.folder)

    @property
    def files(self) -> RunFolder:
        """The folder as the door to its files."""
        return RunFolder(path=self.path)

    @property
    def log(self) -> Path:
        """Path of the main training log, for messages and commands."""
        return self.path / log_name(self.record.spec)

    @property
    def log_file(self) -> RunFile:
        """The main training log, to be read."""
        return self.files.file(log_name(self.record.spec))


def claim_folder(install: Install, spec: RunSpec, now: Callable[[], float] = time.time) -> tuple[str, str, Path]:
    """Create a new run folder: (run id, short id, folder). If the timestamp is taken, it is increased by one second."""
    install.ensure()
    stamp = int(now())
    base = install.experiments(spec.folder) / spec.experiment
    with disk_errors(str(base)):
        base.mkdir(parents=True, exist_ok=True)
        while True:
            run_id = f"{spec.experiment}_{stamp}"
            try:
                (base / run_id).mkdir(FOLDER_MODE)
            except FileExistsError:
                stamp += 1
                continue
            folder = base / run_id / spec.experiment
            folder.mkdir(FOLDER_MODE)
            return run_id, short_ids.claim(install, run_id, folder), folder


def new_record(run_id: str, spec: RunSpec, variables: tuple[str, ...] = (), **extra: Any) -> Record:
    """The record of a run that this process is about to prepare.

    `extra` are more members, such as the short `id`. `variables` are beginnings of the names of environment variables
    that plugins declare, and the record keeps.
    """
    from .. import __version__
    from .host import facts, myself

    return Record(
        run_id=run_id,
        spec=spec,
        created=time.time(),
        llmbx_version=__version__,
        host=facts(),
        environment=recorded(os.environ, (*spec.env, *variables)),
        owner=myself(),
        user=current_user(),
        **extra,
    )


def write_record(folder: Path, record: Record, durable: bool = True) -> None:
    """Write `run.json`. With `durable=False` it may be lost in a power failure; for a record that is soon written
    again.
    """
    RunFolder(path=folder).write(RECORD, pretty(record), durable=durable)


def write_steps(folder: Path, steps: list[Step]) -> None:
    """Write `steps.jsonl`, one step per line; NaN becomes null."""
    RunFolder(path=folder).write(STEPS, b"".join(msgspec.json.encode(step) + b"\n" for step in steps))


def write_result(folder: Path, result: Result) -> None:
    """Write `result.json` with its digest."""
    RunFolder(path=folder).write(RESULT, sealed(result))


def sealed(result: Result) -> bytes:
    """The content of `result.json`: the result with the digest of its other members."""
    return pretty(result.replace(digest=digest(msgspec.json.decode(pretty(result)))))


def digest(members: dict[str, Any]) -> str:
    """The SHA-256 of a result's members without their digest, the same for every layout of the file."""
    import hashlib  # loads OpenSSL

    rest = {name: value for name, value in members.items() if name != "digest"}
    return hashlib.sha256(msgspec.json.encode(rest, order="sorted")).hexdigest()


def read_run(folder: Path) -> Run:
    """Read the run in `folder`. Raises `UsageError` if its record cannot be read."""
    return Run(folder=str(folder), record=_read(RunFolder(path=folder).file(RECORD), Record))


def read_result(folder: Path) -> Result | None:
    """Read the result of the run in `folder`, without the digest of its file; None if there is none yet."""
    file = RunFolder(path=folder).file(RESULT)
    return _read(file, Result).replace(digest=None) if file.exists() else None


def read_steps(folder: Path) -> list[Step]:
    """Read the steps of a finalized run, in order; empty if there are none. Raises `LlmbxError` for a damaged file."""
    file = RunFolder(path=folder).file(STEPS)
    try:
        return [_step(line, f"{file}: line {number}") for number, line in enumerate(file.lines(), 1)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from None


def _step(line: bytes, place: str) -> Step:
    if len(line) >= LONGEST_LINE:
        raise LlmbxError(f"{place} is not a valid step: it is longer than {LONGEST_LINE >> 10} KiB")
    try:
        return decode(line, Step)
    except NOT_JSON as error:
        raise LlmbxError(f"{place} is not a valid step: {error}") from None


def pretty(value: Any) -> bytes:
    """`value` as indented JSON with a newline, without any secret; NaN and infinity become null."""
    return scrub(msgspec.json.format(msgspec.json.encode(value), indent=2).decode(), os.environ).encode() + b"\n"


def _read(file: RunFile, kind: type[T]) -> T:
    try:
        return decode_record(file.read(), kind)
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from None
    except NOT_JSON as error:
        raise LlmbxError(f"{file}: not a record that this version of llmbx can read: {error}") from None


@functools.cache
def _version(kind: type[Value]) -> int:
    """The version of the layout of a record; finding it out takes longer than decoding."""
    return int(next(field.default for field in msgspec.structs.fields(kind) if field.name == "schema_version"))


class _AnyVersion(msgspec.Struct):
    """What a record has in every version."""

    schema_version: int = 1


def decode_record(data: bytes, kind: type[T]) -> T:
    """Decode a record of this version from JSON. Raises `NOT_JSON`, also if another version of llmbx wrote it."""
    version = decode(data, _AnyVersion).schema_version
    current = _version(kind)
    if version != current:
        age = "an older" if version < current else "a newer"
        raise msgspec.ValidationError(f"it has schema version {version} of {age} llmbx, expected {current}")
    return decode(data, kind)


def owns(run: Run) -> bool:
    """Whether this process may change the run's folder: it is its user's, and not in a read-only install.

    A process that started the run may, also if the file system shows another owner for all files.
    """
    starter = run.record.owner
    return (run.files.own or (starter is not None and is_me(starter))) and os.access(run.path, os.W_OK)
