"""What counts as the output that a page shows, and the pages whose commands are run."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from . import pages

ROOT = Path(__file__).parents[1]
TUTORIALS = sorted(ROOT.glob("docs/tutorials/*.md"))
GUIDES = sorted(ROOT.glob("docs/how-to/*.md"))


def followed(text: str, folder: Path, ids: tuple[str, ...] = ()) -> list[tuple[int, list[str]]]:
    """Exit code and missing lines of every command of a page."""
    return [(done.code, done.missing(ids)) for done in pages.follow(text, folder, os.environ)]


def console(*lines: str, before: str = "") -> str:
    """A page of one console block."""
    return "\n".join([*before.splitlines(), "```console", *lines, "```", ""])


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("step time  0.259 s ± 0.005", "step time 11.25 s ± 1e-05"),
        ("started 7f3k (grok1_1795457941)", "started abcd (grok1_1)"),
        ("id    gpus", "id          gpus"),
        ("files  ~/runs/…", "files ~/runs/a/b"),
    ],
)
def test_numbers_ids_widths_and_ends_may_differ(shown: str, printed: str) -> None:
    assert pages.same(shown, printed, ids=("abcd",))


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("completed", "failed"),
        ("run 7f3k", "run last"),
        ("loss 6.9 to 4.4", "loss 6.9 to n/a"),
        ("equivalent: 1 %", "inconclusive: 1 %"),
        ("files ~/runs/…", "files /tmp"),
    ],
)
def test_words_may_not(shown: str, printed: str) -> None:
    assert not pages.same(shown, printed)


def test_shown_lines_have_to_appear_in_their_order(tmp_path: Path) -> None:
    assert followed(console("$ printf 'a\\nb\\nc\\n'", "a", "…", "c"), tmp_path) == [(0, [])]
    assert followed(console("$ printf 'a\\nb\\nc\\n'", "c", "a"), tmp_path) == [(0, ["a"])]
    optional = console("$ echo noisy", "stable: yes", "noisy", before="<!-- may differ: stable -->")
    assert followed(optional, tmp_path) == [(0, [])]


def test_a_command_has_to_succeed_unless_the_page_shows_its_exit_code(tmp_path: Path) -> None:
    assert followed(console("$ exit 3"), tmp_path) == [(3, [])]
    assert followed(console("$ exit 3", "$ echo $?", "3"), tmp_path) == [(0, [])]
    assert followed(console("$ exit 5", "$ echo $?", "3"), tmp_path) == [(5, [])]
    assert followed(console("$ true", "$ echo $?", "3"), tmp_path) == [(-1, [])]
    assert followed(console("$ exit 5", "$ echo $?", "3", before="<!-- may exit: 5 -->"), tmp_path) == [(0, [])]
    assert followed(console("$ exit 4", before="<!-- may exit: 4 -->"), tmp_path) == [(0, [])]


def test_files_are_written_and_changed_and_what_is_not_there_is_left_out(tmp_path: Path) -> None:
    change = "--- a/b.txt\n+++ a/b.txt\n@@ -1 +1 @@\n-one\n+two\n"
    page = f"`a/b.txt` in this folder:\n\n```text\none\n```\n\n```diff\n{change}```\n\n"
    page += console("$ cat \\", "  a/b.txt", "two") + console("$ exit 9", before="<!-- needs: gpu -->")
    assert [code for code, _ in followed(page, tmp_path)] == [0, 0]
    assert (tmp_path / "a/b.txt").read_text() == "two\n"


def test_a_page_is_written_anew_with_what_a_command_prints_now(tmp_path: Path) -> None:
    page = console("$ echo run abcd took 5 s", "run 7f3k took 4 s", "$ echo more")
    done = list(pages.follow(page, tmp_path, os.environ))
    assert pages.updated(page, done, ["abcd"]) == console(
        "$ echo run abcd took 5 s", "run 7f3k took 5 s", "$ echo more", "more"
    )


def options(*verb: str) -> set[str]:
    """The options of a command, as its help lists them."""
    text = (ROOT / "docs/commands.md").read_text().split(f"# llmbx {' '.join(verb)}\n")[1].split("\n#")[0]
    return {"--help", *re.findall(r"(?<!\w)--?[a-z][\w-]*", text)}


@pytest.mark.parametrize("page", [*TUTORIALS, *GUIDES, ROOT / "README.md"], ids=lambda page: page.name)
def test_commands_of_pages_exist_with_their_options(page: Path) -> None:
    """Also those that no machine of the tests can run, because they need a GPU or a network."""
    known = set(re.findall(r"^#+ llmbx ([a-z ]+)$", (ROOT / "docs/commands.md").read_text(), re.MULTILINE))
    lines = re.findall(r"^\$ (?:\w+=\S+ )*llmbx (.*)", page.read_text().replace("\\\n", ""), re.MULTILINE)
    for line in lines:
        words = line.split(" # ")[0].split()
        verb = words[: 2 if " ".join(words[:2]) in known else 1]
        assert " ".join(verb) in known, line
        used = {word.partition("=")[0] for word in words if word.startswith("-")}
        assert used <= options(*verb), line


def test_the_commands_of_the_readme_are_those_of_a_tutorial() -> None:
    def commands(page: Path) -> set[str]:
        return {command.text for block in pages.steps(page.read_text()) for command in block.commands()}

    shown = commands(ROOT / "README.md")
    assert shown and shown <= set().union(*map(commands, TUTORIALS))
