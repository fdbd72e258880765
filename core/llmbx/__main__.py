"""The command's first lines: Ctrl-C is quiet from here on, also while modules are still being imported.

SIGTERM and SIGHUP end the command as Ctrl-C does, so that nothing that it started is left behind.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import NoReturn

ENDING = (signal.SIGTERM, signal.SIGHUP)


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
        for number in ENDING:
            if signal.getsignal(number) == signal.SIG_DFL:  # not so under nohup
                signal.signal(number, _terminate)
        run()
    except KeyboardInterrupt:
        sys.exit(130)


def _terminate(number: int, frame: object) -> None:
    """Interrupt the command once: a closed terminal sends SIGHUP twice, and the second must not disturb the end."""
    from .errors import Terminated

    for each in ENDING:
        if signal.getsignal(each) is _terminate:
            signal.signal(each, lambda *_: None)
    raise Terminated(signal.Signals(number).name)


if __name__ == "__main__":
    main()
