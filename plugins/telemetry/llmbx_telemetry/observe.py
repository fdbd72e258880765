"""What nodes, GPUs and ranks did over the window of a run, from samples and step clocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from llmbx.api import Evidence
from llmbx.api.verbs import Observed

from .samples import Samples, read_errors, read_samples
from .steps import RankSteps, read_steps, stragglers

NANOSECONDS = 1e9


@dataclass(frozen=True)
class Period:
    """The window: zero-based steps, inclusive, and epoch seconds by the first node's clock."""

    first: int
    last: int
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.begin

    @property
    def steps(self) -> int:
        """Number of its steps."""
        return self.last - self.first + 1


def observe(evidence: Evidence) -> Observed | None:
    """Return what was observed of a run; None if nothing was recorded."""
    assert evidence.run_dir is not None
    samples, ranks = read_samples(evidence.run_dir), read_steps(evidence.run_dir)
    if not samples and not ranks:
        warnings = not_started(evidence.run_dir)
        return Observed(warnings=warnings) if warnings else None
    period = measured(evidence, ranks)
    nodes = nodes_of(samples, ranks, period)
    return Observed(
        nodes=nodes,
        hardware=hardware(evidence, nodes, samples, period),
        stragglers=stragglers(ranks, *((period.first, period.last) if period else (0, 1 << 31))),
        warnings=not_started(evidence.run_dir),
    )


def not_started(run_dir: Path) -> tuple[str, ...]:
    """Return the warning about samplers that could not be started, or that failed."""
    errors = read_errors(run_dir)
    if not errors:
        return ()
    node, text = next(iter(errors.items()))
    more = f" and {len(errors) - 1} others" if len(errors) > 1 else ""
    return (f"telemetry was not collected, or not to the end, on node {node}{more}: {text}",)


def measured(evidence: Evidence, ranks: Sequence[RankSteps]) -> Period | None:
    """Return the window: by the step clock of the first rank, else by the log's arrivals."""
    window = evidence.figures.window if evidence.figures else None
    if window is None or window.first is None or window.last is None:
        return None
    begins = evidence.first if evidence.first is not None else 0
    first, last = window.first - begins, window.last - begins
    if ranks and (times := ranks[0].times(first, last)):
        return Period(first, last, *times)
    arrived = {arrival.number: arrival.at for arrival in evidence.arrivals}
    if window.first - 1 in arrived and window.last in arrived:
        return Period(first, last, arrived[window.first - 1], arrived[window.last])
    return None


def nodes_of(
    samples: Sequence[Samples], ranks: Sequence[RankSteps], period: Period | None
) -> tuple[Observed.Node, ...]:
    """Return the nodes, each with its ranks and with the GPUs that they use."""
    segments = {
        each.node: each for each in samples
    }  # the last start of each sampler: the measured phase
    names = dict.fromkeys([*segments, *(rank.node for rank in ranks)])
    facts = []
    for name in names:
        own = [rank for rank in ranks if rank.node == name]
        segment = segments.get(name)
        numbers = {rank.rank for rank in own}
        if segment is not None:
            numbers |= {int(thing[4:]) for thing in segment.things("rank")}
        gpus = gpus_of(segment, own, period) if segment is not None else ()
        facts.append(Observed.Node(node=name, ranks=tuple(sorted(numbers)), gpus=gpus))
    return tuple(sorted(facts, key=lambda node: node.ranks[:1]))


def gpus_of(
    samples: Samples, ranks: Sequence[RankSteps], period: Period | None
) -> tuple[Observed.Gpu, ...]:
    """Return the GPUs of a node, with their ranks as far as these are known."""
    users = _users(samples, ranks)
    return tuple(
        _gpu(samples, gpu, tuple(sorted(users.get(gpu, ()))), period)
        for gpu in samples.things("gpu")
    )


def _users(samples: Samples, ranks: Sequence[RankSteps]) -> dict[str, set[int]]:
    """The ranks of each GPU: by the UUID that they recorded, else by the driver's processes."""
    by_uuid = {samples.facts.get(gpu, {}).get("uuid"): gpu for gpu in samples.things("gpu")}
    users: dict[str, set[int]] = {}
    for rank in ranks:
        if rank.gpu_uuid in by_uuid:
            users.setdefault(by_uuid[rank.gpu_uuid], set()).add(rank.rank)
    seen = {number for numbers in users.values() for number in numbers}
    for thing in samples.things("rank"):
        used = samples.get(f"{thing}.gpu")
        used = used[used == used]  # without NaN
        if len(used) and int(thing[4:]) not in seen:
            users.setdefault(f"gpu{int(used[-1])}", set()).add(int(thing[4:]))
    return users


def _gpu(samples: Samples, gpu: str, ranks: tuple[int, ...], period: Period | None) -> Observed.Gpu:
    facts = samples.facts.get(gpu, {})
    known = Observed.Gpu(
        index=int(gpu[3:]),
        uuid=_text(facts.get("uuid")),
        name=_text(facts.get("name")),
        ranks=ranks,
    )
    if period is None:
        return known
    span = (period.begin, period.end)
    joules = energy_j(samples, gpu, period)
    power = joules / period.seconds if joules is not None and period.seconds > 0 else None
    return known.replace(
        clock_mhz=samples.mean(f"{gpu}.clock.sm", *span),
        power_w=power,
        temperature_c=samples.mean(f"{gpu}.temperature", *span),
        slowed_by_power=_share(samples, f"{gpu}.throttled.power", period),
        slowed_by_heat=_share(samples, f"{gpu}.throttled.thermal", period),
    )


def energy_j(samples: Samples, gpu: str, period: Period) -> float | None:
    """Return the energy of a GPU in the window: by its counter if read often, else by its power."""
    counted = samples.counted(f"{gpu}.energy", period.begin, period.end)
    if counted is not None:
        return counted / 1000
    power = samples.mean(f"{gpu}.power", period.begin, period.end)
    return None if power is None else power / 1000 * period.seconds


def _share(samples: Samples, name: str, period: Period) -> float | None:
    counted = samples.increase(name, period.begin, period.end)
    return None if counted is None else min(1.0, counted / NANOSECONDS / period.seconds)


def hardware(
    evidence: Evidence,
    nodes: Sequence[Observed.Node],
    samples: Sequence[Samples],
    period: Period | None,
) -> Observed.Hardware:
    """Return the figures of all GPUs that the ranks use."""
    spec, figures = evidence.spec, evidence.figures
    if spec is None or figures is None:
        return Observed.Hardware(because="the run was not measured")
    used = used_gpus(nodes, spec.gpus)
    if not used:
        return Observed.Hardware(because=_why_no_gpus(nodes, samples))
    if period is None:
        return Observed.Hardware(because="the times of the window are unknown")
    peak = spec.peak.clock_mhz if spec.peak else None
    clock = _mean(gpu.clock_mhz for gpu in used)
    power = _mean(gpu.power_w for gpu in used)
    step_s, tokens = figures.step_time_s.mean, None
    if spec.model.sequence_length:
        tokens = spec.global_batch_size * spec.model.sequence_length
    joules = power * spec.gpus * step_s if power is not None and step_s is not None else None
    mfu = figures.mfu.value
    return Observed.Hardware(
        mfu=mfu * peak / clock if mfu is not None and peak and clock else None,
        clock_mhz=clock,
        peak_clock_mhz=peak,
        power_w=power,
        joules_per_step=joules,
        tokens_per_joule=tokens / joules if tokens and joules else None,
        slowed_by_power=_mean(gpu.slowed_by_power for gpu in used),
        slowed_by_heat=_mean(gpu.slowed_by_heat for gpu in used),
        because=None if peak else f"the clock of the peak of {spec.gpu_type} is not known",
    )


def used_gpus(nodes: Sequence[Observed.Node], count: int) -> list[Observed.Gpu]:
    """Return the GPUs of the run: those with ranks, or all if there are as many as the run has."""
    sampled = [gpu for node in nodes for gpu in node.gpus]
    with_ranks = [gpu for gpu in sampled if gpu.ranks]
    return sampled if len(sampled) == count else with_ranks


def _why_no_gpus(nodes: Sequence[Observed.Node], samples: Sequence[Samples]) -> str:
    if any(node.gpus for node in nodes):
        return "which of the sampled GPUs the ranks use is unknown"
    return next(
        (each.missing["gpu"] for each in samples if "gpu" in each.missing), "no GPU was sampled"
    )


def _mean(values: Iterable[float | None]) -> float | None:
    numbers = list(values)
    return None if None in numbers or not numbers else mean(v for v in numbers if v is not None)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
