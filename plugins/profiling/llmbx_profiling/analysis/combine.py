"""Combine the profiles of all files into one analysis over all ranks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from pathlib import Path

from llmbx.api import RunFile, Value

from ..names import FileRank
from . import kernels, stragglers
from .lane_metrics import Calls, WindowTimes, add
from .model import Analysis, Ceiling, Collective, Gap, Kernel, Range, Rank, Source, Step, Stragglers
from .profile import FileProfile, LaneProfile
from .windows import Window

SECOND = 1e9


class Track(Value, frozen=True):
    """One lane with its rank and a unique label."""

    rank: int | None
    label: str
    file: str
    lane: LaneProfile


def combine(
    files: Sequence[Path | RunFile], file_ranks: Sequence[FileRank], profiles: Sequence[FileProfile], top: int
) -> Analysis:
    """Return the analysis of all files; `top` limits the lists of kernels, collectives, gaps and ranges."""
    tracks = _tracks(files, file_ranks, profiles)
    steps = [step for track in tracks for step in _steps(track)]
    ranks = tuple(_rank(track, [step for step in steps if step.label == track.label]) for track in tracks)
    total, exposed = _sum(step.duration_s for step in steps), _sum(step.exposed_s for step in steps)
    return Analysis(
        files=tuple(
            Source(path=str(file), product=profile.product, schema=profile.schema, secrets=profile.secrets)
            for file, profile in zip(files, profiles, strict=True)
        ),
        ranks=ranks,
        steps=tuple(sorted(steps, key=lambda step: (step.step is None, step.step or 0))),
        top_kernels=_kernels(tracks)[:top],
        top_collectives=_collectives(tracks)[:top],
        gaps=_gaps(tracks, top),
        ranges=_ranges(profiles)[:top],
        stragglers=_stragglers(tracks),
        ceiling=ceiling(steps),
        exposed_share=exposed / total if exposed is not None and total else None,
        notes=_notes(files, profiles),
    )


def _tracks(
    files: Sequence[Path | RunFile], file_ranks: Sequence[FileRank], profiles: Sequence[FileProfile]
) -> list[Track]:
    tracks = []
    for file, file_rank, profile in zip(files, file_ranks, profiles, strict=True):
        several = len(profile.lanes) > 1
        for number, lane in enumerate(profile.lanes):
            rank = file_rank.rank
            if rank is None and file_rank.node is not None and several:
                rank = file_rank.node * len(profile.lanes) + number
            elif rank is None and len(files) == 1 and several:
                rank = number
            name = f"rank {rank}" if rank is not None else file.stem
            if several and (file_rank.rank is not None or rank is None):
                name += f" gpu {number}" if lane.device is not None else f" process {number}"
            tracks.append(Track(rank=rank, label=name, file=str(file), lane=lane))
    return _unique_labels(sorted(tracks, key=lambda track: (track.rank is None, track.rank or 0)))


def _unique_labels(tracks: Sequence[Track]) -> list[Track]:
    """Append the file name to labels that are not unique, because two files claim the same rank."""
    labels = [track.label for track in tracks]
    return [
        track.replace(label=f"{track.label} ({Path(track.file).name})") if labels.count(track.label) > 1 else track
        for track in tracks
    ]


def _steps(track: Track) -> list[Step]:
    lane = track.lane
    times = lane.metrics.times if lane.metrics else [None] * len(lane.windows)
    return [_step(track, window, time) for window, time in zip(lane.windows, times, strict=True)]


def _step(track: Track, window: Window, times: WindowTimes | None) -> Step:
    step = Step(
        rank=track.rank,
        label=track.label,
        step=window.number,
        start_s=window.start / SECOND,
        duration_s=(window.end - window.start) / SECOND,
    )
    if times is None:
        return step
    return step.replace(
        busy_s=times.busy / SECOND,
        idle_s=(times.duration - times.busy) / SECOND,
        compute_s=times.compute / SECOND,
        communication_s=times.communication / SECOND,
        overlapped_s=times.overlapped / SECOND,
        exposed_s=(times.communication - times.overlapped) / SECOND,
    )


_SUMS = ("busy_s", "idle_s", "compute_s", "communication_s", "overlapped_s", "exposed_s")


def _rank(track: Track, steps: Sequence[Step]) -> Rank:
    return Rank(
        rank=track.rank,
        label=track.label,
        file=track.file,
        device=track.lane.device,
        steps=sum(step.step is not None for step in steps),
        kernels=track.lane.metrics.kernels if track.lane.metrics else 0,
        duration_s=sum(step.duration_s for step in steps),
        **{name: _sum(getattr(step, name) for step in steps) for name in _SUMS},
    )


def _sum(values: Iterable[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return sum(present) if present else None


def _merged(tracks: Sequence[Track], kind: str) -> dict[str, Calls]:
    merged: dict[str, Calls] = {}
    for track in tracks:
        calls: Mapping[str, Calls] = getattr(track.lane.metrics, kind) if track.lane.metrics else {}
        for name, calls_of_track in calls.items():
            text = kernels.short(name)
            merged[text] = add(merged[text], calls_of_track) if text in merged else calls_of_track
    return merged


def _kernels(tracks: Sequence[Track]) -> tuple[Kernel, ...]:
    kinds = {kind: _merged(tracks, kind) for kind in ("compute", "communication")}
    everything = sum(calls.total for named in kinds.values() for calls in named.values())
    rows = [
        Kernel(name=name, kind=kind, calls=c.calls, total_s=c.total / SECOND, mean_s=c.total / c.calls / SECOND,
               max_s=c.longest / SECOND, share=c.total / everything if everything else 0.0)
        for kind, named in kinds.items()
        for name, c in named.items()
    ]  # fmt: skip
    return tuple(sorted(rows, key=lambda row: (-row.total_s, row.name)))


def _collectives(tracks: Sequence[Track]) -> tuple[Collective, ...]:
    rows = [
        Collective(name=name, operation=kernels.operation(name), calls=c.calls, total_s=c.total / SECOND,
                   mean_s=c.total / c.calls / SECOND, exposed_s=(c.total - c.overlapped) / SECOND,
                   overlapped_s=c.overlapped / SECOND)
        for name, c in _merged(tracks, "communication").items()
    ]  # fmt: skip
    return tuple(sorted(rows, key=lambda row: (-row.exposed_s, row.name)))


def _gaps(tracks: Sequence[Track], top: int) -> tuple[Gap, ...]:
    rows = [
        Gap(rank=track.rank, label=track.label, step=track.lane.windows[index].number, start_s=offset / SECOND,
            duration_s=length / SECOND)
        for track in tracks
        if track.lane.metrics
        for index, offset, length in track.lane.metrics.gaps
    ]  # fmt: skip
    return tuple(nlargest(top, rows, key=lambda gap: gap.duration_s))


def _ranges(profiles: Sequence[FileProfile]) -> tuple[Range, ...]:
    by_text: dict[tuple[str | None, str], list[tuple[int, int, int, int]]] = {}
    for profile in profiles:
        for item in profile.ranges:
            summary = (item.calls, item.total, item.shortest, item.longest)
            by_text.setdefault((item.domain, item.text), []).append(summary)
    rows = []
    for (domain, text), parts in by_text.items():
        calls, totals, shortest, longest = zip(*parts, strict=True)
        rows.append(
            Range(domain=domain, text=text, calls=sum(calls), total_s=sum(totals) / SECOND,
                  mean_s=sum(totals) / sum(calls) / SECOND, min_s=min(shortest) / SECOND, max_s=max(longest) / SECOND)
        )  # fmt: skip
    return tuple(sorted(rows, key=lambda row: (-row.total_s, row.text)))


def _stragglers(tracks: Sequence[Track]) -> Stragglers | None:
    lanes = []
    for track in tracks:
        if track.lane.metrics:
            # Windows of different lanes are matched by step number; their indices may differ.
            numbers = [window.number if window.number is not None else -1 for window in track.lane.windows]
            lengths = {(numbers[index], name): calls for (index, name), calls in track.lane.metrics.lengths.items()}
            lanes.append((track.rank, track.label, lengths))
    return stragglers.find(lanes)


def ceiling(steps: Sequence[Step]) -> Ceiling | None:
    """Return the upper bound on the speed-up: the slowest rank's time of each step, with and without exposed parts."""
    with_all: dict[int | None, float] = {}
    without: dict[int | None, float] = {}
    for step in steps:
        if step.exposed_s is not None:
            with_all[step.step] = max(with_all.get(step.step, 0.0), step.duration_s)
            without[step.step] = max(without.get(step.step, 0.0), step.duration_s - step.exposed_s)
    if not with_all:
        return None
    before, after = sum(with_all.values()) / len(with_all), sum(without.values()) / len(with_all)
    return Ceiling(step_s=before, without_s=after, speedup=before / after) if after > 0 else None


def _notes(files: Sequence[Path | RunFile], profiles: Sequence[FileProfile]) -> tuple[str, ...]:
    files_by_note: dict[str, list[str]] = {}
    for file, profile in zip(files, profiles, strict=True):
        for note in profile.notes:
            files_by_note.setdefault(note, []).append(file.name)
    return tuple(
        note if len(names) == len(files) else f"{', '.join(names[:3])}{' …' if len(names) > 3 else ''}: {note}"
        for note, names in files_by_note.items()
    )
