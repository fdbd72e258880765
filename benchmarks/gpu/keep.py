"""Files the results of a GPU machine and writes the README's section from them: python benchmarks/gpu/keep.py [OUT …]

OUT is what `run.py --out` left. Its stages go to benchmarks/gpu/results/GPU/DATE/STAGE-TIME; a rehearsal is refused.
Without OUT only the section is written anew, from the newest day's records of each GPU type.
"""

from __future__ import annotations

import functools
import json
import shutil
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cases import CASES, REPEATED, Case
from plan import Scale

if TYPE_CHECKING:
    from llmbx.model import RunSpec

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "gpu" / "results"
BEGIN, END = "<!-- written by benchmarks/gpu/keep.py -->", "<!-- to here -->"
NOTHING = (
    "There is no figure from a GPU yet: nothing here has run on one. `benchmarks/gpu` has\n"
    "the programs for a quarter of an hour with one, rehearsed with minis on a CPU."
)
MEASURED = (
    "Measured without Transformer Engine: models of the recipe `one-gpu` (a few layers at full width), 50 steps,\n"
    "GBS 2 (Llama 2: 4), `python3 benchmarks/gpu/run.py --stage nemo` and `--stage maxtext`. MFU is by the causal\n"
    "formula against the data sheet's peak; the power limit lowers the clock. All records are in\n"
    "`benchmarks/gpu/results`."
)
SXM_FLOPS_PER_MHZ = 132 * 4096 * 1e6 / 1e12
FLOPS_PER_MHZ = {"H100 SXM dense BF16": SXM_FLOPS_PER_MHZ, "H200 SXM dense BF16": SXM_FLOPS_PER_MHZ}
"""Peak in TFLOP/s by MHz of the SM clock: 132 multiprocessors of 4,096 dense BF16 FLOPs a clock. The data sheet's 989
TFLOP/s are those of 1,830 MHz (NVIDIA H100 white paper, table of the SXM5)."""

DATA_SHEETS = {"h100": "989 and 1,979 TFLOP/s, 3.35 TB/s", "h200": "989 and 1,979 TFLOP/s, 4.8 TB/s"}
"""Dense BF16 and FP8, and bandwidth of the memory, by GPU type."""

Record = dict[str, Any]


@dataclass(frozen=True)
class Kept:
    """One job's record, the folder with its files, and the record of its stage."""

    job: Record
    folder: Path
    stage: Record

    @property
    def result(self) -> Record:
        """What llmbx recorded of a completed run; empty for another."""
        file = self.folder / f"{self.job['name']}.result.json"
        found = json.loads(file.read_text()) if file.exists() else {}
        return found if found.get("status") == "completed" else {}


def file_away(out: Path, results: Path) -> list[Path]:
    """Copy each stage in `out` into `results`. Raises `SystemExit` for a rehearsal, or without stages."""
    kept = []
    for path in sorted(out.glob("*/stage.json")):
        record = json.loads(path.read_text())
        if record["rehearsal"]:
            raise SystemExit(f"keep.py: {path} is of a rehearsal: no figure of it is kept")
        day, time = record["date"][:10], record["date"][11:19].replace(":", "")
        target = results / gpu_type(record) / day / f"{record['stage']}-{time}"
        shutil.copytree(path.parent, target, dirs_exist_ok=True)
        kept.append(target)
    if not kept:
        raise SystemExit(f"keep.py: no stage.json in the folders of {out}")
    return kept


def gpu_type(record: Record) -> str:
    """The GPU type that a stage's command names, or the program's default."""
    words = record["command"].split()
    return words[words.index("--gpu-type") + 1] if "--gpu-type" in words else Scale().gpu_type


def newest(results: Path) -> dict[str, dict[str, Kept]]:
    """The jobs of a GPU type that ran on the newest day, by stage and name; of a job that ran twice the later."""
    found: dict[str, dict[str, Kept]] = {}
    day = max((path for path in results.glob("*") if path.is_dir()), default=None)
    for path in sorted(day.glob("*/stage.json"), key=lambda path: path.parent.name[-6:]) if day else []:
        stage = json.loads(path.read_text())
        for job in stage["jobs"]:
            if "skipped" not in job:
                found.setdefault(stage["stage"], {})[job["name"]] = Kept(job, path.parent, stage)
    return found


def section(results: Path) -> str:
    """The README's section: what was measured on each GPU type, or that nothing was."""
    parts = [part for folder in sorted(results.glob("*")) if (part := _gpu(folder))]
    return "\n\n".join([MEASURED, *parts]) if parts else NOTHING


def _gpu(folder: Path) -> str:
    """What was measured on one GPU type; empty without a run of a benchmark."""
    found = newest(folder)
    ran = {name: kept for stage in ("nemo", "nemo-more", "maxtext") for name, kept in found.get(stage, {}).items()}
    bare = _peak(found, "bf16_tflops")
    shown = [case for case in CASES if _shown(case, ran)]
    rows = [_row(case, folder.name, ran[case.name].result, ran[case.name].job, bare) for case in shown]
    if not rows:
        return ""
    head = [
        "| case | s a step (95 %) | TFLOP/s | MFU | SM clock | MFU at that clock | of a bare product | memory |",
        "|---|---|---|---|---|---|---|---|",
    ]
    peaks = _peaks(found, DATA_SHEETS.get(folder.name, "unknown"))
    lines = [*peaks, *_repeated(ran), *_overhead(found), *_profiled(found), *_nccl(found), *_pgle(found)]
    return "\n".join([*_where(found), "", *head, *rows, "", *(f"- {line}" for line in lines)])


def _shown(case: Case, ran: dict[str, Kept]) -> bool:
    return case.size != "mini" and case.name in ran and bool(ran[case.name].result)


def _where(found: dict[str, dict[str, Kept]]) -> Iterator[str]:
    """GPU, driver, date, versions and command."""
    jobs = [kept for stage in found.values() for kept in stage.values()]
    settings = next((k.job["figures"]["settings"] for k in jobs if k.job["name"] == "machine"), None) or {}
    seen = next((kept.job["machine"] for kept in jobs if kept.job.get("machine")), {})
    versions = ", ".join(f"{name} {version}" for name, version in seen.get("versions", {}).items() if name in _NAMED)
    yield (
        f"One {settings.get('name', 'GPU')} (driver {settings.get('driver_version')}, power limit "
        f"{settings.get('power.limit')}), {jobs[0].stage['date'][:10]}, {versions}:"
    )


_NAMED = ("megatron-bridge", "megatron-core", "torch")


def _row(case: Case, gpu: str, result: Record, job: Record, bare: float | None) -> str:
    """One line of the table."""
    tflops, mfu, clock = result["tflops_per_gpu"]["mean"], result["mfu"]["value"], job["clocks"]["clocks.sm"]["median"]
    at_clock = tflops / (FLOPS_PER_MHZ[result["mfu"]["peak_name"]] * clock)
    cells = [
        _title(case, gpu),
        _interval(result, job),
        f"{tflops:.0f}",
        _percent(mfu),
        f"{clock:.0f} MHz",
        _percent(at_clock),
        _percent(tflops / bare if bare else None),
        _memory(result["peak_memory_gb"], estimated_gb(case, gpu)),
    ]
    return f"| {' | '.join(cells)} |"


def _memory(used_gb: float | None, estimate_gb: float) -> str:
    """MaxText's log has no memory of a GPU."""
    return f"{'not printed' if used_gb is None else f'{used_gb:.1f} GB'} (estimate {estimate_gb:.1f} GB)"


def _title(case: Case, gpu: str) -> str:
    layers = resolved(case, gpu).model.layers
    title = f"{case.workload} {case.size} {case.dtype}, {layers} layer{'s' * (layers > 1)}"
    return f"{title}, again" if case.name == REPEATED[1] else title


def _interval(result: Record, job: Record) -> str:
    """The mean of the window's steps and the half-width of its interval."""
    from llmbx_verdict.statistics.intervals import over_steps

    window = slice(result["window"]["first"] - 1, result["window"]["last"])
    interval = over_steps(job["step_seconds"][window])
    assert interval is not None
    return f"{interval.mean:.4f} ± {interval.half_width:.4f}"


def estimated_gb(case: Case, gpu: str) -> float:
    """What estimate.py says of the case's memory on a GPU type, in GB (10^9 bytes)."""
    import estimate

    return estimate.memory(resolved(case, gpu)).peak / 1e9


@functools.cache
def resolved(case: Case, gpu: str) -> RunSpec:
    """What llmbx runs for a case on a GPU type."""
    from llmbx.config.profiles import Config
    from llmbx.config.request import Request
    from llmbx.plugins.manager import load
    from llmbx.resolve import resolve

    settings = dict(pair.split("=") for pair in case.sets)
    request = Request(
        plugin=case.plugin, workload=case.workload, size=case.size, dtype=case.dtype, gpu_type=gpu, gpus=1,
        settings=settings,
    )  # fmt: skip
    return resolve(request, load(), Config(), {}, {})


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _peak(found: dict[str, dict[str, Kept]], name: str) -> float | None:
    kept = found.get("machine", {}).get("peaks")
    spread = kept.job["figures"].get(name) if kept else None
    return spread["median"] if spread else None


def _peaks(found: dict[str, dict[str, Kept]], data_sheet: str) -> Iterator[str]:
    kept = found.get("machine", {}).get("peaks")
    if kept is None:
        return
    figures = kept.job["figures"]
    spreads = [
        f"{title} {_spread(figures[name], digits)} {unit}" for name, title, digits, unit in _PEAKS if figures[name]
    ]
    yield (
        f"Bare products of {figures['size']:,} x {figures['size']:,} and a copy of 8 GiB, median (least to most): "
        f"{'; '.join(spreads)}. Data sheet: {data_sheet}."
    )


_PEAKS = (
    ("bf16_tflops", "BF16", ".0f", "TFLOP/s"),
    ("fp8_tflops", "FP8", ".0f", "TFLOP/s"),
    ("copy_tb_per_s", "copy", ".2f", "TB/s"),
)


def _spread(rates: dict[str, float], digits: str) -> str:
    return f"{rates['median']:{digits}} ({rates['min']:{digits}} to {rates['max']:{digits}})"


def _repeated(ran: dict[str, Kept]) -> Iterator[str]:
    first, second = (ran[name].result if name in ran else {} for name in REPEATED)
    if first and second:
        change = second["step_time_s"]["mean"] / first["step_time_s"]["mean"] - 1
        yield f"The same run twice: {100 * change:+.2f} % step time."


def _overhead(found: dict[str, dict[str, Kept]]) -> Iterator[str]:
    """The change of the step time by llmbx, over pairs of runs."""
    from llmbx_verdict.statistics.intervals import change_of_pairs

    for framework in ("nemo", "maxtext"):
        pairs = paired(found.get(f"pairs-{framework}", {}), framework)
        change = change_of_pairs(pairs, [False] * len(pairs))
        if change is not None:
            yield (
                f"Step time through llmbx against the same program without it, {len(pairs)} pairs in turn of "
                f"{1e3 * statistics.median(bare for bare, _ in pairs):.0f} ms steps ({framework}): "
                f"{100 * change.fraction:+.2f} % (95 %: {100 * change.low:+.2f} to {100 * change.high:+.2f})."
            )


def paired(jobs: dict[str, Kept], framework: str) -> list[tuple[float, float]]:
    """The median step times of each bare run and of the run with llmbx that followed it, in seconds."""
    steps = {name: kept.job.get("median_step_s") for name, kept in jobs.items()}
    names = [(f"{framework}-bare-{n}", f"{framework}-llmbx-{n}") for n in range(1, len(steps))]
    both = [(steps.get(bare), steps.get(ours)) for bare, ours in names]
    return [(bare, ours) for bare, ours in both if bare and ours]


def _profiled(found: dict[str, dict[str, Kept]]) -> Iterator[str]:
    """How much of the profiled steps the GPU's operations fill."""
    for stage in ("profile-nemo", "profile-maxtext"):
        for kept in found.get(stage, {}).values():
            if steps := kept.job.get("profiled_steps"):
                names = ("step_s", "busy_s", "operations_s")
                whole, busy, summed = (sum(step[name] for step in steps) for name in names)
                yield (
                    f"Steps 45-50 under the framework's profiler: the GPU's operations add up to "
                    f"{_percent(summed / whole)} of the steps' time and fill {_percent(busy / whole)} of it."
                )


def _nccl(found: dict[str, dict[str, Kept]]) -> Iterator[str]:
    kept = found.get("nccl", {}).get("nccl")
    if kept is not None:
        reading = (kept.folder / "nccl.reading.txt").read_text().splitlines()
        yield f"`llmbx nccl` of one rank's log (NCCL's own): {reading[0]}."


def _pgle(found: dict[str, dict[str, Kept]]) -> Iterator[str]:
    """Step time of MaxText without PGLE and with it."""
    steps = {name: kept.job.get("median_step_s") for name, kept in found.get("pgle", {}).items()}
    before, after = steps.get("pgle-off"), steps.get("pgle-jax")
    if before and after:
        yield f"PGLE: {before:.3f} s a step without, {after:.3f} with it ({100 * (before / after - 1):+.1f} % speed)."


def write(readme: Path, text: str) -> None:
    """Put `text` between the README's marks."""
    before, _, rest = readme.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    readme.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def main(argv: list[str]) -> int:
    """File what is given, and write the section."""
    for out in argv:
        for kept in file_away(Path(out), RESULTS):
            print(kept.relative_to(ROOT))
    write(ROOT / "README.md", section(RESULTS))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
