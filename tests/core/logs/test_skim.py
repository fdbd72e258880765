"""Most lines of a log are not given to its parser; what it finds is the same."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmbx.errors import PluginError
from llmbx.logs import compiled_noise
from llmbx.logs.compiled_noise import CompiledNoise
from llmbx.logs.lines import Line
from llmbx.logs.noise import Asked, Noise
from llmbx.logs.parser import LogParser, Record
from llmbx.logs.plain import PlainParser
from llmbx.logs.skim import Skimmer
from llmbx.model import Step
from llmbx.run.collect import Log, collect, collect_file


class Torn(LogParser):
    """Reads steps; the number of a torn step is alone on the next line, and the word before a step is its loss."""

    signs = ("step",)

    def __init__(self) -> None:
        self.waits = False
        self.read: list[str] = []
        self._before = ""

    def feed(self, line: Line) -> list[Record]:
        self.read.append(str(line))
        found: list[Record] = []
        if self.waits or "step " in line:
            found.append(Step(number=int("0" + "".join(filter(str.isdigit, line))), loss=float(len(self._before))))
        self.waits = line == "step"
        self._before = str(line)
        return found


LINES = st.lists(
    st.sampled_from(
        ["step 1", "step 22", "step", "7", "noise 12", "noise 13", "x 0x7f00ab", "other", "", "12", "dead beef"]
    )
)


@pytest.fixture(params=["compiled", "python"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks are looked at by each engine; the tests' environment has the compiled one."""
    if request.param == "python":
        monkeypatch.setattr(compiled_noise, "load", lambda: None)
    else:
        assert compiled_noise.load() is not None


SAME = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.usefixtures("engine")
@SAME
@given(st.lists(LINES))
def test_a_parser_finds_the_same_in_the_lines_that_matter(parts: list[list[str]]) -> None:
    skimmed, whole = Torn(), Torn()
    skimmer = Skimmer(skimmed)
    texts = [text for part in parts for text in part if text]
    found, numbers = [], []
    for part in parts:
        for number, line in skimmer.lines("\n".join(part).encode(), None, "log"):
            assert texts[number - 1] == line
            numbers.append(number)
            found += skimmed.feed(line)
    assert found == [record for text in texts for record in whole.feed(Line(text))]
    assert numbers == sorted(set(numbers)) and skimmer.number == len(texts)


@pytest.mark.usefixtures("engine")
def test_noise_is_not_read() -> None:
    parser = Torn()
    skimmer = Skimmer(parser)
    block = b"noise 1\n" * 100 + b"step 5\n" + b"noise 2\n" * 100
    for number, line in skimmer.lines(block, 3.0, "log"):
        parser.feed(line)
        assert (line.arrived, line.source) == (3.0, "log") and number in (100, 101)
    assert parser.read == ["noise 1", "step 5"]


def read(kind: type[LogParser], lines: Sequence[str]) -> tuple[Log, Log]:
    """The log as its file is skimmed, and as all of its lines are read."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "log.out")
        file.write_text("".join(f"{line}\n" for line in lines))
        return collect_file(kind(), file), collect(kind(), [line for line in lines if line])


FAILING = st.lists(
    st.sampled_from([
        "Traceback (most recent call last):", '  File "train.py", line 3, in main', "ValueError: no", "rank 3: step 4",
        "Exception in thread Thread-1:", "Exception ignored in: <module>", "step 5 of 9", "step 6 of 9", "step 7 of 9",
        "[rank1]: Traceback (most recent call last):", "[rank1]: KeyError: 'x'", "noise 1", "noise 2", "", "data 0x7f1",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "Last error:", "socketPollConnect",
        "Root Cause (first observed failure):", "  rank      : 3 (local_rank: 3)", "  exitcode  : 1 (pid: 5)", "=====",
    ])
)  # fmt: skip


@pytest.mark.usefixtures("engine")
@SAME
@given(FAILING)
def test_failures_are_the_same(lines: list[str]) -> None:
    skimmed, whole = read(PlainParser, lines)
    assert (skimmed.steps, skimmed.events, skimmed.later) == (whole.steps, whole.events, whole.later)


def test_signs_that_are_no_texts_are_the_parsers_fault(tmp_path: Path) -> None:
    parser = Torn()
    parser.signs = "step"  # type: ignore[assignment]
    with pytest.raises(PluginError, match=r"parser Torn: signs of its log parser is a str, expected a tuple of texts"):
        collect_file(parser, tmp_path / "log.out")


class Counted(PlainParser):
    """Counts the lines that it gets."""

    number = 0

    def feed(self, line: Line) -> Iterable[Record]:
        self.number += 1
        return super().feed(line)


@pytest.mark.usefixtures("engine")
def test_a_notice_that_each_rank_prints_is_read_some_times_only(tmp_path: Path) -> None:
    notices = [f"{rank}: n{rank // 8}:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]" for rank in range(40_000)]
    (tmp_path / "log.out").write_text("\n".join([*notices, "7: RuntimeError: no kernel", ""]))
    parser = Counted()
    log = collect_file(parser, tmp_path / "log.out")
    assert [event.kind for event in log.events].count("infiniband") == 32
    assert log.failure_of_failed is not None and log.failure_of_failed.rank == 7
    assert parser.number < 2_000


HAS_X = Asked(must_read=lambda bones: b"x" in bones, is_notice=lambda bones: False, most_notices=1)


@given(st.lists(st.binary(max_size=24).map(lambda line: line.replace(b"\n", b"x")), max_size=40), st.integers(0, 3))
def test_both_engines_say_the_same_of_any_bytes(lines: list[bytes], blocks: int) -> None:
    library = compiled_noise.load()
    assert library is not None
    engines = Noise(HAS_X), CompiledNoise(HAS_X, library)
    for _ in range(blocks + 1):
        looks = [engine.look(b"\n".join(lines)) for engine in engines]
        assert looks[0] == looks[1]


@pytest.mark.usefixtures("engine")
def test_more_skeletons_than_are_remembered_are_asked_about_again() -> None:
    """Each line is of a skeleton of its own, in characters that skeletons keep."""
    noise = compiled_noise.noise(Asked(lambda bones: bones.startswith(b"SIGN"), lambda bones: False, 1))
    names = ["".join(chr(ord("g") + int(digit)) for digit in f"{number:06}") for number in range(140_000)]
    for start in range(0, len(names), 1000):
        block = "\n".join(["SIGN", *names[start : start + 1000], "SIGNx"]).encode()
        assert noise.look(block) == (block, [0, 1001], 1002)
