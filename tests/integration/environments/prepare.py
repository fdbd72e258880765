"""prepare.py LOCK INSTALL [--offline]: prepare the environment as a command would, with its exit codes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from llmbx.catalog.environments import load_environment
from llmbx.config.plugin_settings import join
from llmbx.errors import LlmbxError
from llmbx.model import ImageRequest
from llmbx_environments.venv.runtime import VenvRuntime
from llmbx_environments.venv.settings import VenvSettings


def main() -> int:
    """Progress goes to stderr, the finished environment's interpreter to stdout."""
    settings = {"venv": join(VenvSettings, None, os.environ, {}).values}
    request = ImageRequest(environment=load_environment(Path(sys.argv[1])), plugin_settings=settings)
    try:
        image = VenvRuntime().prepare(
            request, Path(sys.argv[2]), lambda line: print(line, file=sys.stderr, flush=True), "--offline" in sys.argv
        )
    except LlmbxError as error:
        print(f"llmbx: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    print(image.python)
    return 0


if __name__ == "__main__":
    sys.exit(main())
