"""Build the table of published figures that ships with llmbx from a folder of collected tables.

Usage: python benchmarks/predict/build_atlas.py FOLDER [TABLE]
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from sources import all_rows

from llmbx_prediction.atlas import table

TABLE = Path(__file__).parents[2] / "plugins" / "prediction" / "llmbx_prediction" / "data" / "atlas.csv.xz"


def main(folder: str, target: str = str(TABLE)) -> None:
    """Write the table and print how many rows each source has."""
    rows = sorted(all_rows(Path(folder)), key=lambda row: (row.source, row.when, row.model, row.gpu_type, row.place))
    table.write(Path(target), rows)
    for source, count in Counter(row.source for row in rows).most_common():
        print(f"{count:5} {source}")
    print(f"{len(rows):5} rows, {Path(target).stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(*sys.argv[1:])
