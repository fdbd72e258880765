"""The GPUs of this machine as the driver's tool prints them: nvidia-smi, amd-smi or rocm-smi."""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Literal

from ..model import Value

ANSWER_S = 15.0
"""Seconds in which a tool must answer; on large nodes without persistence mode it takes several."""

FIELDS = "name,memory.total,driver_version,mig.mode.current"
NVIDIA = (
    ("nvidia-smi", f"--query-gpu={FIELDS},compute_cap", "--format=csv,noheader,nounits"),
    ("nvidia-smi", f"--query-gpu={FIELDS}", "--format=csv,noheader,nounits"),
)
"""Queries, the second for drivers before 510, which do not know `compute_cap` (huggingface/candle issue 733)."""

DRIVER = Path("/proc/driver/nvidia/version")
"""Exists where NVIDIA's driver is loaded, also in containers without its tools."""

NO_FIELD = "is not a valid field to query"

SLICES = ("nvidia-smi", "-L")
SLICE = re.compile(r"^ {1,9}MIG (\S{1,99}) {1,99}Device", re.MULTILINE)
PRODUCT = re.compile(r"^GPU \d{1,9}: (.{1,300})$", re.MULTILINE)
"""Lines of `nvidia-smi -L`, as in NVIDIA's MIG user guide."""

VGPU = re.compile(r"-\d+[ABCQ](ME)?$")
"""Ends of names of virtual GPUs (`GRID A100D-40C`), as in NVIDIA's vGPU user guide."""

UNIFIED = re.compile(r"\bGB10\b")
"""GPUs that have the memory of the host, for which nvidia-smi prints none (NVIDIA's user guide of the DGX Spark)."""

AMD = (
    (("amd-smi", "static", "--asic"), re.compile(r"MARKET_NAME: {1,99}(\S.{0,300})")),
    (("rocm-smi", "--showproductname", "--csv"), re.compile(r"^card\d+,([^,]+),", re.MULTILINE)),
)
"""Queries and the products in their answers (ROCm/rocm-systems issue 2987; easybuild-framework pull request 3978)."""


class Seen(Value, frozen=True):
    """Equal GPUs of this machine, as its driver's tool prints them; None is not printed."""

    product: str
    """Product name."""
    count: int
    """Number of GPUs, or of slices."""
    memory_mib: int | None = None
    """Memory of each in MiB."""
    compute_capability: str | None = None
    """NVIDIA's compute capability ("9.0")."""
    driver: str | None = None
    """Version of the driver."""
    kind: Literal["whole", "MIG", "vGPU"] = "whole"
    """A whole GPU, a slice of one (MIG), or a virtual one."""
    unified: bool = False
    """Whether the memory is that of the host."""
    amd: bool = False
    """Whether it is a GPU of AMD, on which nothing runs."""

    def __str__(self) -> str:
        """In a few words: `8 x NVIDIA H20, 97871 MiB each, compute capability 9.0`."""
        parts = [f"{self.count} x {self.product}"]
        each = "each" if not self.unified else "that the host shares with it"
        parts += [f"{self.memory_mib} MiB {each}"] if self.memory_mib else []
        parts += [f"compute capability {self.compute_capability}"] if self.compute_capability else []
        parts += [f"driver {self.driver}"] if self.driver else []
        return ", ".join(parts)


def seen() -> tuple[Seen, ...]:
    """The GPUs of this machine; those of NVIDIA, if there are any, else those of AMD."""
    programs = tuple(filter(None, map(shutil.which, ("nvidia-smi", "amd-smi", "rocm-smi"))))
    return _seen(programs)[0]


def driver_problem() -> str | None:
    """Why the GPUs of an installed tool or driver are not listed, in one line; None if they are, or without either."""
    programs = tuple(filter(None, map(shutil.which, ("nvidia-smi", "amd-smi", "rocm-smi"))))
    groups, problem = _seen(programs)
    if not groups and DRIVER.exists() and not shutil.which("nvidia-smi"):
        return "NVIDIA's driver is loaded, but nvidia-smi is not on PATH"
    return problem


@functools.cache
def _seen(programs: tuple[str, ...]) -> tuple[tuple[Seen, ...], str | None]:
    """GPUs and problem. Asked once: a driver that hangs would delay every question."""
    names = {program.rpartition("/")[2] for program in programs}
    problem = None
    if "nvidia-smi" in names:
        lines, problem = _ask(NVIDIA[0])
        if problem and NO_FIELD in problem:
            lines, problem = _ask(NVIDIA[1])
        if groups := _nvidia(lines):
            return groups, None
    for query, pattern in AMD:
        if query[0] in names:
            text, failure = _ask(query)
            problem = problem or failure
            products = Counter(map(str.strip, pattern.findall(text)))
            if products:
                return tuple(Seen(product=name, count=n, amd=True) for name, n in products.items()), None
    return (), problem


def _nvidia(answer: str) -> tuple[Seen, ...]:
    rows = [tuple(part.strip() for part in line.split(",")) for line in answer.splitlines() if line.strip()]
    groups = Counter((*row, *[""] * 5)[:5] for row in rows)
    if any(mig == "Enabled" for *_, mig, _ in groups) and (slices := _slices(groups)):
        return slices
    return tuple(_whole(row, count) for row, count in groups.items())


def _whole(row: tuple[str, ...], count: int) -> Seen:
    product, memory, driver, _, capability = row
    unified = not memory.isdigit() and UNIFIED.search(product) is not None
    return Seen(
        product=product,
        count=count,
        memory_mib=int(memory) if memory.isdigit() else host_mib() if unified else None,
        compute_capability=capability if re.fullmatch(r"\d+\.\d", capability) else None,
        driver=driver or None,
        unified=unified,
        kind="vGPU" if VGPU.search(product) else "whole",
    )


def host_mib() -> int:
    """The memory of this machine in MiB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20


def _slices(groups: Counter[tuple[str, ...]]) -> tuple[Seen, ...]:
    """The MIG slices of the GPUs, and the GPUs that are not sliced."""
    listing, _ = _ask(SLICES)
    facts = {row[0]: row for row in groups}
    counts: Counter[tuple[str, str]] = Counter()
    parts = PRODUCT.split(listing)
    for line, below in zip(parts[1::2], parts[2::2], strict=True):
        product = line.partition(" (UUID: ")[0]
        counts.update((product, name) for name in SLICE.findall(below) or ("",))
    return tuple(
        Seen(
            product=f"{product} MIG {name}" if name else product, count=count,
            kind="MIG" if name else "whole", driver=facts[product][2] or None,
            memory_mib=None if name or not facts[product][1].isdigit() else int(facts[product][1]),
            compute_capability=facts[product][4] or None,
        )
        for (product, name), count in counts.items() if product in facts
    )  # fmt: skip


def _ask(query: tuple[str, ...]) -> tuple[str, str | None]:
    """What the tool prints, or why it does not."""
    import subprocess

    try:
        answer = subprocess.run(
            query, capture_output=True, text=True, errors="replace", timeout=ANSWER_S, check=False
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "", f"{query[0]} does not answer within {ANSWER_S:g} s"
    except OSError as error:
        return "", f"{query[0]} cannot be started: {error.strerror}"
    if answer.returncode:
        lines = [line.strip() for line in (answer.stdout + "\n" + answer.stderr).splitlines() if line.strip()]
        return "", f"{query[0]} failed: {next(iter(lines), f'exit code {answer.returncode}')[:200]}"
    return answer.stdout, None
