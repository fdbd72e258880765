"""What a plan will do, in words: each command with its specification, memory and time. Starts nothing.

Needs llmbx itself: every command line is read and resolved as llmbx would, so that a wrong word is found here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import estimate
from do import shown
from plan import Job, Scale

from llmbx.cli.options import RUN_OPTIONS, build_request
from llmbx.config.profiles import Config
from llmbx.model import RunSpec
from llmbx.model.flops import Flops
from llmbx.plugins.manager import Plugins, load
from llmbx.resolve import resolve
from llmbx.run.context import findings

BUDGET_MIN = 15
"""Minutes that the machine is there."""

OTHER_S = {"machine": 5, "peaks": 15, "nccl": 15}
"""Seconds of the programs that train nothing: assumptions."""

ANALYSIS_S = 20
"""Seconds to read a profile: an assumption."""


def text(stages: Mapping[str, list[Job]], scale: Scale) -> str:
    """Every stage's commands with what they should take, and the sum."""
    plugins, lines, total = load(), [], 0.0
    for stage, planned in stages.items():
        taken, known = 0.0, {}
        lines.append(f"stage {stage}")
        for job in planned:
            known[job.name] = spec = _spec(job, plugins) if job.kind == "llmbx" else known.get(job.of)
            seconds = _seconds(job, spec, plugins, scale)
            taken += seconds
            lines += [f"  {job.name}: about {seconds:.0f} s", f"    {shown(job)}", *_lines(job, spec, plugins)]
        lines.append(f"  in all about {taken / 60:.0f} min")
        total += taken
    room = "within" if total <= 60 * BUDGET_MIN else "more than"
    return "\n".join([*lines, f"all stages: about {total / 60:.0f} min, {room} the {BUDGET_MIN} there are"])


def _spec(job: Job, plugins: Plugins) -> RunSpec:
    """The specification that llmbx makes of the job's command line. Raises what llmbx raises for a wrong one."""
    from llmbx.cli import run
    from llmbx_profiling import profile

    verb, *arguments = job.argv
    command = {"run": run, "profile": profile}[verb].command
    given = command.make_context(verb, arguments).params
    request = build_request({name: given[name] for name in RUN_OPTIONS if name in given} | {"names": given["names"]})
    if verb == "profile":
        names = ("profile_steps", "profile_tool", "profile_ranks")
        request = request.replace(profile=True, **{name: given[name] for name in names})
    return resolve(request, plugins, Config(), {}, {}, "/install")


def _lines(job: Job, spec: RunSpec | None, plugins: Plugins) -> Iterator[str]:
    """The specification in a few words, and every rule that it breaks."""
    if spec is None or job.kind != "llmbx":
        return
    batch = f"MBS {spec.micro_batch_size} GBS {spec.global_batch_size}"
    model = f"{spec.model.layers} layers of {spec.model.hidden_size}, sequence {spec.model.sequence_length}"
    yield f"    recipe {spec.recipe}, {spec.dtype}, {model}, {batch}, {spec.steps} steps"
    needed = estimate.memory(spec).peak / estimate.GIB
    yield f"    {estimate.parameters(spec.model) / 1e9:.2f} billion weights, about {needed:.0f} GiB"
    for finding in findings(spec, plugins.framework(spec.plugin)):
        kind = "note" if finding.warning else "ERROR"
        yield f"    {kind}: {finding.problem}: {finding.fix}"


def _seconds(job: Job, spec: RunSpec | None, plugins: Plugins, scale: Scale) -> float:
    """What the job should take; without a peak (a rehearsal) only its start is known."""
    if spec is None:
        return OTHER_S[job.name]
    start = estimate.START_S[spec.plugin] + (ANALYSIS_S if spec.profile else 0)
    if scale.rehearse or spec.peak is None:
        return start
    flops: Flops = plugins.framework(spec.plugin).compute_flops(spec)
    again = 1.3 if str(spec.settings.get("pgle")) == "jax" else 1
    return again * (start + job.steps * estimate.seconds(spec, flops, spec.peak.tflops))
