"""Read one file for each rank of a trace, and the same lines in one file, and print memory and CPU time.

python benchmarks/nccl/files.py FOLDER --ranks 64 512 2048
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
from pathlib import Path

import compare
import generate


def write(folder: Path, count: int, steps: int = 4, layers: int = 24) -> Path:
    """Write the file of each rank, as `--trace-file-per-rank` does."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    chance = random.Random(1)
    for rank in generate.make_ranks(chance, count, 8, 4, 2):
        host, pid, _ = rank.header.split(":")
        with (folder / f"nccl.{host}.{pid}.log").open("w") as out:
            out.write(generate.FIRST_LINE)
            out.writelines(generate.start_lines([rank], "IB"))
            for step in range(steps):
                out.writelines(list(generate.step_lines([rank], chance, step, layers))[:-1])
    return folder


def joined(folder: Path) -> Path:
    """Write the lines of all files of a folder to one file."""
    path = folder.with_suffix(".log")
    with path.open("wb") as out:
        for file in sorted(folder.iterdir()):
            out.write(file.read_bytes())
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 512, 2048])
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print(f"{'ranks':>6} {'':9} {'peak MB':>8} {'CPU s':>6} {'calls':>10}")
    for count in options.ranks:
        files = write(options.folder / f"files{count}", count)
        for name, path in (("files", files), ("one file", joined(files))):
            command = [sys.executable, "-c", compare.COMMAND, str(path), "--format", "json"]
            runs = [compare.run(command) for _ in range(options.repeat)]
            peak, cpu = max(run.megabytes for run in runs), min(run.cpu for run in runs)
            print(f"{count:6,} {name:9} {peak:8.0f} {cpu:6.2f} {compare.counted(runs[0]):10,}")


if __name__ == "__main__":
    main()
