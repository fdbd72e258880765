"""What is measured on one GPU: the models. Data only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One run of a row of the recipe `one-gpu`, or of a mini: workload, size, dtype, and `--set` pairs.

    GBS 2 in place of the recipe's 4 halves the time.
    """

    name: str
    plugin: str
    workload: str
    size: str
    dtype: str = "bf16"
    sets: tuple[str, ...] = ()


CASES = (
    Case("mini", "nemo", "llama3.1", "mini"),
    Case("llama3.1-8b", "nemo", "llama3.1", "8b-1gpu", sets=("gbs=2",)),
    Case("llama3.1-8b-again", "nemo", "llama3.1", "8b-1gpu", sets=("gbs=2",)),
    Case("grok1", "nemo", "grok1", "314b-1gpu", sets=("gbs=2",)),
    Case("llama3.1-70b", "nemo", "llama3.1", "70b-1gpu", sets=("gbs=2",)),
    Case("llama4", "nemo", "llama4", "400b-1gpu", sets=("gbs=2",)),
    Case("llama2-70b", "maxtext", "llama2", "70b-1gpu"),
    Case("llama2-70b-fp8", "maxtext", "llama2", "70b-1gpu", dtype="fp8"),
)

LATER = ("llama3.1-70b", "llama4")
"""What is run if there is time."""

REPEATED = ("llama3.1-8b", "llama3.1-8b-again")
"""The two runs of which the difference is shown."""

SHORT = {
    "nemo": Case("nemo", "nemo", "llama3.1", "8b-1gpu", sets=("layers=2", "gbs=1")),
    "maxtext": Case("maxtext", "maxtext", "llama2", "70b-1gpu", sets=("layers=1", "mbs=1", "gbs=1")),
}
"""What is run with and without llmbx: short steps, which show an overhead best."""

PROFILED = {
    "nemo": Case("nemo", "nemo", "llama3.1", "8b-1gpu", sets=("gbs=1",)),
    "maxtext": Case("maxtext", "maxtext", "llama2", "70b-1gpu"),
}


def case(name: str) -> Case:
    """The case of that name."""
    return next(found for found in CASES if found.name == name)
