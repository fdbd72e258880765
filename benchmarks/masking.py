"""Speed of masking secrets in a log beside that of other tools: python benchmarks/masking.py [MEGABYTES [LOG]].

Each is timed on the same log (1,024 MB of the tests' logs, or copies of LOG): `cat`, which only reads and writes; llmbx
with and without two secrets in the environment; GNU sed with one expression for the prefixes of llmbx's tokens, which
finds no private keys, no values beside a name and none in an escape; and detect-secrets, on the first 200 KB, as it is
slow. Printed are MB a second of processor time, and the time as a multiple of sed's. Needs the test extra. The C locale
is sed's fastest.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from llmbx.entry.secret_shapes import DOTTED, TOKENS
from llmbx.record.masking import CHUNK, Masker

LOGS = Path(__file__).parents[1] / "tests/fixtures/logs"
ENVIRON = {"HF_TOKEN": "hf_planted_token_0123", "WANDB_API_KEY": "fa4e0" * 8}
FEW = 200_000


def main(megabytes: int = 1024, log: Path | None = None) -> None:
    """Print the table."""
    samples = [log] if log else sorted(LOGS.glob("**/*.out"))
    text = b"".join(path.read_bytes() for path in samples)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.out")
        with path.open("wb") as file:
            for _ in range(megabytes * 1_000_000 // len(text) + 1):
                file.write(text)
        size = path.stat().st_size
        rates = {
            "cat": size / seconds(lambda: run(["cat", str(path)])),
            "sed": size / seconds(lambda: run(["sed", "-E", f"s/({prefixes()})[A-Za-z0-9_-]{{16,}}/***/g", str(path)])),
            "llmbx": size / seconds(lambda: mask(path, {})),
            "llmbx, 2 variables": size / seconds(lambda: mask(path, ENVIRON)),
            "detect-secrets": FEW / seconds(lambda: detect(text[:FEW].decode(errors="replace"))),
        }
    print(f"{'':<20}{'MB/s':>8}{'time / sed':>12}   {size / 1e6:.0f} MB")
    for name, rate in rates.items():
        print(f"{name:<20}{rate / 1e6:>8.1f}{rates['sed'] / rate:>12.2f}")


def prefixes() -> str:
    return "|".join(re.escape(anchor) for shape in (*TOKENS, *DOTTED) for anchor in shape.anchors if len(anchor) > 2)


def seconds(call: Callable[[], None]) -> float:
    """Processor time of the call and of its child processes: what else runs on the machine does not count."""
    begun = sum(os.times()[:4])
    call()
    return max(0.01, sum(os.times()[:4]) - begun)


def run(command: list[str]) -> None:
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})


def mask(path: Path, environ: dict[str, str]) -> None:
    masker = Masker(environ)
    with path.open("rb") as file:
        for _ in masker.stream(iter(lambda: file.read(CHUNK), b"")):
            pass


def detect(text: str) -> None:
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    plugins = [plugin() for plugin in get_mapping_from_secret_type_to_class().values()]
    for number, line in enumerate(text.splitlines()):
        for plugin in plugins:
            plugin.analyze_line("log.out", line, number)


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:2]), *(Path(word) for word in sys.argv[2:3]))
