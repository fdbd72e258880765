"""The pictures of the documentation, made from a real run: python docs/pictures.py [FOLDER]

`run.svg` and `compare.svg` are what the commands print on a terminal of 80 columns, `report.png` and `atlas.png` pages
in a Chromium without a window, down to their first curve. All are made in an empty home, so that they show what a new
user sees.
"""

from __future__ import annotations

import argparse
import html
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

COLUMNS = 80
RUN = "llmbx run --plugin nemo grok1"
REPORT = "llmbx report last --html report.html"
COMPARE = "llmbx compare last~1 last"
ATLAS = "llmbx atlas llama3.1-70b --gpu-type h100 --html atlas.html"
WINDOW = {"width": 1000, "height": 1000}
"""Size of the browser's window in pixels."""

CHARACTER, LINE, SIZE, MARGIN = 8, 18, 13, 16
"""Width of a character, height of a line, size of the font, and the margin, in pixels."""

SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"
 role="img" xml:space="preserve">
<title>{title}</title>
<style>
rect {{ fill: #f6f8fa; stroke: #d0d7de }}
text {{ fill: #1f2328; white-space: pre }}
text {{ font: {size}px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace }}
.command {{ font-weight: bold }}
@media (prefers-color-scheme: dark) {{ rect {{ fill: #0d1117; stroke: #3d444d }} text {{ fill: #e6edf3 }} }}
</style>
<rect x="0.5" y="0.5" width="{inner_width}" height="{inner_height}" rx="6"/>
{lines}
</svg>
"""
"""A picture of a terminal; it uses the reader's fonts and colors, and nothing of another server."""


def recorded(command: str, folder: Path, environ: Mapping[str, str], codes: Sequence[int] = (0,)) -> str:
    """What a command prints on a terminal of 80 columns. Raises CalledProcessError for another exit code."""
    import fcntl
    import termios

    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    env = {**environ, "TERM": "xterm", "COLUMNS": str(COLUMNS)}
    process = subprocess.Popen(shlex.split(command), cwd=folder, env=env, stdin=end, stdout=end, stderr=end)
    os.close(end)
    text = b"".join(_chunks(terminal)).decode()
    os.close(terminal)
    if process.wait() not in codes:
        raise subprocess.CalledProcessError(process.returncode, command, text)
    return text


def _chunks(terminal: int) -> Iterator[bytes]:
    """What arrives on a terminal until its last writer closes it, which Linux reports as an error."""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:
            return
        if not chunk:
            return
        yield chunk


def screen(text: str) -> list[str]:
    """The lines that are left on the terminal: the last state of one that is written again; long ones are wrapped."""
    left = []
    for line in text.replace("\r\n", "\n").rstrip("\n").split("\n"):
        last = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line.rpartition("\r")[2])
        left += [last[k : k + COLUMNS] for k in range(0, len(last), COLUMNS)] or [""]
    return left


def drawing(command: str, lines: Sequence[str]) -> str:
    """A command and its output as an SVG."""
    shown = [f"$ {command}", *lines]
    drawn = []
    for number, line in enumerate(shown):
        if not line.strip():
            continue
        kind = ' class="command"' if number == 0 else ""
        place = f'x="{MARGIN}" y="{MARGIN + LINE * number + SIZE}" textLength="{len(line) * CHARACTER}"'
        drawn.append(f"<text{kind} {place}>{html.escape(line, quote=False)}</text>")
    width, height = COLUMNS * CHARACTER + 2 * MARGIN, len(shown) * LINE + 2 * MARGIN
    return SVG.format(
        width=width, height=height, inner_width=width - 1, inner_height=height - 1, size=SIZE,
        title=html.escape(f"Output of {command}", quote=False), lines="\n".join(drawn),
    )  # fmt: skip


def photograph(page: Path, picture: Path) -> None:
    """A report down to its first curve as a PNG."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport=WINDOW, color_scheme="light")
        tab.goto(page.as_uri())
        curve = tab.locator(".canvas").first.bounding_box()
        assert curve, "a report without a curve"
        end = curve["y"] + curve["height"] + MARGIN
        tab.screenshot(
            path=str(picture), full_page=True, clip={"x": 0, "y": 0, "width": WINDOW["width"], "height": end}
        )
        browser.close()


def make(folder: Path, run: str = RUN) -> None:
    """Write all pictures. `run` is the command whose run they show."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        environ, work = _new_user(Path(home)), Path(home) / "work"
        text = recorded(run, work, environ).replace(home, "~")
        (folder / "run.svg").write_text(drawing(run, screen(text)))
        recorded(REPORT, work, environ)
        photograph(work / "report.html", folder / "report.png")
        recorded(run, work, environ)
        text = recorded(COMPARE, work, environ, codes=(0, 3, 5)).replace(home, "~")
        (folder / "compare.svg").write_text(drawing(COMPARE, screen(text)))
        recorded(ATLAS, work, environ)
        photograph(work / "atlas.html", folder / "atlas.png")


def _new_user(home: Path) -> dict[str, str]:
    """The environment of somebody whose home is empty; environments that the tests built are used again."""
    (home / "work").mkdir()
    install = home / ".local/share/llmbx"
    install.mkdir(parents=True)
    built = os.environ.get("LLMBX_TEST_ROOT")
    if built and (Path(built) / "venvs").is_dir():
        (install / "venvs").symlink_to(Path(built) / "venvs")
    dropped = ("LLMB", "SLURM", "SBATCH", "XDG_", "HF_TOKEN", "GPU_TYPE", "DTYPE", "MODEL_SIZE", "JOB_", "ENABLE_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**kept, "HOME": str(home), "PATH": path, "CUDA_VISIBLE_DEVICES": ""}


def main() -> None:
    """Make the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).with_name("pictures"))
    parser.add_argument("--run", default=RUN, help="command whose run the pictures show")
    arguments = parser.parse_args()
    make(arguments.folder, arguments.run)


if __name__ == "__main__":
    main()
