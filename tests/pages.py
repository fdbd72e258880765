"""Pages whose commands a test runs in order, as a reader would from top to bottom, and whose output it compares.

What a test does with the blocks of a page:

- `console`: it runs the lines that begin with `$ ` (a backslash at the end continues a line). The other lines are shown
  output: each has to appear, in this order. Numbers, ids of runs and the width of columns may differ; `…` stands for
  any lines, and for the rest of a line. A command has to succeed, unless `$ echo $?` follows it.
- after a line that begins with the name of a file, in backquotes: it writes the file. `diff`: it applies the change.

Comments right before a block: `<!-- needs: gpu -->` (the test lacks it and leaves the block out), `<!-- may differ:
WORDS, … -->` (a shown line that begins with these words need not appear), `<!-- may exit: CODE -->` (a command of the
block may also exit with this code).
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FENCE = re.compile(
    r"(?P<before>(?:^<!-- [\w ]+: [^\n]* -->\n)*)(?:^`(?P<file>[\w./-]+)`[^\n]*\n\n)?"
    r"^```(?P<kind>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
COMMENT = re.compile(r"^<!-- ([\w ]+): (.*) -->$", re.MULTILINE)
ID = re.compile(r"\b(?=[a-z]*\d)(?=\d*[a-z])[0-9a-z]{4,8}\b")
"""A short id of a run that has a digit."""
NUMBER = re.compile(r"[-+]?\d[\d,.:]*(e[-+]\d+)?")
SHOWN_IDS = ("7f3k", "q2mx", "b81t", "k5wd", "n0ra", "x6ph", "c9vy", "j3ez", "w4ls", "t7go")
"""Ids that pages show for the first run, the second one …"""


@dataclass(frozen=True)
class Command:
    """One command with the output that the page shows for it."""

    text: str
    shown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Block:
    """Commands, a file to write or a change to apply, with the comments before it."""

    kind: str
    text: str
    file: str | None = None
    comments: Mapping[str, str] = field(default_factory=dict)

    def words(self, name: str) -> tuple[str, ...]:
        """The values of a comment."""
        return tuple(word.strip() for word in self.comments.get(name, "").split(",") if word.strip())

    def commands(self) -> list[Command]:
        """The commands of a console block; other blocks have none."""
        if self.kind != "console":
            return []
        found: list[Command] = []
        going_on = False
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append(Command(line[2:]))
            elif going_on:
                found[-1] = Command(f"{found[-1].text}\n{line}")
            else:
                found[-1] = Command(found[-1].text, (*found[-1].shown, line))
            going_on = (line.startswith("$ ") or going_on) and line.endswith("\\")
        return found


@dataclass(frozen=True)
class Done:
    """What a command printed, and its exit code; `block` says what may differ."""

    command: Command
    block: Block
    output: str
    code: int

    def missing(self, ids: Sequence[str] = ()) -> list[str]:
        """The shown lines that do not appear in the output."""
        optional = self.block.words("may differ")
        return [
            shown
            for shown, real in aligned(self.command.shown, self.output, ids)
            if real is None and shown != "…" and not shown.lstrip().startswith(optional or "\0")
        ]


def blocks(text: str) -> list[Block]:
    """The blocks of a page that a test uses."""
    found = []
    for match in FENCE.finditer(text):
        comments = dict(COMMENT.findall(match["before"]))
        if match["kind"] in ("console", "diff") or match["file"]:
            found.append(Block(match["kind"], match["text"], match["file"], comments))
    return found


def steps(text: str, has: Sequence[str] = ()) -> list[Block]:
    """The blocks that can be used where only `has` is there of what blocks need."""
    return [block for block in blocks(text) if set(block.words("needs")) <= set(has)]


def follow(
    text: str, folder: Path, environ: Mapping[str, str], places: Mapping[str, str] = {}, has: Sequence[str] = ()
) -> Iterator[Done]:
    """Use the blocks of a page in `folder`, one after the other; yields every command that was run.

    `places` are folders in the output, and what pages show for them.
    """
    for block in steps(text, has):
        if block.file:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif block.kind == "diff":
            done = _call(["git", "apply", "-p0", "-"], folder, environ, block.text)
            yield Done(Command("git apply -p0"), block, done.stdout, done.returncode)
        else:
            yield from _commands(block, folder, environ, places)


def _commands(block: Block, folder: Path, environ: Mapping[str, str], places: Mapping[str, str]) -> Iterator[Done]:
    """Run the commands of a block; the code before `echo $?` is compared by that line, and counts as 0."""
    commands = block.commands()
    for number, command in enumerate(commands):
        if command.text == "echo $?":
            continue
        done = _call(["bash", "-c", command.text], folder, environ)
        asked = number + 1 < len(commands) and commands[number + 1].text == "echo $?"
        wanted = {*(commands[number + 1].shown if asked else ("0",)), *block.words("may exit")}
        output = done.stdout
        for real, shown in places.items():
            output = output.replace(real, shown)
        yield Done(command, block, output, 0 if str(done.returncode) in wanted else done.returncode or -1)


def _call(
    command: Sequence[str], folder: Path, environ: Mapping[str, str], text: str | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=dict(environ), input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False,
    )  # fmt: skip


def aligned(shown: Sequence[str], output: str, ids: Sequence[str] = ()) -> list[tuple[str, str | None]]:
    """Each shown line with the line of the output that it stands for, or None."""
    lines = output.splitlines()
    pairs: list[tuple[str, str | None]] = []
    place = 0
    for line in shown:
        found = next((k for k in range(place, len(lines)) if line != "…" and same(line, lines[k], ids)), None)
        pairs.append((line, None if found is None else lines[found]))
        place = place if found is None else found + 1
    return pairs


def same(shown: str, real: str, ids: Sequence[str] = ()) -> bool:
    """Whether a line differs from the shown one in numbers, ids and spaces only."""
    plain = normal(real, ids)
    wanted = normal(shown.removesuffix("…"))
    return plain.startswith(wanted) if shown.endswith("…") else plain == wanted


def normal(line: str, ids: Sequence[str] = ()) -> str:
    """A line without what differs from run to run."""
    for one in ids:
        line = re.sub(rf"\b{one}\b", "#", line)
    return " ".join(NUMBER.sub("#", ID.sub("#", line)).split())


def updated(text: str, done: Sequence[Done], ids: Sequence[str]) -> str:
    """The page with this output in place of the shown lines; a command without any gets its whole output."""
    for one in done:
        old = "\n".join((f"$ {one.command.text}", *one.command.shown))
        lines = [
            shown if real is None or shown.endswith("…") else real
            for shown, real in aligned(one.command.shown, one.output, ids)
        ]
        output = "\n".join(lines or one.output.splitlines())
        for real, shown in zip(ids, SHOWN_IDS, strict=False):
            output = re.sub(rf"\b{real}\b", shown, output)
        new = f"$ {one.command.text}\n{output}".rstrip()
        text = text.replace(f"{old}\n", f"{new}\n", 1)
    return text
