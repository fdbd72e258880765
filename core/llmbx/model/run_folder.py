"""Names in a run's folder; those of the logs are fixed by the recipes' output layout.

This is the one place in core that may name tools: scripts of the recipes' users look for these files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .spec import RunSpec

RECORD = "run.json"
"""What was asked for, and what was started."""
SCRIPT = "run.sh"
"""The script that starts the run."""
EXIT = "exit.json"
"""The file that the script writes when it ends (see `launchers.exits`)."""
NODE_SCRIPT = "node.sh"
"""The script that writes the facts of a node to a file (see `launchers.nodes`)."""
GIVEN_UP = "given-up"
"""A file of an abandoned run; a script that finds it exits without starting anything."""
PLANNED = "_TIMESTAMP"
"""End of the name of a run's folder in a script that is written in advance (`--emit-script`). Each start of such a
script makes a folder of its own, with a timestamp instead."""


def log_name(spec: RunSpec) -> str:
    """The main log: what the ranks print."""
    return f"log-{spec.experiment}.out"


def batch_name(spec: RunSpec) -> str:
    """The log of the job's script."""
    return f"sbatch_{spec.experiment}.out"
