"""Make mistakes of a developer in the source, one at a time, and see whether the nearest unit tests catch them.

usage: python -m tests.mutants [--only ROOM] [NUMBER...]

`mutants.toml` lists the mistakes. Each is made in a copy of the tree; a mistake is caught if one of its tests fails, or
hangs. Before that, all these tests must pass. The exit code is 0 if at most `MOST_SURVIVORS` mistakes are not caught.
"""

from __future__ import annotations

import argparse
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from llmbx.errors import UsageError
from llmbx.model import Value
from llmbx.toml_file import read_toml

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_suffix(".toml")

MOST_SURVIVORS = 3
"""Mistakes that the tests may miss: of 35, at least 32 are caught."""

HANGS_AFTER_S = 300.0
"""Seconds after which tests that a mistake lets hang are ended; those of one mistake take a twentieth of it."""

_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


class Mutant(Value, frozen=True):
    """One mistake: in the `file`, the text `old`, which occurs there once, becomes `new`.

    `tests` are the nearest unit tests, `harm` is what a user would suffer.
    """

    room: str
    harm: str
    file: str
    tests: tuple[str, ...]
    old: str
    new: str


class Mutants(Value, frozen=True):
    """The content of the list."""

    mutants: tuple[Mutant, ...]


class Outcome(Value, frozen=True):
    """How the tests of a tree ended; `by` is the first test that failed, `output` what pytest printed."""

    passed: bool
    by: str
    output: str
    seconds: float


def main() -> int:
    """Try the chosen mistakes; print a line for each, and a summary."""
    chosen = _choose(read_toml(LIST, Mutants).mutants)
    problems = [problem for number, mutant in chosen.items() if (problem := _problem(mutant, f"mutant {number}"))]
    if problems:
        raise UsageError("\n".join(problems))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="llmbx-mutants-") as folder:
        trees = [Tree(Path(folder) / str(number)) for number in range(min(os.cpu_count() or 1, len(chosen)))]
        _require_passing(trees, list(dict.fromkeys(test for mutant in chosen.values() for test in mutant.tests)))
        survivors = _try_all(trees, chosen)
    caught = len(chosen) - len(survivors)
    rooms = len({mutant.room for mutant in chosen.values()})
    print(f"{caught} of {len(chosen)} mutants in {rooms} rooms caught, in {time.monotonic() - began:.0f} s")
    for number in survivors:
        print(f"not caught: {number} ({chosen[number].room}): {chosen[number].harm}")
    return 0 if len(survivors) <= MOST_SURVIVORS else 1


def _choose(mutants: Sequence[Mutant]) -> dict[int, Mutant]:
    """The mistakes that the command line names, by their numbers; all if it names none. Raises `UsageError`."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--only", metavar="ROOM")
    parser.add_argument("numbers", metavar="NUMBER", nargs="*", type=int)
    options = parser.parse_args()
    chosen = {
        number: mutant
        for number, mutant in enumerate(mutants, start=1)
        if options.only in (None, mutant.room) and (not options.numbers or number in options.numbers)
    }
    if not chosen or not {*options.numbers} <= {*range(1, len(mutants) + 1)}:
        rooms = ", ".join(dict.fromkeys(mutant.room for mutant in mutants))
        raise UsageError(f"no such mutant: expected numbers from 1 to {len(mutants)}, or --only with one of {rooms}")
    return chosen


def _problem(mutant: Mutant, name: str) -> str | None:
    """Why the list is out of date; None if it is not."""
    path = ROOT / mutant.file
    if not path.is_file():
        return f"{name}: {mutant.file} does not exist"
    count = path.read_text(encoding="utf-8").count(mutant.old)
    if count != 1:
        return f"{name}: its old text occurs {count} times in {mutant.file}, expected once"
    missing = [test for test in mutant.tests if not (ROOT / test).exists()]
    return f"{name}: {missing[0]} does not exist" if missing else None


class Tree:
    """A copy of the tree, with a Python of its own that imports the copied source, in every process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "tree"
        self._python = folder / "python" / "bin" / "python"
        self._output = folder / "output.txt"
        _copy_files(self.folder)
        venv.create(folder / "python", symlinks=True)
        places = [self.folder / "core", *sorted((self.folder / "plugins").iterdir())]
        lines = [f"import sys; sys.path[:0] = {[*map(str, places)]}"]
        lines += [f"import site; site.addsitedir({sysconfig.get_path(kind)!r})" for kind in ("purelib", "platlib")]
        (site_packages,) = (folder / "python" / "lib").glob("python*/site-packages")
        (site_packages / "copied_source.pth").write_text("\n".join(lines), encoding="utf-8")

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """The tree with a mistake in it. The file keeps its time, by which Python knows what it has compiled."""
        path = self.folder / mutant.file
        kept = path.with_suffix(".kept")
        text = path.read_text(encoding="utf-8")
        path.rename(kept)
        try:
            path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
            yield
        finally:
            kept.replace(path)

    def test(self, tests: Sequence[str], mutated: bool = True) -> Outcome:
        """Run these tests to the first that fails. Without a mistake, what Python compiles is kept for later calls."""
        command = [str(self._python), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        environ = {**os.environ, "CI": "true", "PYTHONDONTWRITEBYTECODE": "1" if mutated else ""}
        began = time.monotonic()
        with self._output.open("wb") as output:  # not a pipe, which a process that a test leaves behind keeps open
            process = subprocess.Popen(
                command, cwd=self.folder, env=environ, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        hangs = False
        try:
            process.wait(HANGS_AFTER_S if mutated else None)
        except subprocess.TimeoutExpired:
            hangs = True
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        printed = self._output.read_text(encoding="utf-8", errors="replace")
        failed = _FAILED.search(printed)
        by = f"a test that hangs for {HANGS_AFTER_S:g} s" if hangs else failed[1] if failed else "pytest itself"
        return Outcome(process.returncode == 0, by, printed, time.monotonic() - began)


def _copy_files(folder: Path) -> None:
    """Copy the files of the working tree as they are now, without those that git ignores."""
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in names:
        if (ROOT / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target, follow_symlinks=False)


def _require_passing(trees: Sequence[Tree], tests: Sequence[str]) -> None:
    """Run each test once, without a mistake. Raises `UsageError` if one fails."""
    parts = [tests[number :: len(trees)] for number in range(len(trees))]
    with ThreadPoolExecutor(len(trees)) as pool:
        jobs = [pool.submit(tree.test, part, mutated=False) for tree, part in zip(trees, parts, strict=True) if part]
    for outcome in (job.result() for job in jobs):
        if not outcome.passed:
            raise UsageError(f"{outcome.output}\n{outcome.by} fails without any mutant")


def _try_all(trees: Sequence[Tree], mutants: dict[int, Mutant]) -> list[int]:
    """Print a line for each mistake; return the numbers of those that no test caught."""
    free: queue.SimpleQueue[Tree] = queue.SimpleQueue()
    for tree in trees:
        free.put(tree)

    def attempt(mutant: Mutant) -> Outcome:
        tree = free.get()
        try:
            with tree.changed(mutant):
                return tree.test(mutant.tests)
        finally:
            free.put(tree)

    survivors = []
    with ThreadPoolExecutor(len(trees)) as pool:
        for (number, mutant), outcome in zip(mutants.items(), pool.map(attempt, mutants.values()), strict=True):
            how = "NOT CAUGHT" if outcome.passed else f"caught by {outcome.by}"
            print(f"{number:2} {mutant.room:10} {outcome.seconds:5.1f} s  {how}", flush=True)
            survivors += [number] if outcome.passed else []
    return survivors


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UsageError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
