"""What the samples of a run say: profiles of the ranks, findings and tables."""

from pathlib import Path

import msgspec

from llmbx.api import Column, Finding, RunFile, RunFolder, Section, Table, Value, decode

from .stacks import RankProfile, add_up

FOLDER = "pyspy"
EXPECTED, SUMMARY = f"{FOLDER}/expected.json", f"{FOLDER}/summary.json"
MOST = 10
"""Functions of each rank that are kept."""


class Summary(Value, frozen=True):
    """The file `summary.json`."""

    ranks: tuple[RankProfile, ...] = ()


def summarize(run_dir: Path) -> list[Finding]:
    """Write `summary.json`. A rank without a profile fails the run; else one line names the busiest function."""
    file = RunFolder(path=run_dir).file(EXPECTED)
    expected = decode(file.read(), tuple[int, ...]) if file.is_file() else ()
    profiles = [_profile(run_dir, rank) for rank in expected]
    found = Summary(ranks=tuple(profile for profile in profiles if profile.samples))
    RunFolder(path=run_dir).write(SUMMARY, msgspec.json.encode(found))
    missing = [_missing(run_dir, profile.rank) for profile in profiles if not profile.samples]
    return missing or [_busiest(profile) for profile in found.ranks[:1]]


def sections(run_dir: Path) -> list[Section]:
    """One table for each rank: its busiest functions."""
    file = RunFolder(path=run_dir).file(SUMMARY)
    found = decode(file.read(), Summary) if file.is_file() else Summary()
    tables = tuple(_table(profile) for profile in found.ranks)
    return [Section(name=FOLDER, title="Python functions (py-spy)", tables=tables)] if tables else []


def _profile(run_dir: Path, rank: int) -> RankProfile:
    return add_up(rank, _lines(RunFolder(path=run_dir).file(f"{FOLDER}/rank{rank}.txt")), MOST)


def _lines(file: RunFile) -> list[str]:
    return file.read().decode(errors="replace").splitlines() if file.is_file() else []


def _missing(run_dir: Path, rank: int) -> Finding:
    folder = RunFolder(path=run_dir)
    if folder.file(f"{FOLDER}/rank{rank}.txt").is_file():
        problem = f"rank {rank} was idle whenever py-spy looked: it has no samples"
        return Finding(rule="pyspy", problem=problem, fix="raise --pyspy-rate, or run more steps", warning=True)
    lines = _lines(folder.file(f"{FOLDER}/rank{rank}.log"))
    errors = [line for line in lines if "rror" in line or "not found" in line] or ["it was not started"]
    fix = f"see {FOLDER}/rank{rank}.log; py-spy needs CAP_SYS_PTRACE in a container"
    return Finding(rule="pyspy", problem=f"no profile of rank {rank}: {errors[-1]}", fix=fix)


def _busiest(profile: RankProfile) -> Finding:
    first = profile.functions[0]
    share = first.own / profile.samples
    problem = f"{share:.0%} of the samples of rank {profile.rank} are in {first.name}"
    return Finding(rule="pyspy", problem=problem, fix="see the tables of `llmbx report`", warning=True)


def _table(profile: RankProfile) -> Table:
    columns = (
        Column(title="function"),
        Column(title="own", unit="%", formula="samples in the function / samples of the rank"),
        Column(title="with callees", unit="%", formula="samples with the function in the stack / samples of the rank"),
    )
    of = 100 / profile.samples
    rows = tuple((f.name, round(f.own * of, 1), round(f.total * of, 1)) for f in profile.functions)
    title = f"Rank {profile.rank}: busiest of {profile.samples} samples"
    return Table(title=title, columns=columns, rows=rows)
