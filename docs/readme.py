"""The README's table of what is proven where, from docs/proven.md."""

from __future__ import annotations

import re
from collections.abc import Iterator

from marks import PAGES, filled

COLUMNS = ("equals upstream", "minis train", "ran on a GPU")


def readme() -> str:
    """The README with the table between its marks."""
    proven = (PAGES / "proven.md").read_text()
    return filled((PAGES.parent / "README.md").read_text(), "written by docs/generate.py", table(proven))


def table(proven: str) -> str:
    """A row for each recipe: in how many of its rows each column has a yes."""
    return "\n".join(_lines(proven))


def _lines(proven: str) -> Iterator[str]:
    yield "| recipe | checked with | configuration equals upstream's | minis train on that version | ran on a GPU |"
    yield "|---|---|---|---|---|"
    for section in proven.split("\n## ")[1:]:
        title = section.partition("\n")[0]
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"
        ]
        head, *body = [row for row in rows if set("".join(row)) != {"-"}]
        if head[-1] != COLUMNS[-1]:
            continue
        version = re.search(r"^(?:Image `.*`|No image): (.*?)\.(?: |$)", section, re.MULTILINE)
        yes = [sum(row[head.index(name)].startswith("yes") for row in body) for name in COLUMNS]
        counts = [f"{count} of {len(body)}" for count in yes]
        yield f"| {' | '.join([title, version[1] if version else '', *counts])} |"
