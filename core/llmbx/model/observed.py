"""What the nodes and ranks of a run did while its window was measured: members of `result.json`."""

from __future__ import annotations

from .base import Value


class Observed(Value, frozen=True):
    """What a plugin observed of a run, in parts: `Observed.Hardware(power_w=500)`."""

    class Gpu(Value, frozen=True):
        """One GPU of a node, and the means of its samples over the window. Shares are fractions of the time."""

        index: int
        """Its number on the node, in the driver's order."""
        uuid: str | None = None
        """Its UUID, as the driver prints it."""
        name: str | None = None
        """Its product name."""
        ranks: tuple[int, ...] = ()
        """The ranks that use it."""
        clock_mhz: float | None = None
        """Clock of its multiprocessors."""
        power_w: float | None = None
        """Power."""
        temperature_c: float | None = None
        """Temperature."""
        slowed_by_power: float | None = None
        """Share of the time in which the power limit lowered the clock."""
        slowed_by_heat: float | None = None
        """Share of the time in which the temperature lowered the clock."""

    class Node(Value, frozen=True):
        """One node of a run."""

        node: str
        """Name by which the scheduler knows it."""
        ranks: tuple[int, ...] = ()
        """Its ranks, in order."""
        gpus: tuple[Observed.Gpu, ...] = ()
        """Its GPUs that were sampled."""

    class Hardware(Value, frozen=True):
        """What the GPUs of a run could do and used over the window, the means of all of them."""

        mfu: float | None = None
        """MFU by the peak at the clock that they had, a fraction; `mfu.value` is by the peak of the data sheet."""
        clock_mhz: float | None = None
        """Mean clock."""
        peak_clock_mhz: float | None = None
        """Clock of the peak of the data sheet."""
        power_w: float | None = None
        """Mean power of a GPU."""
        joules_per_step: float | None = None
        """Energy of all GPUs a step."""
        tokens_per_joule: float | None = None
        """Tokens per joule of the GPUs."""
        slowed_by_power: float | None = None
        """Share of the time in which the power limit lowered the clock of a GPU."""
        slowed_by_heat: float | None = None
        """Share of the time in which the temperature lowered the clock of a GPU."""
        because: str | None = None
        """Why something of it is unknown, in one line."""

    class Stragglers(Value, frozen=True):
        """How evenly the ranks worked over the window: means of their steps before the ranks meet, and of the wait.

        The rank that waits least is the one for which the others wait.
        """

        ranks: int = 0
        """Number of ranks whose steps were measured."""
        slowest_rank: int | None = None
        """The rank that waits least."""
        slowest_node: str | None = None
        """Its node."""
        before_s: float | None = None
        """Median over the ranks of the time before they meet."""
        slowest_before_s: float | None = None
        """The same of the slowest rank."""
        wait_s: float | None = None
        """Median over the ranks of the wait."""
        lost_s_per_step: float | None = None
        """How much longer the median rank waits in a step than the slowest one: what the slowest one costs."""
        steps: int = 0
        """Number of steps that all of these ranks measured."""

    nodes: tuple[Observed.Node, ...] = ()
    """Its nodes, in the order of their ranks."""
    hardware: Observed.Hardware = Hardware()
    """What its GPUs could do and used."""
    stragglers: Observed.Stragglers = Stragglers()
    """How evenly its ranks worked."""
    warnings: tuple[str, ...] = ()
    """Warnings for the result, one line each."""
