"""Report how many run folders have been read."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from llmbx.api.verbs import control_code


class Progress:
    """Reports on stderr how many run folders have been read, once that takes more than a second."""

    def __init__(self) -> None:
        self.began = self.printed = time.monotonic()
        self.open = False

    def __enter__(self) -> Progress:
        return self

    def __call__(self, done: int, of: int) -> None:
        now = time.monotonic()
        terminal = sys.stderr.isatty()
        if now - self.began < 1 or now - self.printed < (0.2 if terminal else 5):
            return
        self.printed = now
        text = f"reading runs: {done} of {of} experiments, {now - self.began:.0f} s"
        if terminal:
            control_code(sys.stderr, "\r")
        click.echo(text if terminal else f"llmbx: {text}", err=True, nl=not terminal)
        self.open = terminal

    def __exit__(self, *_: Any) -> None:
        if self.open:
            click.echo(err=True)
