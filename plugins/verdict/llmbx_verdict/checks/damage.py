"""Can the log be read as it is? Lines that are too long, and numbers that cannot be true."""

from __future__ import annotations

from llmbx.api import Answer, Check, Evidence, Finding, listed

from .work import miscounted

NAMED = 3
"""Number of values that are named."""


def long_line(evidence: Evidence) -> Answer:
    """A line is too long."""
    count = evidence.damage.long_lines
    if not count:
        return None
    lines = "1 line of the log is" if count == 1 else f"{count} lines of the log are"
    return f"{lines} longer than 64 KiB and cut there"


def odd_number(evidence: Evidence) -> Answer:
    """A number cannot be true."""
    damage = evidence.damage
    if not damage.numbers:
        return None
    more = damage.numbers - len(damage.examples[:NAMED])
    named = ", ".join(damage.examples[:NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"the log has numbers that cannot be true, which were left out: {named}"


def comma(evidence: Evidence) -> Answer:
    """Numbers are printed with a decimal comma."""
    commas = [event for event in evidence.events if event.kind == COMMA]
    if not commas:
        return None
    names = sorted({str(event.facts.get("name")) for event in commas})
    wrong = not any(name in DECISIVE for event in commas for name in (event.facts.get("field"),))
    text = f"the log has numbers with a decimal comma, which are read without their decimals: {', '.join(names)}"
    return (Finding(rule="decimal-comma", problem=text, fix="set LC_NUMERIC=C in the job", warning=wrong),)


COMMA = "decimal_comma"
"""Kind of the event of a line with such a number: `name` as printed, and `field` of the step."""

DECISIVE = ("time_s", "loss")
"""Fields without which there is no result."""

FIELDS = (
    "time_s", "loss", "grad_norm", "learning_rate", "global_batch_size", "consumed_samples", "tokens",
    "tflops_per_gpu", "tokens_per_s_per_gpu",
)  # fmt: skip
"""Fields of a step that the lines of a format have or do not have, but not sometimes."""

USUAL = 0.9
"""Share of the steps from which on a value belongs to every line."""


def incomplete(evidence: Evidence) -> Answer:
    """A line lacks a value that the others have; its last value may be cut off, too."""
    steps = [step for step in evidence.steps[1:] if not step.skipped]  # the first line may be another one
    for field in FIELDS:
        without = [step.number for step in steps if getattr(step, field) is None]
        if without and len(without) <= (1 - USUAL) * len(steps):
            return f"steps without {field.replace('_', ' ')}, which the others have: {listed(without, NAMED)}"
    if cut := miscounted(evidence):
        more = f" and {len(cut) - 1} more steps" if len(cut) > 1 else ""
        return f"the consumed samples of step {cut[0]}{more} do not fit those of the steps around it"
    return None


CHECKS = (
    Check(
        "line-incomplete", "Which values each step's line has, after the first.",
        "A line lacks a value that the others have: it was cut off or mixed, and its last value may be wrong.",
        "Look at the line; leave the step out with --window if its time is wrong.", "warning", incomplete,
    ),
    Check(
        "decimal-comma", "The numbers of the steps' lines.",
        "They have a decimal comma (4,509), so that a part of them is lost: invalid for times and losses, else a "
        "warning.", "Set LC_NUMERIC=C in the job.", "invalid", comma,
    ),
    Check(
        "long-line", "The length of the log's lines.",
        "A line is longer than 64 KiB; its rest was not read, and its last value is not used.",
        "Look at the line: does a program write without line ends, or two into one file?", "warning", long_line,
    ),
    Check(
        "odd-number", "Every number of the steps and of the facts in the log.",
        "Numbers that cannot be true (a step number over 10^9; a time of 0 or below, over four months, nan or inf; "
        "a value that no float can represent) are null in the records; a step without a number is left out.",
        "Look at the line: was it damaged, or do two programs write into one file?", "warning", odd_number,
    ),
)  # fmt: skip
