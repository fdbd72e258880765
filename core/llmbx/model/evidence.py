"""What is known about an ended run, and the checks that read it: their description and their answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .base import Scalar, Value
from .finding import Effect, Finding
from .step import Event, Prints, Step

if TYPE_CHECKING:
    from .result import Figures
    from .spec import RunSpec

OWN_CHECK = ":"
"""In the id of a check that a plugin brings: PLUGIN:ID."""


MEASURE = "measures."
"""Before the name of a measure, in `Conflict.field`."""


class Conflict(Value, frozen=True):
    """A step that a log has twice, with two values of `field`: time_s, loss, or `MEASURE` and a measure's name."""

    number: int
    """Number of the step."""
    field: str
    """Name of the value."""
    first: float
    """The value that was read first."""
    second: float
    """The value that was read after it."""


class Arrival(Value, frozen=True):
    """When the line of a step was read from the growing log: epoch seconds of a clock that was not set meanwhile.

    It was written at most `width` seconds earlier: the log was read then, and did not have it.
    """

    number: int
    """Number of the step."""
    at: float
    """Time of the reading in epoch seconds."""
    width: float = 0.0
    """Seconds before `at` within which the line was written."""


class Node(Value, frozen=True):
    """One node, with the facts of each GPU by the names in `FACTS`. Unknown facts are omitted.

    `numa` is what determined the NUMA node of the ranks: "GPU", "recipe", or "off" with the reason; None: unknown.
    """

    host: str | None = None
    """Name by which the scheduler knows it."""
    hostname: str | None = None
    """Its own name, which its programs print."""
    rank: int | None = None
    """The first rank on it."""
    kernel: str | None = None
    """Release of the kernel."""
    cpu: str | None = None
    """Model of the CPU."""
    cores: int | None = None
    """Number of CPU cores."""
    numa: str | None = None
    """What determined the NUMA node of the ranks."""
    gpus: tuple[dict[str, Scalar], ...] = ()
    """Facts of each GPU."""


class Damage(Value, frozen=True):
    """What of a log could not be read as it is: lines that are too long, and numbers that cannot be true.

    `examples` has a line for each of the first numbers.
    """

    long_lines: int = 0
    """Number of lines that are too long."""
    numbers: int = 0
    """Number of values that cannot be true."""
    examples: tuple[str, ...] = ()
    """One line for each of the first such values."""


class Evidence(Value, frozen=True):
    """Everything that the checks read. It is the last attempt's; values that are not known are None.

    A check of a plugin (`register_checks`) gets one as its only argument:

        def skipped(evidence):
            if evidence.spec is None or not evidence.printed("grad_norm"):
                return NotPossible(reason="the log does not print the norm of the gradients")
            zeros = [step.number for step in evidence.steps if step.grad_norm == 0]
            return f"step {zeros[0]} has no gradient" if zeros else None
    """

    steps: tuple[Step, ...]
    """The measured steps of the last attempt, in order."""
    events: tuple[Event, ...] = ()
    """Everything else that the log of the last attempt states (docs/values.md, kinds of event)."""
    earlier: tuple[Event, ...] = ()
    """Events of earlier attempts in the same log."""
    before: tuple[Event, ...] = ()
    """Those of `events` before the first line of a step."""
    after: tuple[Event, ...] = ()
    """Events after the first line of the last step."""
    conflicts: tuple[Conflict, ...] = ()
    """Steps that the log has twice with two values: `number`, `field`, `first` and `second` value."""
    arrivals: tuple[Arrival, ...] = ()
    """When the line of a step was read: `number`, `at` (epoch seconds) and `width` (seconds that it may have been there
    before). Empty if the run was not followed.
    """
    spec: RunSpec | None = None
    """What was asked for; None: the log is not that of a run of llmbx."""
    prints: Prints | None = None
    """What the log's format always prints."""
    figures: Figures | None = None
    """What was measured over the window, with the fields and units of `Result`; None if nothing could be."""
    first: int | None = None
    """The framework's number of the first step (0 or 1)."""
    interval: int = 1
    """The number of steps from one line of the log to the next; 1 if it has the line of every step."""
    ended_well: bool = False
    """Whether the process succeeded and the last step was seen; of a log without a run, whether the last step that it
    announces was seen.
    """
    gpus: tuple[str, ...] | None = None
    """Product names of the GPUs that the first rank saw."""
    nodes: tuple[Node, ...] = ()
    """What each node recorded: `host`, `kernel`, `cpu`, `cores`, `numa`, and the facts of each GPU in `gpus`."""
    out_of_order: str | None = None
    """The first two lines of steps that are out of order (`lines 12 and 60`). Of such a log nothing else is checked."""
    configured: dict[str, int] = {}
    """Facts that the framework's final configuration states (`layers`, `sequence_length` …), by name."""
    lasted_s: float | None = None
    """Seconds from the start to the end of the run."""
    started_at: float | None = None
    """Start of the run in epoch seconds."""
    clock_set_s: float = 0.0
    """Seconds by which the wall clock was set between the start and the end."""
    impossible: tuple[str, ...] = ()
    """What plugins answered that cannot be true, and was left out: one line each."""
    damage: Damage = Damage()
    """What could not be read: `long_lines` and `numbers` that cannot be true (counts), with `examples`."""
    run_dir: Path | None = None
    """The run's folder, for the checks of its files; they may write there. None for a log without a run, and for a run
    of another user. Open its files with `RunFolder(path=run_dir)`.
    """

    def printed(self, field: str) -> bool:
        """Whether the line of every step has this field of `Step`."""
        return self.prints is not None and field in self.prints.fields

    @property
    def resumed(self) -> bool:
        """Whether the training continues from a checkpoint."""
        loads = any(event.kind == "checkpoint_loaded" for event in self.events)
        return loads or (self.spec is not None and self.spec.checkpoint.load is not None)


class NotPossible(Value, frozen=True):
    """The answer of a check whose input is missing, with the reason."""

    reason: str
    """Why the check cannot be done, in one line."""


Answer = str | Sequence[Finding] | NotPossible | None
"""What a check found, in one line or as findings (those with `warning=True` are only warnings); why it was not
possible; or None if it passed.
"""


@dataclasses.dataclass(frozen=True)
class Check:
    """One rule about the result of a run."""

    id: str
    """Its name in `result.json`; of a plugin's check with the name of the plugin before it: PLUGIN:ID."""
    reads: str
    """What it looks at."""
    means: str
    """What a finding means."""
    do: str
    """What the user can do about a finding."""
    effect: Effect
    """What a finding does to the run."""
    test: Callable[[Evidence], Answer]
    """The rule. Pure, unless `reads_files`: it reads the evidence only."""
    runs: Literal["own", "all"] = "own"
    """The runs that it is for: those with the plugin as framework or profiler, or all runs."""
    any_order: bool = False
    """Whether it is also made of a log whose steps are out of order: it reads no step."""
    reads_files: bool = False
    """Whether it checks the files in `Evidence.run_dir`. Such a check may take long. It is also done for a run without
    a step, and left out if the folder is not that of the user's own run.
    """
