"""A refusal names options that work: each is followed, until the run can start."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from llmbx.config.profiles import Config
from llmbx.config.request import Request
from llmbx.errors import UsageError
from llmbx.model import Workload
from llmbx.plugins.manager import load
from llmbx.resolve import resolve
from llmbx.run.context import findings

OPTION = re.compile(r"(?:use|add) --(gpus|dtype|gpu-type)(?: N)? \(?([\w.-]+)")
TYPES = ("a100", "h200", "l4", "mi300x")
DTYPES = (None, "nvfp4")
SCALES = (None, 3, 100)

WORKLOADS = [one for one in load().workloads if one.plugin in ("nemo", "maxtext") and {*one.sizes} != {"mini"}]


def refusal(**options: Any) -> str | None:
    """Why a run with these options is refused; None if it can start."""
    plugins = load()
    try:
        spec = resolve(Request(launcher="slurm", **options), plugins, Config(), {}, {}, "/install")
    except UsageError as error:
        return str(error)
    broken = (one for one in findings(spec, plugins.framework(spec.plugin)) if not one.warning)
    return next((f"{one.problem}: {one.fix}" for one in broken), None)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_the_options_that_refusals_name_lead_to_a_run(workload: Workload) -> None:
    sizes = [size for size in workload.sizes if size != "mini"]
    followed = 0
    for size, gpu_type, dtype, gpus in itertools.product(sizes, TYPES, DTYPES, SCALES):
        options: dict[str, Any] = {"workload": workload.name, "size": size, "gpu_type": gpu_type}
        options |= {name: value for name, value in (("dtype", dtype), ("gpus", gpus)) if value}
        said = []
        while (problem := refusal(**options)) is not None:
            said.append(problem)
            named = OPTION.search(problem)
            assert named and len(said) < 5, said
            value = named[2]
            options[named[1].replace("-", "_")] = int(value) if named[1] == "gpus" else value
        followed += len(said)
    assert followed > 0
