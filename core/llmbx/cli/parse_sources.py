"""Choose the format for files of records, which no format can recognize by their text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path

from ..errors import PluginError, UsageError, did_you_mean
from ..logs.find import LogFile
from ..logs.parser import LogFormat
from ..logs.source_reader import SourceReader
from ..model import Source
from ..plugins.manager import Plugins


def with_formats(
    logs: Sequence[LogFile], formats: Sequence[LogFormat], plugins: Plugins, name: str | None
) -> list[LogFile]:
    """The logs; each file of records with its kind and the only format that declares such files.

    `name` is the format to use for all. Raises `UsageError` if it is unknown, or if no format, or more than one,
    declares a file of records.
    """
    if name is not None and name not in (names := [format_.name for format_ in formats]):
        raise UsageError(f"--log-format {name}: no such format{did_you_mean(name, names)}")
    files = [log for log in logs if _is_file(log)]
    asked = [format_ for format_ in formats if name in (None, format_.name)]
    sources = {format_.name: sources_of(format_) for format_ in asked} if files else {}
    readers = [*plugins.source_readers.values()] if files else []
    return [_marked(log, sources, readers, name) if log in files else log.replace(format=name) for log in logs]


def kind_of(name: str, sources: Iterable[Source], readers: Iterable[type[SourceReader]]) -> str | None:
    """How a file is read that is not in a run's folder: by the formats' patterns, else by its name; None for a log."""
    for source in sources:
        if fnmatch(name, source.glob.rpartition("/")[2]):
            return source.kind
    return next((reader.kind for reader in readers if reader.recognizes(name)), None)


def _marked(
    log: LogFile, sources: dict[str, tuple[Source, ...]], readers: Sequence[type[SourceReader]], name: str | None
) -> LogFile:
    declared = [source for of_format in sources.values() for source in of_format]
    kind = kind_of(Path(log.path).name, declared, readers)
    marked: LogFile = log.replace(kind=kind, format=name)
    return marked if kind is None or name is not None else marked.replace(format=_only_format(log, sources))


def sources_of(format_: LogFormat) -> tuple[Source, ...]:
    """The other files that the parser of a format declares; none if it cannot be made without a run."""
    try:
        return format_.parser().sources
    except PluginError:
        return ()


def _is_file(log: LogFile) -> bool:
    """Whether the user named this file: a run's main log and what is found in folders are logs."""
    return log.run_dir is None and not log.path.endswith(".out") and log.copy is None


def _only_format(log: LogFile, sources: dict[str, tuple[Source, ...]]) -> str:
    found = [name for name, declared in sources.items() if _declares(declared, Path(log.path).name)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(found or [name for name, declared in sources.items() if declared])
    hint = f"choose one with --log-format ({known})" if known else "a plugin's log parser declares them as `sources`"
    raise UsageError(f"{log.path}: {'several formats read' if found else 'no format declares'} such files: {hint}")


def _declares(sources: Sequence[Source], name: str) -> bool:
    return any(fnmatch(name, source.glob.rpartition("/")[2]) for source in sources)
