"""Check an archive: digests, figures from logs, the same facts in different files, verdicts by the criteria."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from llmbx.api import NOT_JSON, LlmbxError, Result, RunSpec, UsageError, Value
from llmbx.api.verbs import Plugins, Request, Workspace

from ..suite.item import Item, Outcome, Site
from ..suite.kinds.workload import group_of
from ..suite.registry import KINDS, kind
from ..suite.store import Acceptance, name_of
from .container import unpack
from .content import ACCEPTANCE, MANIFEST, RESULT, RUNS, Manifest, digest
from .recompute import RECORD, Remeasured, flat

Finding = tuple[str, str]
"""Where something is wrong in an archive (a file), and what."""


class Verified(Value, frozen=True):
    """What the check of an archive found: nothing, or `problems`. `runs` were measured again, `figures` compared.

    `unchecked` are items whose outcome can be derived from nothing else in the archive.
    """

    acceptance_id: str
    llmbx_version: str
    sha256: str
    files: int
    runs: int
    figures: int
    problems: tuple[Finding, ...]
    unchecked: tuple[str, ...]


def verify(path: Path, workspace: Workspace) -> Verified:
    """Check an archive. Raises `UsageError` for one that llmbx did not write."""
    try:
        return _Check(unpack(path), workspace).verified(digest(path.read_bytes()))
    except RecursionError:
        raise UsageError(f"{path} was refused: a record in it is nested too deeply") from None


class _Check:
    def __init__(self, files: Mapping[str, bytes], workspace: Workspace) -> None:
        self.files = files
        self.workspace = workspace
        self.plugins: Plugins = workspace.plugins
        self.manifest = self._record(MANIFEST, Manifest)
        self.acceptance = self._record(ACCEPTANCE, Acceptance)
        self.figures = 0
        self.unchecked: list[str] = []
        self.results: dict[str, Result] = {}

    def verified(self, sha256: str) -> Verified:
        problems = [*self._digests(), *self._names(), *self._plan()]
        for run_id, folder in self.manifest.runs.items():
            problems += self._run(run_id, folder)
        problems += self._outcomes()
        return Verified(
            acceptance_id=self.acceptance.acceptance_id,
            llmbx_version=self.manifest.llmbx_version,
            sha256=sha256,
            files=len(self.files),
            runs=len(self.manifest.runs),
            figures=self.figures,
            problems=tuple(problems),
            unchecked=tuple(self.unchecked),
        )

    def _record(self, name: str, type_: Any) -> Any:
        try:
            return type_.decoded(self.files[name])
        except KeyError:
            raise UsageError(f"{name} is missing: not an archive of `llmbx accept --archive`") from None
        except NOT_JSON as error:
            raise UsageError(f"{name} is not one that llmbx writes: {error}") from None

    def _digests(self) -> Iterator[Finding]:
        """Files that are not those of the manifest."""
        listed = self.manifest.files
        for name in sorted({*listed, *self.files} - {MANIFEST}):
            if name not in self.files:
                yield name, "is missing"
            elif name not in listed:
                yield name, "is not in the manifest"
            elif digest(self.files[name]) != listed[name]:
                yield name, "is not the archived file: its SHA-256 differs"
        if self.manifest.encoded() != self.files[MANIFEST]:
            yield MANIFEST, "is not written as llmbx writes it"
        if self.acceptance.encoded() != self.files[ACCEPTANCE]:
            yield ACCEPTANCE, "is not written as llmbx writes it"

    def _names(self) -> Iterator[Finding]:
        """Records that name another acceptance, files of no run, and runs that no outcome names."""
        if self.manifest.acceptance_id != self.acceptance.acceptance_id:
            yield MANIFEST, "is of another acceptance"
        if self.manifest.llmbx_version != self.acceptance.llmbx_version:
            yield MANIFEST, "names another version of llmbx than the acceptance"
        named = [run_id for item in self._outcomes_by_key().values() for run_id in item.runs]
        if sorted(named) != sorted(self.manifest.runs):
            yield MANIFEST, "does not have the runs that the outcomes name"
        numbered = {f"{RUNS}/{number:04}" for number in range(1, len(named) + 1)}
        if {*self.manifest.runs.values()} != numbered:
            yield MANIFEST, "does not number its runs as llmbx does"

    def _plan(self) -> Iterator[Finding]:
        """Items that no suite gives, or that are not for this kind of GPUs."""
        accepted = self.acceptance
        for item in accepted.items:
            spec = item.spec
            if item.kind not in KINDS or (spec is None and item.problem is None and item.kind != "doctor"):
                yield ACCEPTANCE, f"{item.key}: not a {item.kind}"
            elif spec is None and item.repeats != 1:
                yield ACCEPTANCE, f"{item.key}: it has {item.repeats} repeats and nothing to run"
            elif spec is not None and item.kind == "doctor":
                yield ACCEPTANCE, f"{item.key}: a {item.kind} runs nothing"
            elif spec is not None and spec.gpu_type != accepted.gpu_type:
                yield (
                    ACCEPTANCE,
                    f"{item.key}: it is for {spec.gpu_type}, the acceptance for {accepted.gpu_type}",
                )
            elif accepted.gpu_type == "cpu" and item.gpus:
                yield ACCEPTANCE, f"{item.key}: it has {item.gpus} GPUs"
            elif spec is not None and item.kind == "workload" and item.gpus not in (0, spec.gpus):
                yield (
                    ACCEPTANCE,
                    f"{item.key}: it has {item.gpus} GPUs, its specification {spec.gpus}",
                )
            if item.nodes != accepted.nodes:
                yield ACCEPTANCE, f"{item.key}: it has other nodes than the acceptance"

    def _run(self, run_id: str, folder: str) -> Iterator[Finding]:
        """What is wrong with a run: figures that its log does not confirm, and records that contradict each other."""
        prefix = f"{folder}/"
        files = {name.removeprefix(prefix): content for name, content in self.files.items() if name.startswith(prefix)}
        try:
            again = Remeasured(files, self.plugins)
        except (LlmbxError, OSError) as error:
            yield folder, f"cannot be measured again: {' '.join(str(error).split())}"
            return
        self.results[run_id] = again.archived
        self.figures += len(flat(again.archived))
        for line in again.differences():
            yield folder, line
        yield from ((folder, line) for line in self._record_problems(run_id, again, files))

    def _record_problems(self, run_id: str, again: Remeasured, files: Mapping[str, bytes]) -> Iterator[str]:
        """What the record of a run says in another way than the plan, the specification of the ranks or the result."""
        record = again.run.record
        if again.archived.run_id != run_id or record.run_id != run_id:
            yield f"{RECORD}: the run is {record.run_id}, in the manifest {run_id}"
        if record.user != self.acceptance.user:
            yield f"{RECORD}: it was started by {record.user}, the acceptance by {self.acceptance.user}"
        if record.encoded() != files[RECORD]:
            yield f"{RECORD}: it is not written as llmbx writes it"
        if not again.sealed:
            yield f"{RESULT}: its digest is not that of its content"
        item = self._item_of(run_id)
        if item is not None and item.spec is not None:
            by_sweep = item.kind == "each-node"  # which starts the runs by its own options, and names their nodes
            added = ("origins", "plugin_settings", "tags") if by_sweep else ()
            yield from (f"{RECORD}: {line}" for line in spec_differences(item.spec, record.spec, added))
            number = self._outcomes_by_key()[item.key].runs.index(run_id) + 1
            site = _site(self.workspace, self.acceptance, {})
            if not by_sweep and record.group != group_of(site, item, number):
                yield f"{RECORD}: it belongs to {record.group}, in the plan to another item"
        for name, content in files.items():
            if name == "spec.json":
                yield from (f"spec.json: {line}" for line in _against_spec(content, record.spec))

    def _item_of(self, run_id: str) -> Item | None:
        outcomes = self._outcomes_by_key()
        return next(
            (item for item in self.acceptance.items if item.key in outcomes and run_id in outcomes[item.key].runs),
            None,
        )

    def _outcomes_by_key(self) -> dict[str, Outcome]:
        """The outcomes that can be read."""
        known: dict[str, Outcome] = {}
        for number, item in enumerate(self.acceptance.items, 1):
            if (content := self.files.get(name_of(number))) is not None:
                try:
                    known[item.key] = Outcome.decoded(content)
                except NOT_JSON:
                    continue
        return known

    def _outcomes(self) -> Iterator[Finding]:
        """Outcomes that the criteria and the archived results do not give."""
        outcomes = self._outcomes_by_key()
        results = {
            key: [self.results[name] for name in archived.runs if name in self.results]
            for key, archived in outcomes.items()
        }
        site = _site(self.workspace, self.acceptance, results)
        for number, item in enumerate(self.acceptance.items, 1):
            archived, name = outcomes.get(item.key), name_of(number)
            if archived is None or archived.key != item.key:
                yield (
                    name,
                    "is not the outcome of its item" if name in self.files else "is missing: what came of its item",
                )
                continue
            if archived.encoded() != self.files[name]:
                yield name, "is not written as llmbx writes it"
            yield from ((name, line) for line in self._underivable(item, archived, results.get(item.key, []), site))

    def _underivable(self, item: Item, archived: Outcome, results: Sequence[Result], site: Site) -> list[str]:
        """What differs from the outcome that the evidence and the results give."""
        try:
            derived = kind(item.kind).derive(item, archived, results, site)
        except (LlmbxError, KeyError, TypeError, ValueError) as error:  # evidence that was edited to another form
            return [f"its evidence cannot be read: {error}"]
        if derived is None:
            self.unchecked.append(item.key)
            return []
        return _different(archived, derived)


def spec_differences(planned: RunSpec, ran: RunSpec, added: Sequence[str] = ()) -> list[str]:
    """The members of a specification that differ from the plan, apart from what is only decided at the start."""
    old, new = flat(planned), flat(ran)
    late = (
        *(("runtime",) if planned.runtime == "auto" else ()),
        "repositories",
        "origins.runtime",
        "profilers",
        *added,
    )
    names = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name) and not _within(name, late)]
    return [f"{name} is {new.get(name)!r}, in the plan {old.get(name)!r}" for name in names]


def _against_spec(content: bytes, spec: RunSpec) -> list[str]:
    """The members that differ from the record, if the ranks read the whole specification from this file."""
    try:
        members = msgspec.json.decode(content)
    except NOT_JSON:
        return ["it is not JSON"]
    if not isinstance(members, dict) or not {*members} >= {*spec.__struct_fields__}:
        return []
    ranks, recorded = flat(members), flat(spec)
    added = ("env", "mounts")  # at the start, for caches
    names = [
        name
        for name in sorted({*ranks, *recorded})
        if ranks.get(name) != recorded.get(name) and not _within(name, added)
    ]
    return [f"{name} is {ranks.get(name)!r}, in {RECORD} {recorded.get(name)!r}" for name in names]


def _within(name: str, members: Sequence[str]) -> bool:
    """Whether a dotted name is one of these members, or below it."""
    return any(name == member or name.startswith(f"{member}.") for member in members)


def _different(archived: Outcome, again: Outcome) -> list[str]:
    old, new = flat(archived), flat(again)
    names = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    return [f"{name} is {old.get(name)!r}, by the results {new.get(name)!r}" for name in names]


def _site(workspace: Workspace, acceptance: Acceptance, results: dict[str, list[Result]]) -> Site:
    return Site(
        workspace=workspace,
        request=Request(workload=""),
        nodes=acceptance.nodes,
        gpu_type=acceptance.gpu_type,
        gpus_per_node=1,
        node_count=1,
        acceptance=acceptance.acceptance_id,
        items=acceptance.items,
        results=results,
    )
