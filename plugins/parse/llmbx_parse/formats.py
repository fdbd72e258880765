"""Choose the format for files of records, which no format can recognize by their text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

from llmbx.api import LlmbxError, LogFormat, Source, SourceReader, UsageError, did_you_mean
from llmbx.api.verbs import Plugins

from .find import LogFile

Declared = Mapping[str, tuple[Source, ...]]
"""The other files that each format declares, by the format's name."""


def with_formats(
    logs: Sequence[LogFile],
    formats: Sequence[LogFormat],
    plugins: Plugins,
    name: str | None,
) -> list[LogFile]:
    """The logs; each file of records with its kind and the only format that declares such files.

    `name` is the format to use for all. Raises `UsageError` if it is unknown, or if no format, or
    more than one, declares a file of records.
    """
    names = [format_.name for format_ in formats]
    if name is not None and name not in names:
        raise UsageError(f"--log-format {name}: no such format{did_you_mean(name, names)}")
    files = [log for log in logs if _is_file(log)]
    if not files:
        return [log.replace(format=name) for log in logs]
    chosen = [format_ for format_ in formats if name in (None, format_.name)]
    declared = {format_.name: sources_of(format_) for format_ in chosen}
    readers = [*plugins.source_readers.values()]
    return [
        _marked(log, declared, readers, name) if log in files else log.replace(format=name)
        for log in logs
    ]


def kind_of(
    name: str, sources: Iterable[Source], readers: Iterable[type[SourceReader]]
) -> str | None:
    """How a file is read that is not in a run's folder; None for a log.

    By the patterns that formats declare, else by its name.
    """
    for source in sources:
        if _matches(name, source):
            return source.kind
    return next((reader.kind for reader in readers if reader.recognizes(name)), None)


def sources_of(format_: LogFormat) -> tuple[Source, ...]:
    """The other files that the parser of a format declares.

    None if it cannot be made without a run.
    """
    try:
        return format_.parser().sources
    except LlmbxError:
        return ()


def _marked(
    log: LogFile, declared: Declared, readers: Sequence[type[SourceReader]], name: str | None
) -> LogFile:
    sources = [source for of_format in declared.values() for source in of_format]
    kind = kind_of(Path(log.path).name, sources, readers)
    if kind is None or name is not None:
        return log.replace(kind=kind, format=name)
    return log.replace(kind=kind, format=_only_format(log, declared))


def _is_file(log: LogFile) -> bool:
    """Whether the user named this file: a run's main log and what is found in folders are logs."""
    return log.run_dir is None and not log.path.endswith(".out") and log.copy is None


def _only_format(log: LogFile, declared: Declared) -> str:
    name = Path(log.path).name
    matching = [
        format_
        for format_, sources in declared.items()
        if any(_matches(name, source) for source in sources)
    ]
    if len(matching) == 1:
        return matching[0]
    choices = matching or [format_ for format_, sources in declared.items() if sources]
    if choices:
        hint = f"choose one with --log-format ({', '.join(choices)})"
    else:
        hint = "a plugin's log parser declares them as `sources`"
    problem = "several formats read" if matching else "no format declares"
    raise UsageError(f"{log.path}: {problem} such files: {hint}")


def _matches(name: str, source: Source) -> bool:
    return fnmatch(name, source.glob.rpartition("/")[2])
