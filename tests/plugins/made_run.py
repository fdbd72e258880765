"""The result of a training that left a made-up log: of a run of llmbx, or of a log that `llmbx parse` reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llmbx.model import FINAL, Job, JobStatus, Result
from llmbx.model.flops import Flops
from llmbx.plugins.manager import Plugins
from llmbx.record import arrivals
from llmbx.record.folder import Run, new_record
from llmbx.run.assess import assess
from llmbx_parse.find import find_logs
from llmbx_parse.rows import Row, parse_logs

from .made_log import Made, final, made, spec_of, text

GPUS = {"b200": "NVIDIA B200", "h100": "NVIDIA H100 80GB HBM3"}
"""Product names by GPU type."""


def clean(format_: str, plugins: Plugins) -> Made:
    """A training at 40 % of the peak."""
    spec = spec_of(format_)
    flops = plugins.framework(spec.plugin).compute_flops(spec)
    assert flops is not None and spec.peak is not None
    work = flops.by(spec.flops_convention) * spec.global_batch_size
    log = made(format_, work / (0.4 * spec.peak.tflops * 1e12 * spec.gpus))
    log.seen = [GPUS[spec.gpu_type]] * 8
    return log


def result(log: Made, plugins: Plugins, folder: Path) -> Result:
    """The result of a run that left this log, and ended with exit code 0."""
    job = Job(launcher="slurm", job_id="1", submitted=0.0)
    record = new_record("run", id="x1", spec=log.spec, command=()).replace(job=job)
    run = Run(folder=str(folder), record=record)
    run.log.write_text(text(log))
    arrivals.note(run, [(number, at, 0.2) for number, at in sorted(log.arrivals.items())])
    if log.seen is not None:
        (folder / "seen.json").write_text(json.dumps({"gpus": [{"name": name} for name in log.seen]}))
    for number, gpus in enumerate(log.nodes):
        facts = log.hosts[number] if log.hosts else {}
        lines = [f"host n{number}", *(f"{name} {value}" for name, value in facts.items())]
        lines += [f"gpu {gpu}" for gpu in gpus]
        (folder / f"node-{number}.txt").write_text("\n".join(lines) + "\n")
    expected = plugins.framework(log.spec.plugin).expect_configuration(log.spec, folder)
    assert expected, "the framework writes its final configuration"
    (folder / FINAL).parent.mkdir(exist_ok=True)
    (folder / FINAL).write_text(json.dumps({"final": final(log, expected)}))
    ended = JobStatus(state="ended", exit_code=log.exit_code, started=1.7e9, ended=1.7e9 + log.lasted)
    with pytest.MonkeyPatch.context() as patch:
        if log.flops is not None:
            wrong = Flops(full=log.flops, causal=log.flops, formula="made/1")
            for module in ("llmbx_nemo.flops", "llmbx_maxtext.flops"):
                patch.setattr(f"{module}.of_run", lambda spec: wrong)
        return assess(run, plugins, ended).result


def row(log: Made, plugins: Plugins, folder: Path) -> Row:
    """What `llmbx parse` says of the log, whose lines have the times at which they were printed."""
    for step in log.steps:
        step.setdefault("at", log.arrivals.get(step["number"], 1.7e9))
    path = folder / "log-x.out"
    path.write_text(text(log))
    format_ = next(candidate for candidate in plugins.log_formats() if candidate.name == "megatron-lm")
    (read,) = parse_logs(find_logs([path]), [format_], plugins, "35-44")
    return read
