"""Images through llmbx against the bare tools: python benchmarks/images.py REFERENCE [apptainer|docker|enroot] [ROUNDS]

Three comparisons, taken in turn so that both sides see the same machine: an import into nothing, both sides as the
command that a user types (aim: at most 5 % more than the tool); a warm `prepare` (aim: at most 50 ms); and the start of
a program in a prepared image, wrapped as a rank is, against the tool's own start. Shown beside them: the same command
once the image is there, which is what every command of llmbx costs, and the first look inside, which a run takes once
for each image. The import needs a registry that has REFERENCE; images are removed again. Figures: docs/images.md.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from llmbx.model import Image, ImageRequest, Launch, ModelShape, Parallelism, Phase, RunSpec
from llmbx.plugins.manager import load
from llmbx.runtimes.base import Runtime
from llmbx_environments.containers.naming import Reference, parse_reference
from llmbx_environments.containers.settings import ContainerSettings

IMPORT_AIM, WARM_AIM_MS = 1.05, 50.0


def bare_import(tool: str, reference: Reference, folder: Path) -> list[str]:
    """What a user would type to get the image."""
    plain = ContainerSettings().plain_http(reference.registry)
    if tool == "docker":
        return ["docker", "pull", "--quiet", reference.docker]
    if tool == "enroot":
        return ["enroot", "import", "--output", f"{folder}/bare.sqsh", f"docker://{reference.enroot}"]
    options = ["--no-https"] if plain else []
    return ["apptainer", "build", "--disable-cache", *options, f"{folder}/bare.sif", f"docker://{reference.docker}"]


def typed_import(tool: str, name: str) -> list[str]:
    """The same with llmbx."""
    return ["llmbx", "image", "prepare", name, "--runtime", tool, "--launcher", "local"]


def bare_start(tool: str, where: str, *program: str) -> list[str]:
    """What a user would type to start `program` in the image: a file, or a reference in Docker's store."""
    if tool == "docker":
        return ["docker", "run", "--rm", "--network", "host", where, *program]
    if tool == "enroot":
        return ["enroot", "start", "--rw", where, *program]
    return ["apptainer", "--quiet", "exec", "--cleanenv", "--writable-tmpfs", where, *program]


def rank(runtime: Runtime, image: Image, folder: Path) -> list[str]:
    """`true` as a rank of a run is started."""
    shape = ModelShape(
        layers=1, hidden_size=1, ffn_hidden_size=1, heads=1, query_groups=1, vocab_size=1, sequence_length=1
    )
    spec = RunSpec(
        plugin="bench", workload="bench", folder="bench", size="mini", dtype="bf16", gpu_type="cpu", gpus=1,
        gpus_per_node=1, recipe="bench", driver="bench", model=shape, parallelism=Parallelism(), micro_batch_size=1,
        global_batch_size=1, gradient_accumulation=1, steps=1, window="auto", runtime=runtime.name, launcher="local",
    )  # fmt: skip
    phase = Phase(role="bench", argv=("true",))
    launch = Launch(nodes=1, ranks_per_node=1, gpus_per_rank=0, phases=(phase,))
    return [*runtime.wrap(spec, launch, phase, image, folder).argv, "true"]


def timed(action: Callable[[], object]) -> float:
    """Milliseconds that `action` takes."""
    begun = time.perf_counter()
    action()
    return 1000 * (time.perf_counter() - begun)


def run(argv: list[str], install: Path | None = None) -> None:
    """Run a command; a failure ends the benchmark with what it said."""
    env = {**os.environ, "LLMB_INSTALL": str(install)} if install else None
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr[-500:]}")


def measure(tool: str, name: str, folder: Path, swapped: bool, times: dict[str, list[float]]) -> None:
    """One round, in the new and empty `folder`."""
    runtime, reference, request = load().runtime(tool), parse_reference(name), ImageRequest(reference=name)
    sides = [("tool import", bare_import(tool, reference, folder)), ("llmbx import", typed_import(tool, name))]
    for side, argv in reversed(sides) if swapped else sides:
        forget(tool, reference)
        os.sync()  # what the last import left to be written is not this one's
        times[side].append(timed(lambda argv=argv: run(argv, folder)))
    if swapped and tool == "docker":  # the bare pull came last: llmbx has yet to take note of the image
        run(typed_import(tool, name), folder)
    times["the same, warm"].append(timed(lambda: run(typed_import(tool, name), folder)))
    image = runtime.prepare(request, folder, lambda line: None)
    times["warm prepare"].append(timed(lambda: runtime.prepare(request, folder, lambda line: None)))
    times["first look"].append(timed(lambda: runtime.look_inside(image, folder)))
    start = bare_start(tool, image.path or image.reference, "true")
    times["tool start"].append(timed(lambda: run(start)))
    times["rank"].append(timed(lambda: run(rank(runtime, image, folder))))


def main() -> int:
    """Print the table; 1 when an aim is missed."""
    name = sys.argv[1]
    tool = sys.argv[2] if len(sys.argv) > 2 else "apptainer"
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    rows = ("tool import", "llmbx import", "the same, warm", "warm prepare", "first look", "tool start", "rank")
    times: dict[str, list[float]] = {key: [] for key in rows}
    with tempfile.TemporaryDirectory(prefix="llmbx-bench-") as top:
        for number in range(rounds):
            folder = Path(top) / str(number)
            folder.mkdir()
            measure(tool, name, folder, number % 2 == 1, times)
            shutil.rmtree(folder)
        forget(tool, parse_reference(name))
    middle = {key: statistics.median(values) for key, values in times.items()}
    print(f"{tool}, {name}, {rounds} rounds, milliseconds")
    for key, values in times.items():
        print(f"{key:<16}{middle[key]:>10.1f}   {min(values):.1f} to {max(values):.1f}")
    ratio = middle["llmbx import"] / middle["tool import"]
    print(f"import {ratio:.3f} of the tool's (aim {IMPORT_AIM})")
    print(f"warm {middle['warm prepare']:.1f} ms (aim {WARM_AIM_MS:.0f})")
    return 0 if ratio <= IMPORT_AIM and middle["warm prepare"] <= WARM_AIM_MS else 1


def forget(tool: str, reference: Reference) -> None:
    """Remove the image from Docker's store, so that the next import begins with nothing."""
    if tool == "docker":
        subprocess.run(["docker", "image", "rm", "--force", reference.docker], capture_output=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
