"""What no script could carry, refused before a run has a folder: names of variables, mounts, options of Slurm."""

from __future__ import annotations

from ..errors import UsageError
from ..launchers.script import check_variable
from ..launchers.slurm_params import check_params, check_srun
from ..model import RunSpec
from ..runtimes.passage import parse_mount


def check_startable(spec: RunSpec, inside: bool) -> None:
    """Raise `UsageError` for what the user or the cluster profile wrote wrong; `inside` a job its options are old."""
    for name, value in spec.env.items():
        try:
            check_variable(name, value)
        except UsageError as error:
            raise UsageError(f"{spec.origins.get(f'env.{name}', 'env')}: {error}") from None
    for text in spec.mounts:
        parse_mount(text)
    if spec.launcher == "slurm":
        check_srun(spec.srun, f"cluster '{spec.cluster}'")
        if not inside:
            check_params(spec.scheduler, spec.origins)
