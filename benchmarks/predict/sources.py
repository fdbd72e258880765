"""Readers of collected tables of published figures: one function for each source, from a folder to rows.

Each reader keeps what the source prints, adds what its pages say in words (parallelism, framework), and marks in
`assumed` the fields that no page prints. The folder is described in docs/prediction.md.
"""

from __future__ import annotations

import csv
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from llmbx.api import UsageError
from llmbx.config.profiles import Config
from llmbx.config.request import Request
from llmbx.plugins.manager import load
from llmbx.resolve import resolve
from llmbx_prediction.atlas import table
from llmbx_prediction.atlas.row import Row
from llmbx_prediction.cost.model import find
from llmbx_prediction.specification import of_spec


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def number(text: str) -> float | None:
    """The number at the start of a cell ("661[^note]", "8.7  5" is 8.75 in its source), or None."""
    found = re.match(r"[\d.,]+", text.replace("  ", "").strip())
    return float(found[0].replace(",", "")) if found else None


def integer(text: str) -> int | None:
    value = number(text)
    return None if value is None else int(value)


def date(release: str) -> float:
    """A release named by year and month (25.09, v25.05.02, 26.04.01) as a date in years."""
    parts = [int(part) for part in re.findall(r"\d+", release)]
    return round(2000 + parts[0] + (parts[1] - 0.5) / 12 + 0.02 * (parts[2] if len(parts) > 2 else 0), 3)


BRIDGE = "Megatron-Bridge performance summary"
BRIDGE_DTYPES = {"BF16": "bf16", "MXFP8": "mxfp8", "NVFP4": "nvfp4", "FP8": "fp8", "FP8-CS": "fp8", "FP8-MX": "mxfp8",
                 "FP8 (per-tensor)": "fp8", "FP8 (block/MX, bracketed)": "mxfp8"}  # fmt: skip

SHARDED = {"Nemotron_3_Ultra"}
"""Models of releases without a column for FSDP whose recipes in Megatron-Bridge 0.6 use it; no other one does."""


REGRESSION = "[^gpt-oss-note]"
"""The footnote of figures with a known regression (NVIDIA/cudnn-frontend issue 256)."""


def bridge(folder: Path) -> Iterator[Row]:
    """Megatron-Bridge's pages of performance, by release."""
    for line in read_csv(folder / "megatron_bridge_performance.csv"):
        name, _, variant = line["model"].partition(" (")
        task = {"Pre-Training": "pretrain", "SFT": "sft", "LoRA": "lora"}[line["task"]]
        gpus, gbs, seq, tokens = int(line["gpus"]), int(line["gbs"]), int(line["seq"]), float(line["tok"])
        yield Row(
            source=BRIDGE, release=line["release"], when=date(line["release"]), place=line["src"].split(":")[-1],
            organization="NVIDIA", stack="megatron-bridge", task=task, model=find(name).name,
            gpu_type=line["system"].removeprefix("DGX-").lower(), gpus=gpus, dtype=BRIDGE_DTYPES[line["precision"]],
            gbs=gbs, mbs=integer(line["mbs"]), seq=seq, tp=integer(line["tp"]), pp=integer(line["pp"]),
            cp=integer(line["cp"]), ep=integer(line["ep"]), vp=integer(line["vp"]), etp=1,
            fsdp=bool(integer(line["fsdp"])) if line["fsdp"] else name in SHARDED,
            token_drop=True if variant == "tokendrop)" else None,
            assumed="" if line["fsdp"] else "fsdp", step_time_s=gbs * seq / gpus / tokens,
            tokens_per_s_per_gpu=tokens, printed_tflops=number(line["tf"]), printed_convention="causal",
            note="known regression" if REGRESSION in line["tf"] else variant.rstrip(")"),
        )  # fmt: skip


CARDS = {
    "deepseek-v3", "deepseek-v4-flash", "gpt-oss-120b", "gpt-oss-20b", "moonlight-16b-a3b", "nemotron-3-nano-30b-a3b",
    "nemotron-3-super-120b-a12b", "nemotron-3.5-lightning", "qwen3-235b-a22b", "qwen3-30b-a3b", "qwen3-8b",
}  # fmt: skip


HALVED_CARDS = {"nemotron-3-super-120b-a12b: items/pretrain_performance/GB200/metrics"}
"""Cards whose tokens/s are those of 4,096 tokens per sample: their TFLOP/s and their command have 8,192."""


def cards(folder: Path) -> Iterator[Row]:
    """Megatron-Bridge's model verification cards: pre-training with figures."""
    for line in read_csv(folder / "megatron_bridge_verification_cards.csv"):
        step, tokens = number(line["last_10_steps_step_time_ms_avg"]), number(
            line["last_10_steps_tokens_per_second_per_gpu_avg"])  # fmt: skip
        parts = line["path"].split("/")
        if not step or not tokens or not parts[1].startswith("pretrain") or line["card"] not in CARDS:
            continue
        command = line["command"]
        sizes = [re.search(rf"--{name} (\d+)", command) for name in ("nodes", "gpus-per-node")]
        if None in sizes:
            continue
        gpus = int(sizes[0][1]) * int(sizes[1][1])  # type: ignore[index]
        halved = f"{line['card']}: {line['path']}" in HALVED_CARDS
        tokens *= 1 + halved
        given = re.search(r"--seq_length (\d+)", command)
        seq = int(given[1]) if given else find(line["card"]).seq
        yield Row(
            source="Megatron-Bridge model verification cards", release="26.08", when=date("26.08"),
            place=f"{line['card']}: {line['path']}", organization="NVIDIA", stack="megatron-bridge",
            model=find(line["card"]).name, gpu_type=parts[2].lower(), gpus=gpus,
            dtype={"bf16": "bf16", "fp8_mx": "mxfp8", "nvfp4": "nvfp4"}[line["precision"]],
            gbs=round(tokens * gpus * step / 1e3 / seq), seq=seq, step_time_s=step / 1e3, tokens_per_s_per_gpu=tokens,
            printed_tflops=number(line["last_10_steps_model_tflops_per_gpu_avg"]), printed_convention="causal",
            note="performance" if "performance" in parts[1] or "scaling" in parts[1] else "functional",
        )  # fmt: skip


LAYOUT = ("mbs", "tp", "pp", "cp", "ep", "etp", "vp", "fsdp")
EXEMPLAR: dict[str, dict[str, Any]] = {
    "llama 3.1 8b": {"model": "llama3.1-8b", "tp": 1, "pp": 1, "cp": 2, "vp": 1},
    "llama 3.1 70b bf16": {"model": "llama3.1-70b", "tp": 4, "pp": 4, "cp": 2, "vp": 5},
    "llama 3.1 70b fp8": {"model": "llama3.1-70b", "tp": 4, "pp": 4, "cp": 2, "vp": 5},
    "llama 3.1 405b": {"model": "llama3.1-405b", "tp": 8, "pp": 9, "cp": 2, "vp": 7},
    "llama3.1 405b": {"model": "llama3.1-405b", "tp": 8, "pp": 8, "cp": 2, "vp": 8},
    "grok": {"model": "grok1", "tp": 4, "pp": 8, "cp": 2, "ep": 8, "etp": 1, "vp": 8},
    "nemo megatron": {"model": "gpt3-175b", "tp": 4, "pp": 8, "vp": 12, "cp": 1},
    "nemotron4 15b": {"model": "nemotron4-15b", "tp": 4, "pp": 1, "mbs": 4, "cp": 1},
    "nemotron4 340b": {"model": "nemotron4-340b", "tp": 8, "pp": 8, "vp": 12, "cp": 1},
    "nemotron 340b": {"model": "nemotron4-340b", "tp": 8, "pp": 8, "vp": 12, "cp": 1},
    "paxml gpt175b": {"model": "gpt3-175b", "fsdp": True, "mbs": 2, "stack": "paxml"},
    "paxml gpt5b": {"model": "gpt3-5b", "fsdp": True, "mbs": 4, "stack": "paxml"},
    "maxtext llama2 70b": {"model": "llama2-70b", "fsdp": True, "mbs": 2, "seq": 4096, "stack": "maxtext"},
    "maxtext llama3 70b": {"model": "llama3.1-70b", "fsdp": True, "mbs": 2, "stack": "maxtext"},
}
"""By the start of the table's title: what the pages say about the configuration."""
PROXY_2504 = {32: (8, 1, 1), 64: (30, 4, 8), 128: (62, 4, 8)}
"""Layers, PP, VP of the parts of Llama 3.1 405B at small scales, from v25.04 (catalog of the NeMo 2 recipe)."""
HALVED = ("grok1", "GB200", 512)
"""Figures whose tokens/s are those of a batch of 512: step time and MFU are those of 1,024."""
GROK_LAYERS = {8: 2, 16: 4, 32: 4, 64: 8, 128: 16, 256: 32}
"""Layers of the parts of Grok-1 at small scales: those with which the printed MFU agrees with its step time."""


def exemplar(folder: Path) -> Iterator[Row]:
    """The tables of the recipes' README files, each in the first release that prints it."""
    seen = set()
    for line in read_csv(folder / "exemplar_readme_tables.csv"):
        title, step, total = line["title"].lower(), number(line["step_s"]), number(line["tokens_s"])
        key = next((k for k in EXEMPLAR if title.startswith(k)), None)
        same = (re.sub(r"\(.*| 24\.\d\d| dev", "", title), line["gpus"], line["step_s"], line["gpu"])
        if key is None or not step or not total or "finetuning" in title or same in seen:
            continue
        seen.add(same)
        yield _exemplar(line, title, key, step, total)


def _exemplar(line: dict[str, str], title: str, key: str, step: float, total: float) -> Row:
    known, gpus, release = dict(EXEMPLAR[key]), int(line["gpus"]), line["first_release"]
    model = find(known.pop("model"))
    seq = int(known.pop("seq", model.seq))
    printed = dict(re.findall(r"(tp|pp|cp|vp|mbs)=(\d+)", title))
    known |= {name: int(value) for name, value in printed.items()} | _parts(line, model.name, gpus, release)
    if line["gpu"] == "GB200":
        known |= {"grok1": {"tp": 4, "pp": 1, "cp": 1, "ep": 8, "etp": 4, "vp": 1},
                  "llama3.1-405b": {"tp": 4, "pp": 8, "cp": 2, "vp": 8}}.get(model.name, {})  # fmt: skip
    stack = known.pop("stack", "nemo2")
    halved = (model.name, line["gpu"], gpus) == HALVED
    total *= 1 + halved
    return Row(
        source="DGX Cloud benchmarking recipes", release=release, when=date(release),
        place=f"{line['file']}:{line['line']}", organization="NVIDIA", stack=stack, model=model.name,
        gpu_type=line["gpu"].lower(), gpus=gpus, dtype="fp8" if "fp8" in title else "bf16",
        gbs=_batch(total * step / seq), seq=seq, step_time_s=step, tokens_per_s_per_gpu=total / gpus,
        note="printed tokens/s are those of half the batch" if halved else "",
        assumed="" if printed else "parallelism", **(dict.fromkeys(LAYOUT[:-1], 1) | known),
    )  # fmt: skip


def _batch(samples: float) -> int:
    """The global batch behind rounded tokens/s and seconds: a power of two, if one is within 1 %."""
    power = 2 ** round(math.log2(samples))
    return power if abs(samples / power - 1) < 0.01 else max(1, round(samples))


def _parts(line: dict[str, str], model: str, gpus: int, release: str) -> dict[str, Any]:
    """Layers and pipeline of a part of a model, which small scales run."""
    if model == "grok1" and gpus in GROK_LAYERS and line["gpu"] == "H100":
        layers = GROK_LAYERS[gpus]
        return {"layers": layers, "pp": 1, "vp": 1, "cp": 1, "ep": 8}
    if model != "llama3.1-405b" or line["gpu"] != "H100":
        return {}
    if line["layers"].isdigit():
        return {"layers": int(line["layers"]), "pp": int(line["pp"]), "vp": integer(line["vp"]) or 1}
    if gpus in PROXY_2504:
        layers, pp, vp = PROXY_2504[gpus]
        return {"layers": layers, "pp": pp, "vp": vp, "cp": 2}
    return {"tp": 8, "pp": 8, "cp": 2, "vp": 8}


def catalog(folder: Path) -> Iterator[Row]:
    """The tables of the recipe of Llama 4 Maverick, which the collected tables lack: the catalog has them as printed,
    and the configuration of each row as the recipe documents it.
    """
    plugins = load()
    workload = plugins.workload("llama4", "nemo")
    for reference in (each for each in workload.references if each.kind == "table"):
        asked = Request(workload="llama4", plugin="nemo", size=reference.size, dtype=reference.dtype,
                        gpu_type=reference.gpu_type, gpus=reference.gpus, recipe=reference.recipe)  # fmt: skip
        spec = resolve(asked, plugins, Config(), {}, {})
        case = of_spec(spec, find("llama4-maverick"), workload)
        assert reference.step_time_s is not None
        yield Row(
            source="DGX Cloud benchmarking recipes", release="v25.05.04", when=date("v25.05.04"),
            place=reference.source, organization="NVIDIA", stack=case.stack, model=case.model.name,
            gpu_type=case.gpu_type, gpus=case.gpus, dtype=case.dtype,
            token_drop=case.token_drop, gbs=reference.global_batch_size or case.gbs, seq=case.seq,
            step_time_s=reference.step_time_s,
            tokens_per_s_per_gpu=case.gbs * case.seq / case.gpus / reference.step_time_s,
            **{name: getattr(case, name) for name in LAYOUT},
        )  # fmt: skip


MLPERF_MODELS = {"llama31_405b": "llama3.1-405b", "llama31_8b": "llama3.1-8b", "llama2_70b_lora": "llama2-70b"}
PRODUCTS = (
    ("GB300", "gb300"), ("GB200", "gb200"), ("B300", "b300"), ("B200", "b200"), ("H200-SXM", "h200"),
    ("H100-SXM", "h100"), ("MI300X", "mi300x"), ("MI325X", "mi325x"), ("MI350X", "mi350x"), ("MI355X", "mi355x"),
)  # fmt: skip


def mlperf(folder: Path) -> Iterator[Row]:
    """MLPerf training: one row for each system and benchmark, with the median of its runs."""
    cells: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
    for line in read_csv(folder / "mlperf_training_llm_runs.csv"):
        if line["bench"] in MLPERF_MODELS and line["status"] == "success":
            cells[tuple(line[k] for k in ("version", "org", "system", "bench", "nodes", "acc", "gbs"))].append(line)
    for (version, org, system, bench, nodes, product, gbs), lines in cells.items():
        gpu = next((name for text, name in PRODUCTS if text in product), None)
        if gpu is None:
            continue
        gpus, seq = int(nodes) * int(lines[0]["acc_per_node"]), 8192
        step = _median(lines, "step_median_s") or _from_rate(lines, int(gbs))
        yield Row(
            source=f"MLPerf training {version}", release=version, when=2025.42 if version == "v5.0" else 2025.86,
            place=f"{org}/{system}/{bench}", organization=org, stack="mlperf", model=MLPERF_MODELS[bench],
            task="lora" if "lora" in bench else "pretrain", gpu_type=gpu, gpus=gpus, gbs=int(gbs), seq=seq,
            step_time_s=step, tokens_per_s_per_gpu=int(gbs) * seq / step / gpus if step else None,
            minutes=_median(lines, "run_minutes"), runs=len(lines),
        )  # fmt: skip


def _median(lines: list[dict[str, str]], column: str) -> float | None:
    values = [float(line[column]) for line in lines if line[column]]
    return statistics.median(values) if values else None


def _from_rate(lines: list[dict[str, str]], gbs: int) -> float | None:
    rate = _median(lines, "thr_median")
    return gbs / rate if rate else None


def foundry(folder: Path) -> Iterator[Row]:
    """llm-foundry's benchmark tables: MPT models on A100 and H100."""
    path = folder / "tables" / "llm-foundry_training_benchmarks.md"
    for place, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 20 or not re.match(r"\d+[mb]$", cells[0]) or cells[3].startswith("a100_40"):
            continue
        seq, gpus, rate = int(cells[1]), int(cells[2]), float(cells[12])
        dtype = "fp8" if "fp8" in cells[14] else "bf16"
        yield Row(
            source="llm-foundry training benchmarks", release="2023-11", when=2023.85, place=f"line {place}",
            organization="MosaicML", stack="llm-foundry", model=f"mpt-{cells[0]}", gpu_type=cells[3].split("_")[0],
            gpus=gpus, dtype=dtype, gbs=int(cells[9]), mbs=int(cells[7]), seq=seq, tp=1, pp=1, cp=1, ep=1,
            fsdp=cells[16] == "FULL_SHARD", recompute="full" if cells[17] == "True" else "none",
            step_time_s=int(cells[9]) * seq / rate / gpus, tokens_per_s_per_gpu=rate, printed_tflops=float(cells[6]),
            printed_convention="full",
        )  # fmt: skip


TITAN = "torchtitan benchmarks"
TITAN_ROWS = (
    # model, gpu, gpus, dtype, mbs, gbs, seq, tp, pp, cp, recompute, tokens/s/GPU, GiB, when, place
    ("8b", "h100", 8, "bf16", 2, 16, 8192, 1, 1, 1, "selective", 6667, 77.0, 2024.98, "table 1"),
    ("8b", "h100", 8, "fp8", 2, 16, 8192, 1, 1, 1, "selective", 8532, 76.8, 2024.98, "table 1"),
    ("8b", "h100", 128, "bf16", 2, 256, 8192, 1, 1, 1, "selective", 6514, 62.0, 2024.98, "table 3"),
    ("8b", "h100", 128, "fp8", 2, 256, 8192, 1, 1, 1, "selective", 8380, 61.8, 2024.98, "table 3"),
    ("8b", "h100", 8, "fp8", 1, 8, 32768, 1, 1, 1, "full", 3890, 83.9, 2024.98, "table 2"),
    ("8b", "h100", 8, "fp8", 1, 4, 65536, 1, 1, 2, "full", 2540, 84.2, 2024.98, "table 2"),
    ("8b", "h100", 8, "fp8", 1, 2, 131072, 1, 1, 4, "full", 1071, 84.0, 2024.98, "table 2"),
    ("8b", "h100", 8, "fp8", 1, 1, 262144, 1, 1, 8, "full", 548, 84.5, 2024.98, "table 2"),
    ("70b", "h100", 256, "fp8", 16, 512, 8192, 8, 1, 1, "full", 876, 67.6, 2024.98, "table 4, async TP"),
    ("405b", "h100", 512, "fp8", 32, 256, 8192, 8, 8, 1, "full", 128, 72.7, 2024.98, "table 5, interleaved"),
    ("70b", "h100", 256, "bf16", 16, 512, 8192, 8, 1, 1, "full", 652.4, None, 2025.45, "async TP"),
    ("70b", "h100", 256, "fp8", 16, 512, 8192, 8, 1, 1, "full", 942.4, None, 2025.45, "async TP, tensorwise"),
    ("8b", "h100", 64, "bf16", 12, 96, 8192, 8, 1, 1, "selective", 4809.4, None, 2025.45, "async TP"),
    ("8b", "h100", 64, "fp8", 12, 96, 8192, 8, 1, 1, "selective", 5570.1, None, 2025.45, "async TP, tensorwise"),
    ("8b", "h200", 32, "fp8", 2, 64, 8192, 1, 1, 1, "selective", 10938, 47.96, 2025.45, "Trainy"),
    ("8b", "h200", 64, "fp8", 2, 128, 8192, 1, 1, 1, "selective", 10753, 46.97, 2025.45, "Trainy"),
)


def titan(folder: Path) -> Iterator[Row]:
    """torchtitan's pages of December 2024 and June 2025, whose tables are short: torch.compile, FSDP."""
    for model, gpu, gpus, dtype, mbs, gbs, seq, tp, pp, cp, again, rate, memory, when, place in TITAN_ROWS:
        yield Row(
            source=TITAN, release=f"{int(when)}-{round(when % 1 * 12 + 0.5):02d}", when=when, place=place,
            organization="Trainy" if place == "Trainy" else "torchtitan", stack="torchtitan", model=f"llama3.1-{model}",
            gpu_type=gpu, gpus=gpus, dtype=dtype, gbs=gbs, mbs=mbs, seq=seq, tp=tp, pp=pp, cp=cp, ep=1, fsdp=True,
            vp=2 if pp > 1 else 1, recompute=again, step_time_s=gbs * seq / gpus / rate,
            tokens_per_s_per_gpu=float(rate), memory_gb=None if memory is None else round(memory * 1.073741824, 2),
        )  # fmt: skip


PUBLISHED = Path(__file__).parent / "published.csv"
"""Figures of pages that have few, each read in its source."""


def published(folder: Path) -> Iterator[Row]:
    """The figures of `PUBLISHED`, whose columns are those of the atlas."""
    yield from table.read(PUBLISHED)


READERS: tuple[Callable[[Path], Iterator[Row]], ...] = (
    bridge,
    cards,
    exemplar,
    catalog,
    mlperf,
    foundry,
    titan,
    published,
)


def with_layouts(rows: list[Row]) -> list[Row]:
    """The rows, with the layout of verification cards from the newest page with the same model, GPUs and dtype.

    Both run the recipe for this GPU type and number, which the cards name without printing its layout.
    """
    pages = {_cell(row): row for row in sorted(rows, key=lambda row: row.when) if row.source == BRIDGE}
    return [
        row.replace(assumed="parallelism", **{name: getattr(pages[_cell(row)], name) for name in LAYOUT})
        if row.tp is None and row.note == "performance" and _cell(row) in pages
        else row
        for row in rows
    ]


def _cell(row: Row) -> tuple[object, ...]:
    return row.model, row.gpu_type, row.gpus, row.dtype, row.seq, row.task


def all_rows(folder: Path) -> list[Row]:
    """The rows of every source. Raises `UsageError` if the folder has not all of them."""
    try:
        return with_layouts([row for reader in READERS for row in reader(folder)])
    except FileNotFoundError as error:
        raise UsageError(f"{folder}: {Path(error.filename).name} is missing") from error
