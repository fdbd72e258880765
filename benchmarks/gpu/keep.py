"""Files the results of a GPU machine and writes the README's section from them: python benchmarks/gpu/keep.py [OUT]

OUT is what `run.py --out` left. Its stages go to benchmarks/results/gpu/DATE/STAGE; a rehearsal is refused. Without
OUT only the section is written anew. Each stage shows its newest results.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cases import CASES

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "gpu"
BEGIN, END = "<!-- written by benchmarks/gpu/keep.py -->", "<!-- to here -->"
NOTHING = (
    "There is no figure from a GPU yet: nothing here has run on one. [benchmarks/gpu](benchmarks/gpu/README.md) has\n"
    "the programs for an hour with one, rehearsed with minis on a CPU."
)
Record = dict[str, Any]


def file_away(out: Path, results: Path) -> list[Path]:
    """Copy each stage in `out` into `results`, by its date. Raises `SystemExit` for a rehearsal, or without stages."""
    kept = []
    for path in sorted(out.glob("*/stage.json")):
        record = json.loads(path.read_text())
        if record["rehearsal"]:
            raise SystemExit(f"keep.py: {path} is of a rehearsal: no figure of it is kept")
        target = results / record["date"][:10] / record["stage"]
        shutil.copytree(path.parent, target, dirs_exist_ok=True)
        kept.append(target)
    if not kept:
        raise SystemExit(f"keep.py: no stage.json in the folders of {out}")
    return kept


def stages(results: Path) -> dict[str, tuple[Path, Record]]:
    """The newest record of each stage, and its folder."""
    found: dict[str, tuple[Path, Record]] = {}
    for path in results.glob("*/*/stage.json"):
        record = json.loads(path.read_text())
        older = found.get(record["stage"])
        if older is None or older[1]["date"] < record["date"]:
            found[record["stage"]] = (path.parent, record)
    return found


def section(results: Path) -> str:
    """The README's section: what was measured, or that nothing was."""
    found = stages(results)
    rows = [row for stage in ("nemo", "maxtext") if stage in found for row in _rows(*found[stage])]
    if not rows:
        return NOTHING
    head = [
        "| case | s a step | TFLOP/s | peak | MFU, full | MFU, causal | aim | of a bare matrix product |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*_where(found), "", *head, *rows, *_ratios(found), *_pgle(found)])


def _where(found: dict[str, tuple[Path, Record]]) -> Iterator[str]:
    for stage in ("nemo", "maxtext"):
        if stage in found:
            record = found[stage][1]
            seen = next((job["machine"] for job in record["jobs"] if job.get("machine")), {})
            gpu = (seen.get("gpus") or [{}])[0].get("name") or "GPU not told"
            yield f"{gpu}, {record['date'][:10]}: `{record['command']}`  "
    yield "Peaks are dense TFLOP/s from the GPU's data sheet, FLOPs the recipes' formula with full attention."


def _rows(folder: Path, record: Record) -> Iterator[str]:
    """One line for each case that completed; FLOPs counted in full, MFU under both conventions."""
    bare = next((job["figures"].get("tflops") for job in record["jobs"] if job["name"] == "matmul"), None)
    for case in CASES:
        file = folder / f"{case.name}.result.json"
        result = json.loads(file.read_text()) if file.exists() else {}
        if result.get("status") == "completed" and result["step_time_s"]["mean"]:
            yield _row(f"{case.workload} {case.size} {case.dtype}", figures(result), case.target, bare)


def figures(result: Record) -> dict[str, float | None]:
    """Seconds a step, TFLOP/s (full), and MFU under both conventions against the result's own named peak."""
    seconds, samples = result["step_time_s"]["mean"], result["workload"]["global_batch_size"]
    per_gpu = samples / seconds / result["workload"]["gpus"] / 1e12
    full, causal = (result["flops_per_sample"][kind] * per_gpu for kind in ("full", "causal"))
    peak = result["mfu"]["peak_tflops"]
    return {
        "seconds": seconds,
        "tflops": full,
        "peak": peak,
        "full": full / peak if peak else None,
        "causal": causal / peak if peak else None,
    }


def _row(name: str, found: dict[str, float | None], target: float | None, bare: float | None) -> str:
    against = found["tflops"] / bare if bare and found["tflops"] else None
    shares = [_percent(value) for value in (found["full"], found["causal"], target, against)]
    peak = "-" if found["peak"] is None else f"{found['peak']:.0f}"
    return "| " + " | ".join([name, f"{found['seconds']:.3f}", f"{found['tflops']:.0f}", peak, *shares]) + " |"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _ratios(found: dict[str, tuple[Path, Record]]) -> Iterator[str]:
    """Step time with llmbx over that of the same program without, from pairs of runs."""
    for framework in ("nemo", "maxtext"):
        ratios = paired(found[f"pairs-{framework}"][1]) if f"pairs-{framework}" in found else []
        if ratios:
            spread = f"{min(ratios):.4f} to {max(ratios):.4f}"
            yield ""
            middle = statistics.median(ratios)
            yield f"With llmbx over without, {framework}, {len(ratios)} pairs: {middle:.4f} ({spread})."


def paired(record: Record) -> list[float]:
    """For each bare run the step time of the run with llmbx that followed, over its own."""
    steps = {job["name"]: job.get("median_step_s") for job in record["jobs"]}
    framework = record["stage"].removeprefix("pairs-")
    numbers = range(1, len(steps))
    both = [(steps.get(f"{framework}-llmbx-{n}"), steps.get(f"{framework}-bare-{n}")) for n in numbers]
    return [ours / theirs for ours, theirs in both if ours and theirs]


def _pgle(found: dict[str, tuple[Path, Record]]) -> Iterator[str]:
    """Step time of MaxText without PGLE and with it."""
    jobs = found["pgle"][1]["jobs"] if "pgle" in found else []
    steps = {job["name"]: job.get("median_step_s") for job in jobs}
    before, after = steps.get("pgle-off"), steps.get("pgle-jax")
    if before and after:
        yield ""
        yield f"PGLE: {before:.3f} s a step without, {after:.3f} with it ({100 * (before / after - 1):+.1f} % speed)."


def write(readme: Path, text: str) -> None:
    """Put `text` between the README's marks."""
    before, _, rest = readme.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    readme.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def main(argv: list[str]) -> int:
    """File what is given, and write the section."""
    for kept in file_away(Path(argv[0]), RESULTS) if argv else []:
        print(kept.relative_to(ROOT))
    write(ROOT / "README.md", section(RESULTS))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
