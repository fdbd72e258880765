"""The command's first lines: Ctrl-C is quiet from here on, also while modules are still being imported."""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line; see `llmbx.cli.main`."""
    gc.set_threshold(50_000)  # imports make many objects and no garbage: looking for it takes a tenth of the start
    attended = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not so in the background of a shell
    if attended:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from .cli.main import main as run

    try:
        if attended:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
