"""Checks of plugins: their names, and their faults, which never end the check of a run."""

from __future__ import annotations

import dataclasses
from typing import get_args

from ..checks.base import OWN_CHECK, Answer, Check, Effect, Evidence, NotPossible
from ..errors import LlmbxError, PluginError
from .calls import Call
from .hangs import limit_s
from .validation import describe_type


def wrap_check(plugin: str, check: Check) -> Check:
    """The check under the plugin's name; if its test raises, hangs or answers nonsense, it is not possible.

    Raises `PluginError` if the check's own members are invalid.
    """
    place = f"plugin '{plugin}': check '{check.id}'"
    if check.effect not in get_args(Effect):
        raise PluginError(f"{place}: effect is {check.effect!r}, expected one of {', '.join(get_args(Effect))}")

    def test(evidence: Evidence) -> Answer:
        try:
            with Call(f"plugin '{plugin}'", f"check '{check.id}'", limit_s=limit_s()):
                answer = check.test(evidence)
        except LlmbxError as error:
            return NotPossible(reason=str(error))
        if answer is None or isinstance(answer, NotPossible) or (isinstance(answer, str) and answer):
            return answer
        return NotPossible(reason=f"{place} returned {describe_type(answer)}, expected a line, NotPossible or None")

    return dataclasses.replace(check, id=f"{plugin}{OWN_CHECK}{check.id}", test=test)


def failed_check(plugin: str, reason: str) -> Check:
    """Stands for the checks of a plugin that could not be asked for them."""
    return Check(
        id=f"{plugin}{OWN_CHECK}checks", reads="", means="", do="", effect="warning",
        test=lambda _: NotPossible(reason=reason),
    )  # fmt: skip
