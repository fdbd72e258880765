"""Replace the marked parts of a page: the text between `<!-- NAME -->` and `<!-- end -->`."""

from __future__ import annotations

from pathlib import Path

PAGES = Path(__file__).parent


def filled(page: str, name: str, text: str) -> str:
    """The page with `text` as its part of this name. Raises `ValueError` if the page has no such part."""
    begin, end = f"<!-- {name} -->", "<!-- end -->"
    start = page.index(begin) + len(begin)
    return f"{page[:start]}\n{text}\n{page[page.index(end, start) :]}"
