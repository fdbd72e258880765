"""Check the items of an acceptance one after the other; what is known already is not done again."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping

from llmbx.api import InfraError, LlmbxError, Result, Unreachable
from llmbx.api.verbs import Workspace

from .item import Item, Outcome, Site
from .registry import kind
from .store import Acceptance, Store


def drive(acceptance: Acceptance, site: Site, store: Store, again: bool = False) -> dict[str, Outcome]:
    """Check what is missing, with `again` also what did not pass, and return all outcomes.

    Items run one after the other, because trainings that share a network slow each other down. On Ctrl-C
    `KeyboardInterrupt` is raised; the next call goes on.
    """
    with store.folder(acceptance.acceptance_id).driven():
        outcomes = store.outcomes(acceptance)
        if again:
            outcomes = {key: outcome for key, outcome in outcomes.items() if outcome.verdict == "pass"}
        since = time.time() if again else 0.0
        results = results_of(outcomes, site.workspace)
        site = dataclasses.replace(site, items=acceptance.items, outcomes=outcomes, results=results, since=since)
        for number, item in enumerate(acceptance.items, 1):
            if item.key in outcomes:
                continue
            site.say(f"[{number}/{len(acceptance.items)}] {item.key}")
            outcome = _checked(item, site)
            if not (outcome.infrastructure and outcome.verdict == "not checked"):  # the next call tries it again
                store.keep(acceptance, outcome)
            outcomes[item.key] = outcome
            site.say(f"  {outcome.verdict}: {outcome.reason}" if outcome.reason else f"  {outcome.verdict}")
    return outcomes


def _checked(item: Item, site: Site) -> Outcome:
    """The outcome of an item; one that a scheduler refuses does not keep the others from being checked."""
    if item.problem:
        return Outcome.not_checked(item, item.problem)
    try:
        return kind(item.kind).check(item, site)
    except Unreachable:
        raise
    except InfraError as error:
        refused: Outcome = Outcome.not_checked(item, str(error)).replace(infrastructure=True)
        return refused


def results_of(outcomes: Mapping[str, Outcome], workspace: Workspace) -> dict[str, list[Result]]:
    """The results of the runs of each outcome; those of a run that is gone are left out."""
    results: dict[str, list[Result]] = {}
    for key, outcome in outcomes.items():
        for name in outcome.runs:
            try:
                result = workspace.find_run(name).read_result()
            except LlmbxError:
                continue
            if result is not None:
                results.setdefault(key, []).append(result)
    return results
