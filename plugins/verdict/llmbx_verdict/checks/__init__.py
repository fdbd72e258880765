"""The checks: is the run what was asked for, and can its figures be true? Pure functions of one `Evidence`.

docs/checks.md is made from them. A check gets the whole evidence and answers with a line, with the reason why it is not
possible, or with nothing. To add one: write the function beside its group, and add a `Check` to the group's `CHECKS`.
"""

from __future__ import annotations

from llmbx.api import Check

from . import begin, change, compute, damage, end, hardware, loss, notices, outside, timing, whole, work

GROUPS: dict[str, tuple[Check, ...]] = {
    "Loss": (*loss.CHECKS, *change.CHECKS),
    "Work": work.CHECKS,
    "Time": (*timing.CHECKS, *outside.CHECKS, *whole.CHECKS),
    "Beginning and end": (*begin.CHECKS, *end.CHECKS),
    "Hardware": hardware.CHECKS,
    "Computation": compute.CHECKS,
    "Log": damage.CHECKS,
    "What the log says": notices.CHECKS,
}
"""Every check, by group, in the order in which they run and in which the first finding becomes the cause."""
