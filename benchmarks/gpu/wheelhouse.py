"""Makes the wheelhouse that is carried to a GPU machine without a network: python benchmarks/gpu/wheelhouse.py

Needs a Python 3.12 with pip (`--python`), which also builds llmbx's own wheel. Everything lands in build/wheelhouse, in
one folder for each part of wheels.toml; what is there already is not fetched again. Prints the size, and fails when it
is more than a machine may take.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WHEELHOUSE = ROOT / "build" / "wheelhouse"
LIMIT_MIB = 60


def pins() -> dict[str, list[str]]:
    """The pinned wheels of each part."""
    return {part: table["wheels"] for part, table in tomllib.loads((HERE / "wheels.toml").read_text()).items()}


def fetch(python: str) -> None:
    """Fetch or build every wheel; llmbx's own is built anew."""
    for part, wheels in pins().items():
        folder = WHEELHOUSE / part
        folder.mkdir(parents=True, exist_ok=True)
        pip(python, "wheel", "--no-deps", "--wheel-dir", str(folder), *wheels)
    for old in WHEELHOUSE.glob("llmbx/llmbx-*.whl"):
        old.unlink()
    pip(python, "wheel", "--no-deps", "--wheel-dir", str(WHEELHOUSE / "llmbx"), str(ROOT))


def pip(python: str, *arguments: str) -> None:
    """Run pip; its failure is the script's."""
    subprocess.run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments], check=True)


def size_mib() -> float:
    """All wheels together."""
    return sum(file.stat().st_size for file in WHEELHOUSE.glob("*/*.whl")) / 2**20


def main() -> int:
    """Fetch, count, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="a Python 3.12 with pip")
    fetch(parser.parse_args().python)
    size = size_mib()
    print(f"{WHEELHOUSE.relative_to(ROOT)}: {size:.1f} MiB in {len(list(WHEELHOUSE.glob('*/*.whl')))} wheels")
    return int(size > LIMIT_MIB)


if __name__ == "__main__":
    sys.exit(main())
